"""The random effects experiment: its exact answer, and the measure that lanes fool."""

import numpy as np
import pytest
import tensorflow as tf

from experiments.pseudo_marginal import distance, published_inefficiency
from experiments.targets.random_effects import TRUTH, random_effects

NUM_OBSERVATIONS = 30


def data(seed):
    scale = np.sqrt(1 + np.exp(2 * TRUTH[1]))
    return TRUTH[0] + scale * np.random.default_rng(seed).standard_normal(NUM_OBSERVATIONS)


def test_moments_by_another_integral():
    """With the mean integrated out in closed form, and a sum over log sigma alone."""
    y = data(3)
    count, mean = len(y), np.mean(y)
    log_sigma = np.linspace(-20, 3, 20_001)
    variance = 1 + np.exp(2 * log_sigma)
    spread = 1 + variance / count
    log_density = (
        -(count - 1) / 2 * np.log(variance)
        - np.sum((y - mean) ** 2) / (2 * variance)
        - np.log(spread) / 2
        - mean**2 / (2 * spread)
        - np.log1p(np.exp(2 * log_sigma))
        + log_sigma
    )
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    inner_variance = 1 / (count / variance + 1)
    inner_mean = inner_variance * count * mean / variance
    first = np.array([np.sum(weights * x) for x in (inner_mean, log_sigma)])
    second = np.array([np.sum(weights * x) for x in (inner_mean**2 + inner_variance, log_sigma**2)])
    reference = random_effects(NUM_OBSERVATIONS, 3).reference
    np.testing.assert_allclose(reference.mean, first, rtol=1e-3)
    np.testing.assert_allclose(reference.sd, np.sqrt(second - first**2), rtol=1e-3)


def test_joint_density_integrates_to_that_of_the_data():
    model = random_effects(NUM_OBSERVATIONS, 3)
    theta = tf.constant([0.5, -0.3], tf.float64)
    effects = np.linspace(-12, 12, 4001)
    grid = tf.constant(np.tile(effects, [NUM_OBSERVATIONS, 1]))
    found = np.sum(np.exp(model.joint(grid, theta)), axis=-1) * (effects[1] - effects[0])
    variance = 1 + np.exp(2 * -0.3)
    expected = np.exp(-((data(3) - 0.5) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(('num_lanes', 'low', 'high'), [(1, 60, 140), (25, 4, 25)])
def test_interleaved_lanes_look_better_than_they_are(rng, num_lanes, low, high):
    """An inefficiency of 99, (1 + r) / (1 - r), of which 25 lanes show 250 / 25 lags."""
    share, num_steps = 0.98, 8000
    lanes = np.zeros([num_steps, num_lanes, 4, 1])
    lanes[0] = rng.normal(size=lanes[0].shape)
    for step in range(1, num_steps):
        noise = rng.normal(size=lanes[0].shape)
        lanes[step] = share * lanes[step - 1] + np.sqrt(1 - share**2) * noise
    draws = lanes.reshape(num_steps * num_lanes, 4, 1)
    assert low < published_inefficiency(draws) < high


def test_distance_is_in_standard_errors_of_the_difference(rng):
    """Of two sets of independent draws, of 4,000 and of 1,000, with one mean 0.2 apart."""
    first, other = rng.normal(size=[1000, 4, 2]), rng.normal(size=[500, 2, 2])
    first -= first.mean(axis=(0, 1))
    other -= other.mean(axis=(0, 1))
    other[..., 1] += 0.2
    expected = 0.2 / np.sqrt(1 / 4000 + 1 / 1000)
    np.testing.assert_allclose(distance(first, other), expected, rtol=0.1)
