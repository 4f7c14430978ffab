"""The limited-memory matrix against the dense one, built by the recursion that defines it."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.internal import lbfgs

NUM_CHAINS, NUM_PAIRS, NUM_DIMS = 3, 4, 6


def dense(memory, chain):
    """H by its recursion, with D x D matrices."""
    steps, changes, curvature, scale = (np.asarray(x[chain]) for x in memory)
    matrix = scale * np.eye(steps.shape[-1])
    for s, y, sy in zip(steps, changes, curvature, strict=True):
        if sy > 0:
            v = np.eye(len(s)) - np.outer(y, s) / sy
            matrix = v.T @ matrix @ v + np.outer(s, s) / sy
    return matrix


@pytest.fixture
def memory(rng):
    """Chains with 0, 2 and more than all pairs, of quadratics with scales from 1e-2 to 1e2."""
    scales = np.geomspace(1e-2, 1e2, NUM_DIMS)
    found = lbfgs.empty(tf.zeros([NUM_CHAINS, NUM_DIMS], tf.float64), tf.ones([3], tf.float64), 4)
    for index in range(NUM_PAIRS + 2):
        step = tf.constant(rng.normal(size=[NUM_CHAINS, NUM_DIMS]))
        is_new = tf.constant([False, index < 2, True])
        found = lbfgs.push(found, is_new, step, step / scales**2)
    return found


def test_product(memory, rng):
    x = rng.normal(size=[NUM_CHAINS, NUM_DIMS])
    expected = [dense(memory, chain) @ x[chain] for chain in range(NUM_CHAINS)]
    np.testing.assert_allclose(lbfgs.product(memory, tf.constant(x)), expected, rtol=1e-8)


def test_log_det(memory):
    expected = [np.linalg.slogdet(dense(memory, chain))[1] for chain in range(NUM_CHAINS)]
    np.testing.assert_allclose(lbfgs.log_det(memory), expected, rtol=1e-8, atol=1e-10)


def test_log_det_in_single_precision(rng):
    """Curvatures that differ by 1e8 in two dimensions: the pairs are nearly dependent."""
    scales = np.array([1e-2, 1e2])
    found = lbfgs.empty(tf.zeros([200, 2]), tf.ones([200]), 8)
    for _ in range(8):
        step = tf.constant(
            rng.normal(size=[200, 2]) * scales ** rng.uniform(size=[200, 1]), tf.float32
        )
        found = lbfgs.push(found, tf.fill([200], True), step, step / scales**2)
    double = tf.nest.map_structure(lambda x: tf.cast(x, tf.float64), found)
    expected = [np.linalg.slogdet(dense(double, chain))[1] for chain in range(200)]
    np.testing.assert_allclose(lbfgs.log_det(found), expected, atol=1e-2)


def test_draws_have_the_matrix_for_a_covariance(memory):
    """A draw is linear in its noise, so its covariance is known from unit noises."""
    noise = np.repeat(np.eye(NUM_DIMS + NUM_PAIRS)[:, np.newaxis], NUM_CHAINS, axis=1)
    columns = lbfgs.draw(memory, tf.constant(noise))
    one = lbfgs.draw(memory, tf.constant(noise[0]))
    np.testing.assert_allclose(one, columns[0])
    root = np.stack(columns, axis=-1)
    for chain in range(NUM_CHAINS):
        covariance = root[chain] @ root[chain].T
        np.testing.assert_allclose(covariance, dense(memory, chain), rtol=1e-6, atol=1e-9)


def test_the_newest_secant_holds(memory):
    """H y = s for the last pair, the equation that makes it quasi-Newton."""
    np.testing.assert_allclose(
        lbfgs.product(memory, memory.changes[:, -1])[1:], memory.steps[1:, -1], rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize('change', [-1.0, 0.0, np.nan, np.inf], ids=str)
def test_no_pair_without_positive_curvature(memory, change):
    step = tf.ones([NUM_CHAINS, NUM_DIMS], tf.float64)
    after = lbfgs.push(memory, tf.ones([NUM_CHAINS], tf.bool), step, change * step)
    for x, y in zip(after, memory, strict=True):
        np.testing.assert_array_equal(x, y)


def test_pairs_are_known_up_to_their_length(memory, rng):
    step = tf.constant(rng.normal(size=[NUM_CHAINS, NUM_DIMS]))
    everywhere = tf.ones([NUM_CHAINS], tf.bool)
    short, long = (lbfgs.push(memory, everywhere, a * step, a * 2 * step) for a in (1e-6, 1e6))
    for x, y in zip(short, long, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10)
