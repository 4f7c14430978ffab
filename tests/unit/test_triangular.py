"""Triangular factors: solves by blocks and gradients in raw entries."""

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

    @tf.function(input_signature=[tf.TensorSpec([None, 30], tf.float64)] * 2)
    def gradient(left, right):
        return triangular.euclidean_gradient(tf.constant(factor), Pairs((left,), (right,)))

    expected = np.tril(np.linalg.solve(factor.T, left.T @ right))
    np.testing.assert_allclose(gradient(left, right), expected, rtol=1e-8, atol=1e-8)
