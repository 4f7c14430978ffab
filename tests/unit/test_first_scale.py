"""tuning.first_scale on Gaussians, whose scales and curvatures are known."""

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.problems import packed
from tfp_adaptive.tuning import first_scale

SCALES = np.geomspace(1e-6, 1e6, 7)


def scale_of(log_prob_fn, position, may_differ=True):
    target = packed(log_prob_fn, position)

    @tf.function(autograph=False, jit_compile=True)
    def run(position):
        return first_scale.first_scale(target, position, tf.constant(may_differ))

    return run(position).numpy()


def scaled(x):
    scales = tf.constant(SCALES, x.dtype)
    return -tf.reduce_sum((x / scales - 3) ** 2, axis=-1) / 2


def twin(position, score):
    """Median absolute deviations by NumPy."""

    def spread(x):
        return np.median(np.abs(x - np.median(x, axis=0)), axis=0)

    return np.sqrt(spread(position) / spread(score))


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize('num_chains', [4, 7, 10])
def test_it_is_exact_where_coordinates_are_independent(num_chains, dtype, rng):
    # however the chains are spread: here by a factor of ten between coordinates
    spread = rng.uniform(0.3, 3, size=len(SCALES))
    position = SCALES * (3 + spread * rng.normal(size=[num_chains, len(SCALES)]))
    found = scale_of(scaled, tf.constant(position, dtype))
    # the curvature is 1 in every direction, so the stable factor is 1
    np.testing.assert_allclose(found, SCALES, rtol=0.02 if dtype == 'float32' else 1e-6)


def test_a_stray_chain_and_one_without_a_score_change_nothing(rng):
    position = SCALES * rng.normal(size=[20, len(SCALES)])
    position[3] += 1e3 * SCALES

    def walled(x):
        return tf.where(x[..., 0] > 10 * SCALES[0], np.inf - x[..., 0], scaled(x))

    position[7, 0] = 20 * SCALES[0]
    position[3, 0] = 0
    found = scale_of(walled, tf.constant(position))
    np.testing.assert_allclose(found, SCALES, rtol=1e-6)


def test_it_is_stable_where_coordinates_are_correlated(rng):
    """Leapfrog steps shorter than 2 / sqrt(largest curvature) are stable."""
    size = 12
    units = np.geomspace(1e-3, 1e3, size)
    covariance = 0.05 * np.eye(size) + 0.95
    precision = np.linalg.inv(covariance) / np.outer(units, units)
    position = units * rng.multivariate_normal(np.zeros(size), covariance, size=30)

    def log_prob(x):
        return -tf.einsum('ci,ij,cj->c', x, tf.constant(precision), x) / 2

    found = scale_of(log_prob, tf.constant(position))
    expected = twin(position, -position @ precision)
    ratio = found / expected
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
    largest = np.linalg.eigvalsh(precision * np.outer(found, found))[-1]
    assert 0.5 < largest < 4


@pytest.mark.parametrize(('num_chains', 'may_differ'), [(3, True), (10, False)])
def test_coordinates_may_share_one_scale(num_chains, may_differ, rng):
    position = tf.constant(SCALES * rng.normal(size=[num_chains, len(SCALES)]))
    found = scale_of(scaled, position, may_differ)
    np.testing.assert_allclose(found, found[0])
    assert np.isfinite(found[0])
    assert found[0] > 0


def test_coordinates_without_a_slope_take_the_middle(rng):
    def flat_in_one(x):
        scales = tf.constant(SCALES, x.dtype)
        has_slope = tf.constant(np.arange(len(SCALES)) != 2, x.dtype)
        return -tf.reduce_sum(has_slope * (x / scales - 3) ** 2, axis=-1) / 2

    position = SCALES * (3 + rng.normal(size=[10, len(SCALES)]))
    found = scale_of(flat_in_one, tf.constant(position))
    others = np.delete(SCALES, 2)
    np.testing.assert_allclose(np.delete(found, 2), others, rtol=1e-6)
    np.testing.assert_allclose(found[2], np.exp(np.log(others).mean()), rtol=1e-6)
