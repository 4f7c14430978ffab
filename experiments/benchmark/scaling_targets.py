"""What the scaling section samples: a path of any length, a regression on any number of rows."""

from typing import Any

import numpy as np
import tensorflow as tf

from experiments.targets.base import Target, normal_start


def make(num_dims: int, num_rows: int | None, settings: dict[str, Any]) -> Target:
    """The regression, or the path where there are no rows.

    Args:
      num_dims: d.
      num_rows: of the regression, or `None`.
      settings: of the section.
    """
    if num_rows is None:
        log_prob, scale = autoregression(settings['phi']), 1.0
    else:
        log_prob, scale = logistic_regression(num_rows, num_dims, settings['seed']), 0.1
    return Target(
        name='path' if num_rows is None else 'regression',
        event_size=num_dims,
        log_prob=log_prob,
        initial_state=normal_start(num_dims, scale=scale),
        provenance='simulated',
    )


def autoregression(phi: float):
    """A stationary Gaussian path q_{t+1} ~ N(phi q_t, 1 - phi^2) with standard normal margins."""
    scale = (1 - phi**2) ** -0.5

    def log_prob(q):
        first, later = tf.split(q, [1, q.shape[-1] - 1], axis=-1)
        earlier, _ = tf.split(q, [q.shape[-1] - 1, 1], axis=-1)
        innovation = scale * (later - phi * earlier)
        # a product with ones is a sum that XLA turns into vector code
        ones = tf.ones([innovation.shape[-1]], q.dtype)
        return -(first[..., 0] ** 2 + tf.tensordot(innovation**2, ones, axes=1)) / 2

    return log_prob


def logistic_regression(num_rows: int, num_dims: int, seed: int):
    """The posterior of coefficients N(0, 1) on standard normal covariates."""
    generator = np.random.default_rng(seed)
    design = generator.normal(size=[num_rows, num_dims]).astype('f')
    truth = generator.normal(size=num_dims) / num_dims**0.5
    is_one = generator.logistic(size=num_rows) < design @ truth
    signed = tf.constant(np.where(is_one, 1, -1)[np.newaxis].astype('f') * design.T)
    ones = tf.ones([num_rows])

    def log_prob(q):
        log_likelihood = tf.math.log_sigmoid(tf.tensordot(q, signed, axes=1))
        return tf.tensordot(log_likelihood, ones, axes=1) - tf.reduce_sum(q**2, axis=-1) / 2

    return log_prob


def lengths(num_rows: int | None, settings: dict[str, Any]) -> tuple[int, int]:
    """(steps of warm-up, draws): fewer where a gradient passes over many rows."""
    if num_rows is None:
        return settings['num_warmup_steps'], settings['num_results']
    return settings['rows_steps'], settings['rows_steps']


def watched(num_dims: int, settings: dict[str, Any]) -> np.ndarray:
    """Coordinates that are judged, spread over all."""
    return np.unique(np.linspace(0, num_dims - 1, settings['num_watched']).astype(int))
