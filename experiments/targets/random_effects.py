"""The random effects of Dahlin, Wills & Ninness (2018), with their posterior by quadrature.

alpha_t ~ N(mu, sigma^2), y_t ~ N(alpha_t, 1); mu ~ N(0, 1), sigma half Cauchy. The parameters are
theta = (mu, log sigma), each [*batch].
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from experiments.targets.base import Moments

TRUTH = (1.0, float(np.log(0.2)))
"""Parameters that the data come from."""
_MU = np.linspace(-1, 3, 801)
_LOG_SIGMA = np.linspace(-14, 2, 1601)


class RandomEffects(NamedTuple):
    """A data set and what samplers need to know of its model."""

    joint: Callable
    """(effects [*batch, T, N], theta [*batch, 2]) -> [*batch, T, N], log-density with the data."""
    instrument: Callable
    """theta -> (loc, scale) of the effects, each [*batch, 1]."""
    log_prior: Callable
    """theta -> [*batch], with the Jacobian of log sigma."""
    reference: Moments
    """Of the exact posterior."""


def random_effects(num_observations: int, seed: int) -> RandomEffects:
    """The model with data of its own.

    Args:
      num_observations: T.
      seed: of the data.
    """
    mu, log_sigma = TRUTH
    spread = np.sqrt(1 + np.exp(2 * log_sigma))
    data = mu + spread * np.random.default_rng(seed).standard_normal(num_observations)
    distribution = tfp.distributions.Normal

    def joint(effects, theta):
        loc, scale = theta[..., 0, None, None], tf.exp(theta[..., 1, None, None])
        observed = tf.constant(data[:, None], effects.dtype)
        return distribution(loc, scale).log_prob(effects) + distribution(effects, 1.0).log_prob(
            observed
        )

    return RandomEffects(
        joint,
        lambda theta: (theta[..., 0, None], tf.exp(theta[..., 1, None])),
        lambda theta: (
            -tf.square(theta[..., 0]) / 2 - tf.math.softplus(2 * theta[..., 1]) + theta[..., 1]
        ),
        _by_quadrature(data),
    )


def _by_quadrature(data) -> Moments:
    """On a grid: the effects integrate out, y_t ~ N(mu, 1 + sigma^2)."""
    mu, log_sigma = np.meshgrid(_MU, _LOG_SIGMA, indexing='ij')
    variance = 1 + np.exp(2 * log_sigma)
    squares = np.sum((data - data.mean()) ** 2) + len(data) * (mu - data.mean()) ** 2
    log_density = -len(data) * np.log(variance) / 2 - squares / (2 * variance)
    log_density += -(mu**2) / 2 - np.log1p(np.exp(2 * log_sigma)) + log_sigma
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    means = np.array([np.sum(weights * x) for x in (mu, log_sigma)])
    squares = np.array([np.sum(weights * x**2) for x in (mu, log_sigma)])
    return Moments(
        names=('mu', 'log sigma'),
        mean=tuple(means.tolist()),
        sd=tuple(np.sqrt(squares - means**2).tolist()),
        source='quadrature',
    )
