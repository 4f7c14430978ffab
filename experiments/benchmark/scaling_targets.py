"""What the scaling section samples: a path of any length, a regression on any number of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from experiments.targets.base import Target, normal_start
from experiments.targets.logistic_regression import of_signed_design


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
        log_prob, scale = simulated_regression(num_rows, num_dims), 0.1
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


def simulated_regression(num_rows: int, num_dims: int) -> Callable:
    """Standard normal covariates and weights of 1/2, drawn where it is called: no file has them.

    Args:
      num_rows: of data.
      num_dims: of the coefficients, which are N(0, 1).
    """
    covariates = tf.random.stateless_normal([num_dims, num_rows], [1, 2])
    probability = tf.sigmoid(tf.reduce_sum(covariates, axis=0) / 2)
    labels = tf.random.stateless_uniform([num_rows], [3, 4]) < probability
    return of_signed_design(tf.where(labels, covariates, -covariates))


def lengths(num_rows: int | None, settings: dict[str, Any]) -> tuple[int, int]:
    """(steps of warm-up, draws): fewer where a gradient passes over many rows."""
    if num_rows is None:
        return settings['num_warmup_steps'], settings['num_results']
    return settings['rows_steps'], settings['rows_steps']


def watched(num_dims: int, settings: dict[str, Any]) -> np.ndarray:
    """Coordinates that are judged, spread over all."""
    return np.unique(np.linspace(0, num_dims - 1, settings['num_watched']).astype(int))
