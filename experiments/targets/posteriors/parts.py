"""A posterior of named parameters as a `Target` on R^d."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from experiments.targets.base import Target

tfb = tfp.bijectors


class Part(NamedTuple):
    """A parameter: its number of entries, `None` for a scalar, and how R^n maps to its values."""

    size: int | None = None
    bijector: Any = tfb.Identity()


def real(size: int | None = None) -> Part:
    """Any number."""
    return Part(size)


def positive(size: int | None = None) -> Part:
    """Above zero, on a log scale."""
    return Part(size, tfb.Exp())


def probability(size: int | None = None) -> Part:
    """Between zero and one, on the scale of log odds."""
    return Part(size, tfb.Sigmoid())


def correlation(size: int | None = None) -> Part:
    """Between -1 and 1."""
    return Part(size, tfb.Tanh())


def ordered(size: int) -> Part:
    """Ascending numbers."""
    return Part(size, tfb.Ascending())


def posterior(
    name: str, provenance: str, log_joint: Callable[..., tf.Tensor], **parts: Part
) -> Target:
    """A `Target` whose state holds the unconstrained parameters one after the other.

    Args:
      name: as in tables.
      provenance: where the model and its data come from.
      log_joint: named parameters, a vector [..., n] or a scalar [...] each, to the log of prior
        times likelihood [...].
      **parts: what each parameter is, in the order of the state.
    """
    sizes = [part.size or 1 for part in parts.values()]

    def log_prob(q):
        values, log_volume = {}, 0.0
        for (key, part), x in zip(parts.items(), tf.split(q, sizes, axis=-1), strict=True):
            x = tf.identity(x)
            values[key] = part.bijector.forward(x)
            # elementwise maps hand back a number for each entry
            is_vector_map = part.bijector.forward_min_event_ndims == 1
            log_det = part.bijector.forward_log_det_jacobian(x)
            log_det = tf.convert_to_tensor(log_det, q.dtype) + tf.zeros_like(
                x[..., 0] if is_vector_map else x
            )
            log_volume += log_det if is_vector_map else tf.reduce_sum(log_det, axis=-1)
            if part.size is None:
                values[key] = values[key][..., 0]
        return log_joint(**values) + log_volume

    return Target(
        name=name,
        event_size=sum(sizes),
        log_prob=log_prob,
        initial_state=uniform_start(sum(sizes)),
        provenance=provenance,
    )


def uniform_start(event_size: int, width: float = 2.0) -> Callable[[int, object], tf.Tensor]:
    """Unconstrained parameters from uniform(-width, width), as Stan starts."""

    def initial_state(num_chains, seed):
        return tf.random.stateless_uniform([num_chains, event_size], seed, -width, width)

    return initial_state


def normal(x: tf.Tensor, mean=0.0, sd=1.0) -> tf.Tensor:
    """Log-density of N(mean, sd^2) at x, elementwise."""
    sd = tf.convert_to_tensor(sd, x.dtype)
    return -tf.square((x - mean) / sd) / 2 - tf.math.log(sd) - math.log(2 * math.pi) / 2


def normals(x: tf.Tensor, mean=0.0, sd=1.0) -> tf.Tensor:
    """The same, summed over the last axis of x."""
    return tf.reduce_sum(normal(x, mean, sd), axis=-1)


def cauchy(x: tf.Tensor, scale=1.0) -> tf.Tensor:
    """Log-density of Cauchy(0, scale), up to a constant that holds no parameter, elementwise."""
    scale = tf.convert_to_tensor(scale, x.dtype)
    return -tf.math.log1p(tf.square(x / scale)) - tf.math.log(scale)


def beta(x: tf.Tensor, a: float, b: float) -> tf.Tensor:
    """Log-density of Beta(a, b), up to a constant, elementwise."""
    return (a - 1) * tf.math.log(x) + (b - 1) * tf.math.log1p(-x)


def each(x: tf.Tensor) -> tf.Tensor:
    """A scalar parameter [...] beside vectors: [..., 1]."""
    return x[..., tf.newaxis]


def constant(data: np.ndarray, like: tf.Tensor) -> tf.Tensor:
    """Data in the precision of a parameter."""
    return tf.constant(data, like.dtype)
