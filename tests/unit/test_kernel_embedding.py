"""proposals.kernel_embedding: against a dense twin, and its balance of flows."""

import functools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tfp_adaptive import kernel_functions
from tfp_adaptive.internal import low_rank_normal
from tfp_adaptive.proposals import kernel_embedding
from tfp_adaptive.typing import ChainState, Event, LogDensity

SIZES = [(2, 7), (7, 2), (5, 5), (1, 3), (3, 1)]
FUNCTIONS = {
    'linear': kernel_functions.linear(),
    'gaussian': kernel_functions.gaussian(),
    'matern': kernel_functions.matern(2.5),
}
"""Bessel functions, of which other orders are made, take a second a call."""


def dense_covariance(function, points, scale, noise_scale, position):
    """R as printed, one matrix product after the other."""
    slopes = 2 * function.gradient(tf.constant(position), tf.constant(points)).numpy().T
    count = len(points)
    centring = np.eye(count) - np.ones([count, count]) / count
    return noise_scale**2 * np.eye(len(position)) + scale**2 * slopes @ centring @ slopes.T


def target_of(value, size):
    return LogDensity(value, None, None, None, Event((size,), (0,)))


@pytest.mark.parametrize(('size', 'num_directions'), SIZES)
@pytest.mark.parametrize('jit_compile', [False, True])
def test_low_rank_density_is_the_dense_one(size, num_directions, jit_compile, rng):
    root, deviation = rng.normal(size=[4, num_directions, size]), rng.normal(size=[4, size])
    density = tf.function(low_rank_normal.log_prob, jit_compile=jit_compile, autograph=False)
    actual = density(tf.constant(0.3, tf.float64), tf.constant(root), tf.constant(deviation))
    expected = [
        scipy.stats.multivariate_normal(cov=0.09 * np.eye(size) + u.T @ u).logpdf(v)
        for u, v in zip(root, deviation, strict=True)
    ]
    np.testing.assert_allclose(actual + low_rank_normal.constant(size), expected, rtol=1e-9)


@pytest.mark.parametrize(('size', 'num_points'), [(20, 3), (4, 4), (4, 9), (9, 4)])
@pytest.mark.parametrize('num_distinct', [9, 2])
def test_a_small_noise_costs_no_precision(size, num_points, num_distinct, rng):
    """In single precision, at a ratio of scales of 1e-4, of a centred cloud with points twice."""
    root = rng.normal(size=[200, num_points, size])[:, np.arange(num_points) % num_distinct]
    root -= np.mean(root, axis=1, keepdims=True)
    white, directions = rng.normal(size=[200, size]), rng.normal(size=[200, num_points])
    deviation = low_rank_normal.draw(1e-4, *(tf.constant(x) for x in (root, white, directions)))
    single, double = (
        low_rank_normal.log_prob(
            tf.constant(1e-4, dtype), tf.cast(root, dtype), tf.cast(deviation, dtype)
        )
        for dtype in (tf.float32, tf.float64)
    )
    # where all directions are covered the noise is no more than a ridge, and the scale is 1
    np.testing.assert_allclose(single, double, atol=0.1)
    np.testing.assert_allclose(double, _by_singular_values(1e-4, root, deviation), atol=1e-3)


def _by_singular_values(noise_scale, root, deviation):
    """The same without a matrix that is squared."""
    _, values, vectors = np.linalg.svd(root, full_matrices=True)
    size = root.shape[-1]
    values = np.pad(values, [[0, 0], [0, size - values.shape[1]]])
    variances = noise_scale**2 + values**2
    along = np.einsum('cij,cj->ci', vectors, np.asarray(deviation))
    return -0.5 * np.sum(along**2 / variances + np.log(variances), axis=-1)


@pytest.mark.parametrize(('size', 'num_points'), SIZES)
@pytest.mark.parametrize('name', FUNCTIONS)
def test_moves_have_the_printed_ratio(name, size, num_points, rng):
    """The energy change is that of the dense twin with SciPy's densities."""
    function = FUNCTIONS[name]
    points, positions = rng.normal(size=[num_points, size]), rng.normal(size=[3, size])
    log_prob = functools.partial(_log_prob, tf.constant(rng.normal(size=size)))
    embedding = kernel_embedding.Embedding(
        *(tf.constant(x, tf.float64) for x in (points, 0.7, 0.3))
    )
    position = tf.constant(positions)
    state = ChainState(position, log_prob(position), position[:, :0])
    noise = kernel_embedding.draw(num_points, tf.constant([1, 2]), 3, size, tf.float64)
    one = tf.constant(1.0, tf.float64)
    target = target_of(log_prob, size)
    move = kernel_embedding.propose(function.gradient, target, embedding, one, state, noise)
    proposed = move.proposed.position.numpy()
    for chain in range(3):
        there, back = (
            scipy.stats.multivariate_normal(
                cov=dense_covariance(function, points, 0.7, 0.3, place)
            ).logpdf(proposed[chain] - positions[chain])
            for place in (positions[chain], proposed[chain])
        )
        rise = (move.proposed.log_prob - state.log_prob).numpy()[chain]
        np.testing.assert_allclose(-move.energy_change[chain], rise + back - there, rtol=1e-8)


def _log_prob(shift, x):
    return -tf.reduce_sum(tf.abs(x - shift), axis=-1)


def test_moves_have_the_printed_covariance(seed):
    function = kernel_functions.gaussian()
    points = np.array([[1.0, 0.5], [-1.0, 2.0], [0.3, -0.2]])
    embedding = kernel_embedding.Embedding(
        *(tf.constant(x, tf.float64) for x in (points, 0.7, 0.3))
    )
    count, place = 200_000, np.array([0.4, 0.1])
    position = tf.broadcast_to(tf.constant(place), [count, 2])
    state = ChainState(position, tf.zeros([count], tf.float64), position[:, :0])
    noise = kernel_embedding.draw(3, tf.constant([seed, 0]), count, 2, tf.float64)
    target = target_of(lambda x: 0 * x[:, 0], 2)
    one = tf.constant(1.0, tf.float64)
    move = kernel_embedding.propose(function.gradient, target, embedding, one, state, noise)
    covariance = dense_covariance(function, points, 0.7, 0.3, place)
    step = (move.proposed.position - position).numpy()
    white = np.linalg.solve(np.linalg.cholesky(covariance), step.T)
    errors = (white @ white.T / count - np.eye(2)) * np.sqrt(count / 2)
    assert np.max(np.abs(errors)) < 5


def test_the_linear_function_makes_a_plain_walk(rng):
    """R is the same everywhere: gamma^2 I + 4 nu^2 (m - 1) S_z."""
    function, points = kernel_functions.linear(), rng.normal(size=[6, 2])
    covariance = dense_covariance(function, points, 0.5, 0.2, rng.normal(size=2))
    expected = 0.04 * np.eye(2) + 4 * 0.25 * 5 * np.cov(points.T)
    np.testing.assert_allclose(covariance, expected, rtol=1e-10)
