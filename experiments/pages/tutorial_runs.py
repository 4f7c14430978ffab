"""The densities that `How adaptation works` looks at, and runs on them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa

COVARIANCE = np.array([[1.0, 1.8], [1.8, 4.0]])
START, VELOCITY = [1.0, 0.5], [0.5, 1.5]
REGION = [[-3.0, 3.0], [-6.0, 6.0]]
SCALES = np.geomspace(0.1, 10.0, 10)
MEANS = np.array([[-5.0, -3.0], [5.0, -3.0], [0.0, 5.0]])


COUNTS = (10, 30, 100, 300)
"""Steps, or draws, after which a picture shows what was learned."""


class Animation(NamedTuple):
    """What `tfpa.plots.animate` takes."""

    draw: Callable
    """(frame, figure) -> None."""
    frames: list
    size: tuple[float, float] = (5.0, 4.0)
    """Inches."""


def gaussian(x: tf.Tensor) -> tf.Tensor:
    """N(0, COVARIANCE)."""
    precision = tf.constant(np.linalg.inv(COVARIANCE), x.dtype)
    return -tf.reduce_sum(x * tf.linalg.matvec(precision, x), axis=-1) / 2


def of_ten_scales(x: tf.Tensor) -> tf.Tensor:
    """Independent normals with deviations `SCALES`."""
    return -tf.reduce_sum((x / tf.constant(SCALES, x.dtype)) ** 2, axis=-1) / 2


def of_one_scale(x: tf.Tensor) -> tf.Tensor:
    """Ten independent standard normals."""
    return -tf.reduce_sum(x**2, axis=-1) / 2


def mixture(x: tf.Tensor) -> tf.Tensor:
    """Three standard normals far apart, of equal weight."""
    offsets = x[..., tf.newaxis, :] - tf.constant(MEANS, x.dtype)
    return tf.reduce_logsumexp(-tf.reduce_sum(offsets**2, axis=-1) / 2, axis=-1)


def hmc(step_size: float) -> Callable:
    """Plain HMC of five leapfrog steps, to be made from a log-density."""
    return lambda log_prob: tfp.mcmc.HamiltonianMonteCarlo(log_prob, step_size, 5)


def sample(
    target: Callable,
    settings: dict[str, Any],
    kernel: Any,
    num_warmup_steps: int | None = None,
    initial_state: Any = None,
) -> tfpa.sampling.SampleRun:
    """A run of four chains in two dimensions that keeps every step.

    Args:
      target: log-density.
      settings: of the page.
      kernel: as `tfpa.sample` takes it.
      num_warmup_steps: default `None`: that of the settings.
      initial_state: default `None`: standard normal.
    """
    if num_warmup_steps is None:
        num_warmup_steps = settings['num_warmup_steps']
    if initial_state is None:
        initial_state = tf.random.stateless_normal([4, 2], seed=(settings['seed'], 0))
    return tfpa.sample(
        target,
        settings['num_results'],
        num_warmup_steps,
        initial_state=initial_state,
        kernel=kernel,
        num_steps_between_results=0,
        seed=settings['seed'],
        progress=False,
    )
