"""Triangular factors: products and solves by blocks, and gradients in raw entries."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.internal import triangular
from tfp_adaptive.typing import Pairs

SIZES = [1, 7, 20, 21, 45]
"""Less than a block, one block, a block and a bit, several."""


def _factor(rng, size, batch_shape=()):
    noise = 0.3 * rng.normal(size=[*batch_shape, size, size])
    return np.tril(noise, -1) + np.eye(size) * rng.uniform(0.5, 2, size=[*batch_shape, size, 1])


@pytest.mark.parametrize('size', [0, 1, 48, 49, 64, 65, 128, 129, 300])
@pytest.mark.parametrize('batch_shape', [(), (3,)])
def test_product(rng, size, batch_shape):
    """One block, blocks that fit, and a last one that does not."""
    left, right = _factor(rng, size, batch_shape), _factor(rng, size, batch_shape)
    found = triangular.product(tf.constant(left), tf.constant(right))
    np.testing.assert_allclose(found, left @ right, rtol=1e-12, atol=1e-12 * size)
    assert not np.triu(found, 1).any()


def test_product_compiled_and_differentiated(rng):
    """In single precision, and with slopes in both factors."""
    left, right, slope = (x.astype(np.float32) for x in _factor(rng, 65, (3,)))

    @tf.function(jit_compile=True, autograph=False)
    def product_and_slopes(left, right):
        with tf.GradientTape() as tape:
            tape.watch([left, right])
            product = triangular.product(left, right)
        return product, *tape.gradient(product, [left, right], slope)

    found, *slopes = product_and_slopes(tf.constant(left), tf.constant(right))
    np.testing.assert_allclose(found, left @ right, rtol=1e-4, atol=1e-4)
    for actual, expected in zip(slopes, (slope @ right.T, left.T @ slope), strict=True):
        np.testing.assert_allclose(np.tril(actual), np.tril(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(('devices', 'count'), [(['CPU'], 3), (['CPU', 'GPU'], 1)])
def test_product_is_one_where_an_accelerator_is_seen(devices, count, monkeypatch):
    found = [tf.config.PhysicalDevice(f'/device:{kind}:0', kind) for kind in devices]
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda: found)
    program = tf.function(lambda x: triangular.product(x, x), autograph=False)
    graph = program.get_concrete_function(tf.TensorSpec([80, 80])).graph
    assert [operation.type for operation in graph.get_operations()].count('MatMul') == count


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize('batch_shape', [(), (3,)])
def test_solve_from_right(rng, size, batch_shape):
    factor, expected = _factor(rng, size, batch_shape), rng.normal(size=[*batch_shape, 4, size])
    found = triangular.solve_from_right(tf.constant(factor), tf.constant(expected @ factor))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize('num_pairs', [0, 3, 60])
def test_euclidean_gradient_is_the_relative_one_pulled_back(rng, size, num_pairs):
    """A functional of A is one of the change C A of the factor: [C^{-T} sum left right^T]_low."""
    factor = _factor(rng, size)
    left, right = rng.normal(size=[2, num_pairs, size])
    pairs = Pairs((tf.constant(left),), (tf.constant(right),))
    expected = np.tril(np.linalg.solve(factor.T, left.T @ right))
    found = triangular.euclidean_gradient(tf.constant(factor), pairs)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_euclidean_gradient_of_an_unknown_number_of_pairs(rng):
    factor, (left, right) = _factor(rng, 30), rng.normal(size=[2, 50, 30])

    @tf.function(input_signature=[tf.TensorSpec([None, 30], tf.float64)] * 2, autograph=False)
    def gradient(left, right):
        return triangular.euclidean_gradient(tf.constant(factor), Pairs((left,), (right,)))

    expected = np.tril(np.linalg.solve(factor.T, left.T @ right))
    np.testing.assert_allclose(gradient(left, right), expected, rtol=1e-8, atol=1e-8)
