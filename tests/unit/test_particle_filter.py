"""Particle filters against the Kalman filter of a linear Gaussian model."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.statistics import largest_z
from tfp_adaptive import estimators

DATA = np.array([0.4, 1.1, -0.3, 0.9, 1.6, 0.2])
THETA = 0.7  # x_t = theta x_{t-1} + z,  y_t = x_t + noise of scale NOISE
NOISE = 0.8


def kalman(theta=THETA):
    mean, variance, total = 0.0, 1.0, 0.0
    for y in DATA:
        spread = variance + NOISE**2
        total -= (np.log(2 * np.pi * spread) + (y - mean) ** 2 / spread) / 2
        gain = variance / spread
        mean, variance = mean + gain * (y - mean), (1 - gain) * variance
        mean, variance = theta * mean, theta**2 * variance + 1
    return total


def observe(y, x, theta):
    del theta
    return -tf.square((y - x[..., 0]) / NOISE) / 2 - np.log(NOISE) - np.log(2 * np.pi) / 2


def bootstrap(z, x, last, now, theta):
    del last, now
    return theta[..., None, None] * x + z


def guided(z, x, last, now, theta):
    """The exact conditional law of x_t given x_{t-1} and y_t."""
    del last
    centre = theta[..., None, None] * x
    variance = NOISE**2 / (1 + NOISE**2)
    new = centre + (now - centre) / (1 + NOISE**2) + variance**0.5 * z
    log_ratio = -tf.square(new - centre) / 2 + tf.square(z) / 2 + np.log(variance) / 2
    return new, log_ratio[..., 0]


def make(num_particles, transition=bootstrap):
    return estimators.particle_filter(
        lambda z, theta: z,
        transition,
        observe,
        tf.constant(DATA),
        num_particles,
        is_guided=transition is guided,
    )


def draw(estimator, num, seed, stream=0):
    return tf.random.stateless_normal([num, estimator.noise_size], [seed, stream], dtype='float64')


@pytest.mark.parametrize('transition', [bootstrap, guided])
def test_the_estimate_is_unbiased(transition, seed):
    estimator = make(20, transition)
    theta = tf.fill([5000], tf.constant(THETA, tf.float64))
    value = tf.function(estimator.log_likelihood)(draw(estimator, 5000, seed), theta)
    ratio = np.exp(value - kalman())
    z = (ratio.mean() - 1) / (ratio.std() / np.sqrt(ratio.size))
    assert abs(z) < largest_z(1)


def test_a_guide_takes_noise_away(seed):
    theta = tf.fill([500], tf.constant(THETA, tf.float64))
    spread = {}
    for transition in (bootstrap, guided):
        estimator = make(20, transition)
        spread[transition] = np.var(estimator.log_likelihood(draw(estimator, 500, seed), theta))
    assert spread[guided] < spread[bootstrap] / 2


def test_close_noises_make_close_estimates(seed):
    """Correlation 0.99 of the noises shows in the estimates; independent noises share nothing."""
    estimator = make(50)
    theta = tf.fill([500], tf.constant(THETA, tf.float64))
    noise, other = (draw(estimator, 500, seed, stream) for stream in (0, 1))
    moved = 0.99 * noise + np.sqrt(1 - 0.99**2) * other
    first, near, far = (estimator.log_likelihood(u, theta) for u in (noise, moved, other))
    assert np.corrcoef(first, near)[0, 1] > 0.7
    assert abs(np.corrcoef(first, far)[0, 1]) < 5 / np.sqrt(500)


def test_systematic_resampling_against_its_slow_twin(seed):
    from tfp_adaptive.estimators.particle_filter import resampled

    rng = np.random.default_rng(seed)
    x, log_weights, v = (
        rng.standard_normal([3, 2, 9, 2]),
        rng.normal(size=[3, 2, 9]),
        rng.random([3, 2]),
    )
    result = resampled(*(tf.constant(a) for a in (x, log_weights, v)))
    for index in np.ndindex(3, 2):
        order = np.argsort(x[index][:, 0])
        weights = np.exp(log_weights[index][order])
        edges = np.cumsum(weights / weights.sum())
        for j in range(9):
            level = (v[index] + j) / 9
            m = next(m for m in range(9) if edges[m] >= level)
            np.testing.assert_array_equal(result[index][j], x[index][order[m]])


@pytest.mark.parametrize('batch', [[], [3], [2, 2]])
def test_chain_dimensions_and_xla(batch, seed):
    estimator = make(10)
    noise = tf.random.stateless_normal([*batch, estimator.noise_size], [seed, 1], dtype='float64')
    theta = tf.fill(batch, tf.constant(THETA, tf.float64))
    eager = estimator.log_likelihood(noise, theta)
    assert eager.shape == batch
    compiled = tf.function(estimator.log_likelihood, jit_compile=True)(noise, theta)
    np.testing.assert_allclose(compiled, eager, rtol=1e-9)


@pytest.mark.parametrize(
    ('settings', 'words'),
    [({'num_particles': 0}, '`num_particles`'), ({'state_size': 0}, '`state_size`')],
)
def test_misuse(settings, words):
    with pytest.raises(ValueError, match=words):
        estimators.particle_filter(lambda z: z, bootstrap, observe, [0.0], **settings)
    with pytest.raises(ValueError, match='`observations`'):
        estimators.particle_filter(lambda z: z, bootstrap, observe, [])
