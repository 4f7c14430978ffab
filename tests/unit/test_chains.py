"""internal.chains: row-wise helpers that never mix chains."""

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains

NAN, INF = float('nan'), float('inf')


def test_count_is_static_where_it_can_be():
    assert chains.count(tf.zeros([4, 2])) == 4
    assert isinstance(chains.count(tf.zeros([4, 2])), int)

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
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
