"""internal.curvature.stable_scale on Gaussians, whose curvature is known."""

import numpy as np
import pytest
import tensorflow as tf

from tests.unit import problems
from tfp_adaptive.internal import curvature


def gaussian(precision):
    def log_prob(q):
        return -tf.reduce_sum(q * tf.linalg.matvec(precision, q), axis=-1) / 2

    return log_prob


def stable_scale(log_prob, position):
    target = problems.packed(log_prob, position)
    return curvature.stable_scale(target, problems.state_at(target, position)).numpy()


@pytest.mark.parametrize('precision', [1e-4, 1.0, 1e6])
def test_isotropic_gaussian(precision, rng):
    position = rng.normal(size=[5, 3]) / np.sqrt(precision)
    scale = stable_scale(gaussian(precision * np.eye(3)), position)
    # rounding of the secant: |score| eps / (precision * offset)
    np.testing.assert_allclose(scale, 1 / np.sqrt(precision), rtol=1e-9)


def test_largest_secant_over_chains(rng):
    """Along u = s / |s| the secant of a Gaussian is |P u| exactly."""
    precision = problems.QuarticWell(4).precision * np.array([[1.0], [3.0], [1.0], [20.0]])
    precision = precision @ precision.T
    position = rng.normal(size=[6, 4])
    score = -position @ precision
    direction = score / np.linalg.norm(score, axis=1, keepdims=True)
    expected = 1 / np.sqrt(np.linalg.norm(direction @ precision, axis=1).max())
    scale = stable_scale(gaussian(precision), position)
    np.testing.assert_allclose(scale, expected, rtol=1e-9)
    largest = np.linalg.eigvalsh(precision).max()
    assert 1 / np.sqrt(largest) <= scale < 1.5 / np.sqrt(largest)


def test_float32_far_from_the_origin(rng):
    """The offset grows with the position, so the secant keeps its digits."""
    position = (1e4 + rng.normal(size=[5, 3])).astype(np.float32)
    scale = stable_scale(lambda q: -tf.reduce_sum((q - 1e4) ** 2, axis=-1) / 2, position)
    np.testing.assert_allclose(scale, 1, rtol=1e-2)


def test_scores_whose_squares_overflow():
    """In single precision: 1e20 each."""
    scale = stable_scale(gaussian(np.float32(1e20) * np.eye(3, dtype='f')), np.ones([4, 3], 'f'))
    np.testing.assert_allclose(scale, 1e-10, rtol=1e-2)


def test_one_where_no_curvature_can_be_seen(rng):
    position = rng.normal(size=[5, 3])
    assert stable_scale(lambda q: tf.reduce_sum(q, axis=-1), position) == 1
    not_a_number = stable_scale(lambda q: tf.math.log(-tf.reduce_sum(q**2, axis=-1)), position)
    assert not_a_number == 1


def test_a_bad_chain_is_left_out(rng):
    position = rng.normal(size=[5, 3])
    position[2] = np.nan
    scale = stable_scale(gaussian(4 * np.eye(3)), position)
    np.testing.assert_allclose(scale, 0.5, rtol=1e-9)


def test_one_gradient(rng):
    position = rng.normal(size=[5, 3])
    target, calls = problems.counting(problems.packed(gaussian(np.eye(3)), position))
    state = problems.state_at(target, position)
    calls.clear()
    curvature.stable_scale(target, state)
    assert len(calls) == 1


def test_walls_and_chains_without_density_are_no_curvature():
    """A likelihood with large scores; beside or beyond a wall its scores count for nothing."""

    def log_prob(q):
        wall = tf.where(tf.reduce_all(q < 1, axis=-1), tf.constant(0.0, q.dtype), -np.inf)
        return 1e6 * tf.reduce_sum(q, axis=-1) - tf.reduce_sum(q**2, axis=-1) / 2 + wall

    inside, beside, outside = np.zeros(3), np.full(3, 1 - 1e-6), np.full(3, 2.0)
    scale = stable_scale(log_prob, np.stack([inside, beside, outside]))
    np.testing.assert_allclose(scale, 1, rtol=1e-5)
