"""internal.chains: row-wise helpers; but for `is_finite` nothing mixes chains."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.internal import chains

NAN, INF = float('nan'), float('inf')


def test_count_is_static_where_it_can_be():
    assert chains.count(tf.zeros([4, 2])) == 4
    assert isinstance(chains.count(tf.zeros([4, 2])), int)

    @tf.function(input_signature=[tf.TensorSpec([None, 2])], autograph=False)
    def count(x):
        return chains.count(x)

    assert count(tf.zeros([5, 2])) == 5


def test_where_selects_whole_rows():
    mask = tf.constant([True, False])
    yes, no = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[5.0, 6.0], [7.0, 8.0]])
    np.testing.assert_array_equal(chains.where(mask, yes, no), [[1, 2], [7, 8]])
    np.testing.assert_array_equal(chains.where(mask, yes[:, 0], no[:, 0]), [1, 7])


def test_where_does_not_confuse_chains_with_coordinates():
    """C = D is the shape where a mask without its new axis would broadcast silently."""
    mask = tf.constant([True, False])
    np.testing.assert_array_equal(
        chains.where(mask, tf.ones([2, 2]), tf.zeros([2, 2])), [[1, 1], [0, 0]]
    )


def test_keep_removes_nan_from_values_and_gradients():
    x = tf.constant([[1.0, 2.0], [NAN, INF]])
    kept = chains.keep(chains.all_finite(x), x)
    np.testing.assert_array_equal(kept, [[1, 2], [0, 0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_sum(chains.squared_norm(chains.keep(chains.all_finite(x), x)))
    np.testing.assert_array_equal(tape.gradient(value, x), [[2, 4], [0, 0]])


def test_per_chain():
    assert chains.per_chain(tf.constant(2.0)).shape == ()
    assert chains.per_chain(tf.zeros([4])).shape == (4, 1)
    assert chains.per_chain(tf.zeros([2, 3, 1])).shape == (6, 1)


def test_all_finite():
    x = tf.constant([[1.0, 2.0], [NAN, 1.0], [1.0, INF], [-INF, 1.0]])
    np.testing.assert_array_equal(chains.all_finite(x), [True, False, False, False])


def test_squared_norm():
    np.testing.assert_array_equal(chains.squared_norm(tf.constant([[3.0, 4.0], [0, 1]])), [25, 1])


def test_drop_nonfinite_gradient():
    x = tf.constant([0.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.sqrt(chains.drop_nonfinite_gradient(x))
    np.testing.assert_array_equal(value, [0, 2])
    np.testing.assert_array_equal(tape.gradient(value, x), [0, 0.25])


@pytest.mark.parametrize('devices', [['CPU'], ['CPU', 'GPU']])
@pytest.mark.parametrize('jit_compile', [False, True])
@pytest.mark.parametrize('size', [0, 1, 7, 1000])
def test_sums_of_rows(size, jit_compile, devices, rng, monkeypatch):
    """Both ways to add, the one for CPUs and the one for accelerators; against exact sums."""
    found = [tf.config.PhysicalDevice(f'/device:{kind}:0', kind) for kind in devices]
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda: found)
    x = rng.normal(size=[4, size])
    compiled = tf.function(chains.sum_of_row, jit_compile=jit_compile, autograph=False)
    expected = [math.fsum(row) for row in x]
    np.testing.assert_allclose(compiled(tf.constant(x)), expected, rtol=1e-12, atol=1e-12)
    squares = tf.function(chains.squared_norm, jit_compile=jit_compile, autograph=False)
    np.testing.assert_allclose(
        squares(tf.constant(x)), [math.fsum(row**2) for row in x], rtol=1e-12
    )


def test_no_product_adds_rows_where_products_round(monkeypatch):
    """Tensor cores may cut a float32 to ten bits: there an energy is added up, not multiplied."""
    kinds = []
    for devices in (['CPU'], ['CPU', 'GPU']):
        found = [tf.config.PhysicalDevice(f'/device:{kind}:0', kind) for kind in devices]
        monkeypatch.setattr(tf.config, 'list_physical_devices', lambda found=found: found)
        program = tf.function(lambda x: chains.squared_norm(x), autograph=False)
        graph = program.get_concrete_function(tf.TensorSpec([4, 7])).graph
        kinds.append({operation.type for operation in graph.get_operations()})
    assert 'MatMul' in kinds[0]
    assert 'MatMul' not in kinds[1]


@pytest.mark.parametrize('culprit', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('jit_compile', [False, True])
def test_finite_rows_are_told_from_others(jit_compile, culprit):
    """Also where finite entries would overflow if they were added."""
    x = np.full([3, 130], 3e38, np.float32)
    x[1, 77] = culprit
    compiled = tf.function(chains.all_finite, jit_compile=jit_compile, autograph=False)
    np.testing.assert_array_equal(compiled(tf.constant(x)), [True, False, True])
    everything = tf.function(chains.is_finite, jit_compile=jit_compile, autograph=False)
    assert not everything(tf.constant(x))
    assert everything(tf.constant(x[[0, 2]]))
    assert everything(tf.constant(np.tile(x[[0, 2]], [3, 1, 1])))
    assert not everything(tf.constant(np.tile(x, [3, 1, 1])))
    for shape in ([], [0], [0, 3], [3, 0], [0, 0]):
        assert everything(tf.zeros(shape))
    assert not everything(tf.constant(culprit))
