"""Distributions that a single linear proposal cannot do justice to, each hard for one reason."""

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from experiments.targets.base import Moments, Target, normal_start

_FUNNEL_SD = 3.0
_MODES, _SHARE = 5.0, 0.8
_DEGREES = 3.0


def funnel(num_dims: int = 10, centred: bool = True) -> Target:
    """First v ~ N(0, 9), then x_i | v ~ N(0, exp(v)): a scale that changes from place to place.

    Args:
      num_dims: d.
      centred: whether the state holds x_i, or the standard Gaussians x_i exp(-v/2).
    """

    def log_prob(q):
        v, x = q[..., 0], q[..., 1:]
        squares = tf.reduce_sum(x**2, axis=-1)
        if centred:
            squares = squares * tf.exp(-v) + (num_dims - 1) * v
        return -(v**2 / _FUNNEL_SD**2 + squares) / 2

    sd = math.exp(_FUNNEL_SD**2 / 4) if centred else 1.0
    return Target(
        name='funnel',
        event_size=num_dims,
        log_prob=log_prob,
        initial_state=normal_start(num_dims),
        provenance='Neal (2003)',
        reference=_moments(num_dims, (0.0, _FUNNEL_SD), (0.0, sd)),
    )


def heavy_tailed(num_dims: int = 10) -> Target:
    """Student's t with three degrees of freedom: far out, no gradient says how far.

    Args:
      num_dims: d.
    """

    def log_prob(q):
        squares = tf.reduce_sum(q**2, axis=-1)
        return -(_DEGREES + num_dims) / 2 * tf.math.log1p(squares / _DEGREES)

    own = 0.0, math.sqrt(_DEGREES / (_DEGREES - 2))
    return Target(
        name='heavy_tailed',
        event_size=num_dims,
        log_prob=log_prob,
        initial_state=normal_start(num_dims),
        provenance='multivariate t',
        reference=_moments(num_dims, own, own),
    )


def two_modes(num_dims: int = 10) -> Target:
    """Unit Gaussians at q_1 = -5, with weight 0.8, and at q_1 = 5: a way that no move finds.

    Args:
      num_dims: d.
    """

    def log_prob(q):
        first, others = q[..., 0], q[..., 1:]
        left = math.log(_SHARE) - (first + _MODES) ** 2 / 2
        right = math.log(1 - _SHARE) - (first - _MODES) ** 2 / 2
        return tf.reduce_logsumexp([left, right], axis=0) - tf.reduce_sum(others**2, axis=-1) / 2

    mean = _MODES * (1 - 2 * _SHARE)
    own = mean, math.sqrt(1 + _MODES**2 - mean**2)
    return Target(
        name='two_modes',
        event_size=num_dims,
        log_prob=log_prob,
        initial_state=normal_start(num_dims),
        provenance='mixture of two Gaussians',
        reference=_moments(num_dims, own, (0.0, 1.0)),
    )


def walled(num_dims: int = 10) -> Target:
    """A standard Gaussian where all coordinates are positive, and nothing elsewhere.

    Args:
      num_dims: d.
    """

    def log_prob(q):
        inside = tf.reduce_all(q > 0, axis=-1)
        return tf.where(inside, -tf.reduce_sum(q**2, axis=-1) / 2, -math.inf)

    start = normal_start(num_dims)
    own = math.sqrt(2 / math.pi), math.sqrt(1 - 2 / math.pi)
    return Target(
        name='walled',
        event_size=num_dims,
        log_prob=log_prob,
        initial_state=lambda num_chains, seed: tf.abs(start(num_chains, seed)),
        provenance='truncated Gaussian',
        reference=_moments(num_dims, own, own),
    )


def first_density(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """The exact density of q_1 of the target `name` of this module."""
    return _FIRST_DENSITIES[name]


def _normal(x, mean=0.0, sd=1.0):
    return np.exp(-(((x - mean) / sd) ** 2) / 2) / (sd * math.sqrt(2 * math.pi))


_FIRST_DENSITIES = {
    'funnel': lambda x: _normal(x, 0.0, _FUNNEL_SD),
    # of t with three degrees of freedom
    'heavy_tailed': lambda x: 2 / (math.pi * math.sqrt(3) * (1 + x**2 / 3) ** 2),
    'two_modes': lambda x: _SHARE * _normal(x, -_MODES) + (1 - _SHARE) * _normal(x, _MODES),
    'walled': lambda x: np.where(x > 0, 2 * _normal(x), 0.0),
}


def _moments(num_dims, first, others) -> Moments:
    """(mean, sd) of the first coordinate, and of each of the others."""
    mean, sd = zip(first, *[others] * (num_dims - 1), strict=True)
    return Moments(tuple(f'q{i + 1}' for i in range(num_dims)), mean, sd, 'exact')
