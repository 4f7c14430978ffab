"""Estimates of the likelihood of random effects, against its closed form."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support.statistics import largest_z
from tfp_adaptive import estimators
from tfp_adaptive.internal import log_density

tfd = tfp.distributions
DATA = np.array([0.3, 1.9, -0.4, 1.2])
THETA = np.array([0.6, -0.7])  # mean and log scale of the effects


def joint(x, theta):
    loc, log_scale = theta[..., 0, None, None], theta[..., 1, None, None]
    data = tf.constant(DATA[:, None], x.dtype)
    return tfd.Normal(loc, tf.exp(log_scale)).log_prob(x) + tfd.Normal(x, 1.0).log_prob(data)


def prior_instrument(theta):
    return theta[..., 0, None], tf.exp(theta[..., 1, None])


def fitted_instrument(theta):
    """Close to the law of the effects given the data."""
    share = tf.exp(2 * theta[..., 1, None]) / (1 + tf.exp(2 * theta[..., 1, None]))
    data = tf.constant(DATA, theta.dtype)
    return (1 - share) * theta[..., 0, None] + share * data, 1.3 * tf.sqrt(share)


def exact(theta):
    """y_t ~ N(mu, 1 + sigma^2): value and gradient."""
    loc, variance = theta[0], 1 + np.exp(2 * theta[1])
    residual = DATA - loc
    value = np.sum(-0.5 * np.log(2 * np.pi * variance) - residual**2 / (2 * variance))
    slope = np.sum((variance - 1) * (residual**2 / variance**2 - 1 / variance))
    return value, np.array([np.sum(residual / variance), slope])


def estimates(seed, num, instrument, theta=THETA, **settings):
    estimator = estimators.importance_sampling(joint, instrument, DATA.size, **settings)
    noise = tf.random.stateless_normal([num, estimator.noise_size], [seed, 3], dtype=tf.float64)
    theta = tf.constant(np.tile(theta, [num, 1]))
    value, (score,) = log_density.value_and_gradients(
        lambda x: estimator.log_likelihood(noise, x), [theta]
    )
    return value.numpy(), score.numpy()


@pytest.mark.parametrize('instrument', [prior_instrument, fitted_instrument])
@pytest.mark.parametrize('shared_weights', [False, True])
@pytest.mark.parametrize('score', ['fisher', 'pathwise'])
def test_the_estimate_is_unbiased(instrument, shared_weights, score, seed):
    value, _ = estimates(
        seed, 20_000, instrument, num_particles=5, shared_weights=shared_weights, score=score
    )
    ratio = np.exp(value - exact(THETA)[0])
    z = (ratio.mean() - 1) / (ratio.std() / np.sqrt(ratio.size))
    assert abs(z) < largest_z(1)


@pytest.mark.parametrize('instrument', [prior_instrument, fitted_instrument])
@pytest.mark.parametrize('score', ['fisher', 'pathwise'])
def test_the_weighted_score_is_unbiased(instrument, score, seed):
    """E[p-hat times its score] = grad p for both scores."""
    value, slope = estimates(seed, 20_000, instrument, num_particles=5, score=score)
    log_likelihood, gradient = exact(THETA)
    terms = np.exp(value - log_likelihood)[:, None] * slope
    z = (terms.mean(axis=0) - gradient) / (terms.std(axis=0) / np.sqrt(len(terms)))
    assert np.max(np.abs(z)) < largest_z(2)


def test_effects_of_bounded_support(seed):
    """Draws outside have weight zero, whichever score is asked for."""

    def bounded(x, theta):
        inside = tf.where(x > 0, x, tf.ones_like(x))
        return tf.where(x > 0, joint(inside, theta), -np.inf)

    noise = tf.random.stateless_normal([50, 80], [seed, 3], dtype=tf.float64)
    theta = tf.constant(np.tile(THETA, [50, 1]))
    values = []
    for score in ('fisher', 'pathwise'):
        estimator = estimators.importance_sampling(
            bounded, prior_instrument, DATA.size, 20, score=score
        )
        value, (slope,) = log_density.value_and_gradients(
            functools.partial(estimator.log_likelihood, noise), [theta]
        )
        assert np.all(np.isfinite(value))
        assert np.all(np.isfinite(slope))
        values.append(value)
    np.testing.assert_allclose(*values, rtol=1e-12)


def test_the_second_derivative_is_that_of_louis(seed):
    """E[p-hat (Hessian + score score^T)] = the Hessian of p."""
    estimator = estimators.importance_sampling(
        joint, fitted_instrument, DATA.size, num_particles=5, score='fisher'
    )
    noise = tf.random.stateless_normal([20_000, estimator.noise_size], [seed, 3], dtype=tf.float64)
    theta = tf.constant(np.tile(THETA, [20_000, 1]))
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(theta)
        with tf.GradientTape() as inner:
            inner.watch(theta)
            value = estimator.log_likelihood(noise, theta)
        score = inner.gradient(value, theta)
        columns = tf.unstack(score, axis=-1)
    hessian = np.stack([outer.gradient(column, theta) for column in columns], axis=-1)
    likelihood = np.exp(value - exact(THETA)[0])[:, None, None]
    terms = likelihood * (hessian + score[:, :, None] * score[:, None, :])
    step, expected = 1e-4 * np.eye(2), np.zeros([2, 2])
    for i, j in np.ndindex(2, 2):
        signs = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
        expected[i, j] = sum(
            sign * np.exp(exact(THETA + a * step[i] + b * step[j])[0] - exact(THETA)[0])
            for a, b, sign in signs
        ) / (4e-8)
    z = (np.mean(terms, axis=0) - expected) / (np.std(terms, axis=0) / np.sqrt(20_000))
    assert np.max(np.abs(z)) < largest_z(4)


def test_the_pathwise_score_is_the_derivative_of_the_estimate(seed):
    settings = dict(instrument=prior_instrument, num_particles=7, score='pathwise')
    _, slope = estimates(seed, 3, **settings)
    for i in range(2):
        step = 1e-5 * np.eye(2)[i]
        up, down = (estimates(seed, 3, theta=THETA + s, **settings)[0] for s in (step, -step))
        np.testing.assert_allclose(slope[:, i], (up - down) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize('jit_compile', [False, True])
def test_effects_without_spread_in_single_precision(jit_compile, seed):
    """Where loc + scale z rounds to loc, there is no estimate; just above, it is the exact one."""
    log_scales = np.array([-8.0, -10, -11, -12, -14, -16, -18, -30, -40])
    theta = np.stack([np.full(log_scales.size, 0.9), log_scales], axis=-1)
    estimator = estimators.importance_sampling(joint, prior_instrument, DATA.size, 20)
    noise = tf.random.stateless_normal([log_scales.size, estimator.noise_size], [seed, 3])

    @tf.function(jit_compile=jit_compile, autograph=False)
    def run(theta):
        return log_density.value_and_gradients(
            lambda x: estimator.log_likelihood(noise, x), [theta]
        )

    value, (score,) = run(tf.constant(theta, tf.float32))
    expected = [exact(row)[0] for row in theta[:3]]
    np.testing.assert_allclose(value[:3], expected, atol=0.02)
    assert np.isfinite(score[:3]).all()
    np.testing.assert_array_equal(value[3:], -np.inf)
    # in double precision they are resolved down to 1e-14 of the location
    twice = estimator.log_likelihood(tf.cast(noise, tf.float64), tf.constant(theta))
    np.testing.assert_allclose(twice[:-2], [exact(row)[0] for row in theta[:-2]], atol=0.02)


def test_an_instrument_may_be_the_same_everywhere(seed):
    """Numbers stand for [*batch, T] of them."""
    noise = tf.random.stateless_normal([3, DATA.size * 20], [seed, 3], dtype=tf.float64)
    theta = tf.constant(np.tile(THETA, [3, 1]))
    alike, full = (
        estimators.importance_sampling(joint, instrument, DATA.size, 20).log_likelihood(
            noise, theta
        )
        for instrument in (
            lambda theta: (0.5, 1.0),
            lambda theta: (
                0.5 * tf.ones([3, DATA.size], tf.float64),
                tf.ones([3, DATA.size], tf.float64),
            ),
        )
    )
    np.testing.assert_allclose(alike, full, rtol=1e-12)
    assert np.isfinite(full).all()


def test_groups_with_their_own_weights_are_less_noisy(seed):
    own, shared = (
        estimates(seed, 4000, prior_instrument, [0.6, 0.7], num_particles=20, shared_weights=flag)[
            0
        ].var()
        for flag in (False, True)
    )
    assert own < shared / 1.5


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({'num_groups': 0}, '`num_groups`'),
        ({'num_groups': 2, 'num_particles': 0}, '`num_particles`'),
        ({'num_groups': 2, 'score': 'exact'}, '`score`'),
    ],
)
def test_misuse(settings, words):
    with pytest.raises(ValueError, match=words):
        estimators.importance_sampling(joint, prior_instrument, **settings)
