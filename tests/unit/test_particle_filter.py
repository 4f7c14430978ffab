"""Particle filters against the Kalman filter of a linear Gaussian model."""

import functools
import re

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


def make(num_particles, transition=bootstrap, **settings):
    return estimators.particle_filter(
        lambda z, theta: z,
        transition,
        observe,
        tf.constant(DATA),
        num_particles,
        is_guided=transition is guided,
        **settings,
    )


def draw(estimator, num, seed, stream=0):
    return tf.random.stateless_normal([num, estimator.noise_size], [seed, stream], dtype='float64')


@pytest.mark.parametrize('transition', [bootstrap, guided])
def test_the_estimate_is_unbiased(transition, seed):
    estimator = make(20, transition)
    theta = tf.fill([5000], tf.constant(THETA, tf.float64))
    value = tf.function(estimator.log_likelihood, autograph=False)(
        draw(estimator, 5000, seed), theta
    )
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


def slow_ancestors(x, weights, uniform):
    """Of one cloud, level by level."""
    order = np.argsort(x, kind='stable')
    edges = np.cumsum(weights[order])
    levels = (uniform + np.arange(x.size)) / x.size
    return [order[next(m for m in range(x.size) if edges[m] >= level)] for level in levels]


@pytest.mark.parametrize('sort', [True, False])
@pytest.mark.parametrize('num_particles', [9, 70])
def test_systematic_resampling_against_its_slow_twin(num_particles, sort, seed):
    """Few particles are compared with each other, many are sorted."""
    from tfp_adaptive.estimators.particle_filter import _Cloud, resampled

    rng = np.random.default_rng(seed)
    x = rng.standard_normal([3, 2, num_particles, 2])
    # some first coordinates are the same
    x[..., 0] = np.round(x[..., 0], 1)
    log_weights, v = rng.normal(size=[3, 2, num_particles]), rng.random([3, 2])
    cloud = _Cloud(tf.constant(x), tf.constant(log_weights), tf.constant(x))
    result, _, carried = resampled(cloud, tf.constant(v), sort)
    np.testing.assert_array_equal(carried, result)
    weights = np.exp(log_weights) / np.exp(log_weights).sum(axis=-1, keepdims=True)
    for index in np.ndindex(3, 2):
        key = x[index][:, 0] if sort else np.arange(num_particles)
        ancestors = slow_ancestors(key, weights[index], v[index])
        np.testing.assert_array_equal(result[index], x[index][ancestors])


def test_a_last_level_that_rounding_lifts_above_all_weights():
    """The sum of ten times 0.1 in float32 may miss the level: the last particle is its ancestor."""
    from tfp_adaptive.estimators.resampling import ancestors_by_counting, ancestors_by_sorting

    x = tf.constant(np.arange(10)[::-1].copy(), tf.float32)
    weights, uniform = tf.fill([10], np.float32(0.09999)), tf.constant(np.float32(1 - 1e-7))
    for find in (ancestors_by_counting, ancestors_by_sorting):
        ancestors = find(x, weights, uniform)
        assert ancestors[-1] == 0, find
        np.testing.assert_array_equal(np.sort(ancestors)[::-1], ancestors)


@pytest.mark.parametrize('batch', [[], [3]])
def test_resampling_compares_no_particle_with_every_other(batch):
    """Its program has no array of 1,013 by 1,013, which `searchsorted` would be compiled to."""
    from tfp_adaptive.estimators.particle_filter import _Cloud, resampled

    cloud = _Cloud(tf.zeros([*batch, 1013, 1]), tf.zeros([*batch, 1013]), ())
    program = tf.function(lambda *a: resampled(*a).particles, jit_compile=True, autograph=False)
    text = program.experimental_get_compiler_ir(cloud, tf.fill(batch, 0.5))(stage='hlo')
    assert '1013' in text
    assert not re.search(r'\[[\d,]*1013,1013\b', text)


def initial_density(x, theta):
    del theta
    return -tf.square(x[..., 0]) / 2


def transition_density(new, x, last, now, theta):
    del last, now
    return -tf.square(new - theta[..., None, None] * x)[..., 0] / 2


DENSITIES = dict(initial_log_prob_fn=initial_density, transition_log_prob_fn=transition_density)


def value_and_score(estimator, noise, theta):
    with tf.GradientTape() as tape:
        tape.watch(theta)
        value = estimator.log_likelihood(noise, theta)
    return value, tape.gradient(value, theta)


@functools.cache
def smoothed(transition, lag):
    """(noise, theta) -> (value, score) of twenty particles."""
    estimator = make(20, transition, lag=lag, **DENSITIES)
    return tf.function(functools.partial(value_and_score, estimator), autograph=False)


@pytest.mark.parametrize('transition', [bootstrap, guided])
def test_the_smoothed_score_is_that_of_kalman(transition, seed):
    """E[p-hat times its score] = grad p, with a lag as long as the series."""
    estimator = make(20, transition, lag=6, **DENSITIES)
    theta = tf.fill([20_000], tf.constant(THETA, tf.float64))
    value, score = smoothed(transition, 6)(draw(estimator, 20_000, seed), theta)
    np.testing.assert_allclose(
        value[:9], make(20, transition).log_likelihood(draw(estimator, 20_000, seed)[:9], theta[:9])
    )
    slope = (kalman(THETA + 1e-5) - kalman(THETA - 1e-5)) / 2e-5
    terms = np.exp(value - kalman()) * score
    z = (np.mean(terms) - slope) / (np.std(terms) / np.sqrt(20_000))
    assert abs(z) < largest_z(1)
    # the test can tell: with ancestors held fixed the derivative is another one
    other = tf.function(value_and_score, autograph=False)(
        make(20, transition), draw(estimator, 20_000, seed), theta
    )[1]
    assert abs(np.mean(np.exp(value - kalman()) * other) - slope) > 5 * np.std(terms) / 141


def test_the_smoothed_score_holds_particles_fixed(seed):
    """All particles move with theta, but only one term of the densities, theta itself, does."""
    estimator = estimators.particle_filter(
        lambda z, theta: theta[..., None, None] * z,
        bootstrap,
        observe,
        tf.constant(DATA),
        5,
        initial_log_prob_fn=lambda x, theta: initial_density(x, theta) + theta[..., None],
        transition_log_prob_fn=lambda new, x, last, now, theta: initial_density(new, theta),
        lag=2,
    )
    theta = tf.fill([3], tf.constant(THETA, tf.float64))
    _, score = value_and_score(estimator, draw(estimator, 3, seed), theta)
    np.testing.assert_allclose(score, 1.0)


def test_the_smoothed_score_where_particles_have_no_weight(seed):
    """Rounded data: a particle that rounds to another number has density zero, at the end too."""

    def rounds(y, x, theta):
        del theta
        return tf.where(tf.abs(x[..., 0] - y) < 1, tf.zeros_like(x[..., 0]), -np.inf)

    plain, smooth = (
        estimators.particle_filter(
            lambda z, theta: z, bootstrap, rounds, tf.constant([0.2, -0.4, 0.3]), 20, **settings
        )
        for settings in ({}, {'lag': 1, **DENSITIES})
    )
    noise, theta = draw(plain, 50, seed), tf.fill([50], tf.constant(THETA, tf.float64))
    expected = plain.log_likelihood(noise, theta)
    assert np.all(np.isfinite(expected))
    value, score = value_and_score(smooth, noise, theta)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert np.all(np.isfinite(score))


def test_a_shorter_lag_is_less_noisy(seed):
    """Long ancestries share few ancestors."""
    noise = draw(make(20), 20_000, seed)
    theta = tf.fill([20_000], tf.constant(THETA, tf.float64))
    spread = [np.var(smoothed(bootstrap, lag)(noise, theta)[1]) for lag in (1, 6)]
    assert spread[0] < spread[1]


def test_the_smoothed_score_in_xla(seed):
    estimator = make(10, lag=3, **DENSITIES)
    noise, theta = draw(estimator, 4, seed), tf.fill([4], tf.constant(THETA, tf.float64))
    eager = value_and_score(estimator, noise, theta)
    compiled = tf.function(value_and_score, jit_compile=True, autograph=False)(
        estimator, noise, theta
    )
    for one, other in zip(compiled, eager, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


@pytest.mark.parametrize('batch', [[], [3], [2, 2]])
def test_chain_dimensions_and_xla(batch, seed):
    estimator = make(10)
    noise = tf.random.stateless_normal([*batch, estimator.noise_size], [seed, 1], dtype='float64')
    theta = tf.fill(batch, tf.constant(THETA, tf.float64))
    eager = estimator.log_likelihood(noise, theta)
    assert eager.shape == batch
    compiled = tf.function(estimator.log_likelihood, jit_compile=True, autograph=False)(
        noise, theta
    )
    np.testing.assert_allclose(compiled, eager, rtol=1e-9)


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({'num_particles': 0}, '`num_particles`'),
        ({'state_size': 0}, '`state_size`'),
        ({'lag': 0}, '`lag`'),
    ],
)
def test_misuse(settings, words):
    with pytest.raises(ValueError, match=words):
        estimators.particle_filter(lambda z: z, bootstrap, observe, [0.0], **settings)
    with pytest.raises(ValueError, match='`transition_log_prob_fn`'):
        make(3, initial_log_prob_fn=initial_density)
    with pytest.raises(ValueError, match='`observations`'):
        estimators.particle_filter(lambda z: z, bootstrap, observe, [])


@pytest.mark.parametrize('chains', [1, 5, 7])
@pytest.mark.parametrize(
    ('name', 'change'),
    [
        ('transition_fn', lambda value: value[..., 0]),
        ('observation_log_prob_fn', lambda value: value[..., tf.newaxis]),
    ],
)
def test_shapes_that_would_broadcast_are_refused(name, change, chains):
    """With as many particles as chains the result would be another number, without a word."""
    functions = {
        'initial_fn': lambda z, x: z,
        'transition_fn': lambda z, last_x, last, now, x: 0.8 * last_x + z,
        'observation_log_prob_fn': lambda y, z, x: -tf.square(y - z[..., 0]),
    }
    whole = functions[name]
    functions[name] = lambda *values: change(whole(*values))
    estimator = estimators.particle_filter(
        **functions, observations=np.ones(3, np.float32), num_particles=5
    )
    noise = tf.zeros([chains, estimator.noise_size])
    with pytest.raises(ValueError, match=f'`{name}` must return shape'):
        estimator.log_likelihood(noise, tf.zeros([chains]))
