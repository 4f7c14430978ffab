"""Stochastic volatility with leverage, as in Dahlin, Wills & Ninness (2018).

Returns y_0 .. y_{T-1} in per cent, with a latent log-variance x:

    x_0     ~ N(mu, sigma^2 / (1 - phi^2))
    y_t     ~ N(0, exp(x_t))
    x_{t+1} ~ N(mu + phi (x_t - mu) + sigma rho exp(-x_t / 2) y_t, sigma^2 (1 - rho^2))

    mu ~ N(0, 2^2);  phi ~ N(0.9, 0.05^2) and rho ~ N(-0.5, 0.2^2), both in (-1, 1);
    sigma ~ Gamma(2, rate 0.05)

The parameters are theta = (mu, atanh phi, log sigma, atanh rho). Here y_0 is weighted as every
other return is; the published filter leaves it out.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments.targets import stochastic_volatility

NAMES = ('mu', 'atanh phi', 'log sigma', 'atanh rho')
TRUTH = (2.0, float(np.arctanh(0.9)), float(np.log(0.4)), float(np.arctanh(-0.2)))
"""Parameters that simulated data come from; the published chains start there."""


class Parameters(NamedTuple):
    """On their own scales, any shape."""

    mu: tf.Tensor
    phi: tf.Tensor
    sigma: tf.Tensor
    rho: tf.Tensor


class Leverage(NamedTuple):
    """A data set and what samplers need to know of its model."""

    estimator: tfpa.estimators.Estimator
    """Of the likelihood, by a bootstrap filter with a smoothed score."""
    log_prior: Callable
    """theta [*batch, 4] -> [*batch], with the Jacobians."""
    data: np.ndarray
    """[T]."""


def leverage(
    data: np.ndarray, num_particles: int = 75, lag: int = 10, sort: bool = True
) -> Leverage:
    """The model of some returns.

    Args:
      data: [T], in per cent.
      num_particles: N. Default 75.
      lag: of the smoothed score. Default 10.
      sort: whether particles are sorted. Default `True`.
    """
    estimator = tfpa.estimators.particle_filter(
        initial,
        transition,
        observation_log_prob,
        data,
        num_particles,
        initial_log_prob_fn=initial_log_prob,
        transition_log_prob_fn=transition_log_prob,
        lag=lag,
        sort=sort,
    )
    return Leverage(estimator, log_prior, data)


def simulated(num_observations: int, seed: int) -> np.ndarray:
    """Returns of the model at `TRUTH`, [T]."""
    rng = np.random.default_rng(seed)
    mu, phi, sigma, rho = (float(value) for value in constrain(np.array(TRUTH)))
    x = mu + sigma / np.sqrt(1 - phi**2) * rng.standard_normal()
    data = np.empty(num_observations)
    for t in range(num_observations):
        shock, own = rng.standard_normal(2)
        data[t] = np.exp(x / 2) * shock
        x = mu + phi * (x - mu) + sigma * (rho * shock + np.sqrt(1 - rho**2) * own)
    return data


def observed(num_observations: int) -> np.ndarray:
    """The last returns of the S&P 500 up to June 2020, [T]."""
    return stochastic_volatility.returns(num_observations)


def constrain(theta) -> Parameters:
    """[*batch, 4] -> `Parameters`, each [*batch]."""
    mu, eta, psi, zeta = tf.unstack(theta, axis=-1)
    return Parameters(mu, tf.tanh(eta), tf.exp(psi), tf.tanh(zeta))


def log_prior(theta):
    """[*batch, 4] -> [*batch], without constants, with the Jacobians of all four scales."""
    _, eta, psi, zeta = tf.unstack(theta, axis=-1)
    mu, phi, sigma, rho = constrain(theta)
    priors = (
        -tf.square(mu / 2) / 2
        - tf.square((phi - 0.9) / 0.05) / 2
        + (psi - 0.05 * sigma)
        - tf.square((rho + 0.5) / 0.2) / 2
    )
    return priors + psi + _log_slope(eta) + _log_slope(zeta)


def joint_log_prob(data: np.ndarray, q: tf.Tensor) -> tf.Tensor:
    """The exact log-density of the path and the parameters, without constants.

    Args:
      data: [T].
      q: [*batch, T + 4]: x_0 .. x_{T-1}, then theta.

    Returns:
      [*batch].
    """
    path, theta = tf.split(q, [data.size, len(NAMES)], axis=-1)
    series = tf.constant(data, q.dtype)
    normal = tfp.distributions.Normal
    loc, scale = transition_law(path[..., :-1], series[:-1], _columns(theta))
    return (
        log_prior(theta)
        + initial_log_prob(path[..., :1, tf.newaxis], theta)[..., 0]
        + tf.reduce_sum(normal(loc, scale).log_prob(path[..., 1:]), axis=-1)
        + tf.reduce_sum(normal(tf.zeros([], q.dtype), tf.exp(path / 2)).log_prob(series), axis=-1)
    )


def initial(z, theta):
    """Noise [*batch, N, 1] -> particles of x_0."""
    mu, phi, sigma, _ = _columns(theta)
    return mu[..., tf.newaxis] + (sigma / tf.sqrt(1 - phi**2))[..., tf.newaxis] * z


def initial_log_prob(x, theta):
    """[*batch, N]."""
    mu, phi, sigma, _ = _columns(theta)
    scale = sigma / tf.sqrt(1 - phi**2)
    return tfp.distributions.Normal(mu, scale).log_prob(x[..., 0])


def transition(z, x, last, now, theta):
    """Noise and particles of x_{t-1} -> particles of x_t, [*batch, N, 1]."""
    del now
    loc, scale = transition_law(x[..., 0], last, _columns(theta))
    return (loc + scale * z[..., 0])[..., tf.newaxis]


def transition_log_prob(new, x, last, now, theta):
    """[*batch, N]."""
    del now
    loc, scale = transition_law(x[..., 0], last, _columns(theta))
    return tfp.distributions.Normal(loc, scale).log_prob(new[..., 0])


def transition_law(x, last, parameters: Parameters):
    """(mean, scale) of x_t given x_{t-1} and y_{t-1}; shapes broadcast."""
    mu, phi, sigma, rho = parameters
    loc = mu + phi * (x - mu) + sigma * rho * tf.exp(-x / 2) * last
    return loc, sigma * tf.sqrt(1 - rho**2)


def observation_log_prob(y, x, theta):
    """[*batch, N]."""
    del theta
    return tfp.distributions.Normal(tf.zeros([], x.dtype), tf.exp(x[..., 0] / 2)).log_prob(y)


def _columns(theta) -> Parameters:
    """Each [*batch, 1]."""
    return Parameters(*(value[..., tf.newaxis] for value in constrain(theta)))


def _log_slope(x):
    """log(1 - tanh(x)^2), in the tails too."""
    return 2 * (np.log(2) - tf.abs(x) - tf.math.softplus(-2 * tf.abs(x)))
