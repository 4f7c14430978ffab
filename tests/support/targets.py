"""Targets with exact draws and known moments.

A target takes its state's parts, [*batch, *event], in any floating dtype, and returns [*batch].
Draws come from NumPy, so that no code under test has a hand in them.
"""

import collections
import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.special
import tensorflow as tf

Parts = collections.namedtuple('Parts', ['path', 'scales'])
"""A namedtuple state of two parts of different rank, [*batch, 3] and [*batch, 2, 2]."""


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """A log-density with an exact sampler; compared and hashed by identity.

    Attributes:
      name: for test ids.
      log_prob: parts [*batch, *event] -> [*batch], up to a constant.
      draw_packed: (NumPy generator, n) -> [n, D] exact draws.
      structure: [n, D] tensor and batch shape -> state structure.
      mean: [D] or `None` where unknown.
      covariance: [D, D] or `None` where unknown.
    """

    name: str
    log_prob: Callable
    draw_packed: Callable
    structure: Callable
    mean: np.ndarray | None = None
    covariance: np.ndarray | None = None

    def draw(self, seed, batch_shape, dtype='float32'):
        """An exact draw for every chain, as a state structure of tensors."""
        num_chains = int(np.prod(batch_shape))
        packed = self.draw_packed(np.random.default_rng(seed), num_chains)
        return self.structure(tf.constant(packed, dtype), list(batch_shape))

    def log_prob_of(self, state):
        """`log_prob` of a state structure."""
        return self.log_prob(*(state if isinstance(state, (list, tuple)) else [state]))


def to_packed(state):
    """A state structure as a [C, D] NumPy array.

    A single tensor is [*batch, D]; two parts are those of `two_parts`.
    """
    if not isinstance(state, (list, tuple)):
        return np.reshape(state, [-1, state.shape[-1]])
    path, scales = state
    return np.concatenate([np.reshape(path, [-1, 3]), np.reshape(scales, [-1, 4])], axis=-1)


def _vector(packed, batch_shape):
    return tf.reshape(packed, [*batch_shape, packed.shape[-1]])


def _two_parts(packed, batch_shape):
    path, scales = packed[:, :3], packed[:, 3:]
    return tf.reshape(path, [*batch_shape, 3]), tf.reshape(scales, [*batch_shape, 2, 2])


def _correlated_covariance(event_size, correlation, largest_scale):
    """AR(1) correlations and geometrically spaced scales from 1 up."""
    index = np.arange(event_size)
    scale = np.geomspace(1, largest_scale, event_size)
    return np.outer(scale, scale) * correlation ** np.abs(index[:, None] - index)


def _gaussian_log_prob(mean, covariance):
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))

    def log_prob(x):
        centred = x - tf.constant(mean, x.dtype)
        white = tf.linalg.matvec(tf.constant(whitening, x.dtype), centred)
        return -tf.reduce_sum(tf.square(white), axis=-1) / 2

    return log_prob


def correlated_gaussian(event_size=10, correlation=0.9, largest_scale=10.0):
    """N(m, S) with AR(1) correlations and scales over one order of magnitude."""
    mean = np.linspace(-1, 1, event_size)
    covariance = _correlated_covariance(event_size, correlation, largest_scale)
    factor = np.linalg.cholesky(covariance)
    return Target(
        name='gaussian',
        log_prob=_gaussian_log_prob(mean, covariance),
        draw_packed=lambda rng, n: mean + rng.standard_normal([n, event_size]) @ factor.T,
        structure=_vector,
        mean=mean,
        covariance=covariance,
    )


def skewed(event_size=7):
    """Correlated and skewed: q = M z with z_i the log of a Gamma(a_i, 1) variable."""
    shapes = np.linspace(1, 4, event_size)
    mixing = np.tril(np.full([event_size, event_size], 0.4), -1) + np.diag(
        np.geomspace(0.5, 2, event_size)
    )
    unmixing = scipy.linalg.inv(mixing)

    def log_prob(x):
        z = tf.linalg.matvec(tf.constant(unmixing, x.dtype), x)
        return tf.reduce_sum(tf.constant(shapes, x.dtype) * z - tf.exp(z), axis=-1)

    return Target(
        name='skewed',
        log_prob=log_prob,
        draw_packed=lambda rng, n: np.log(rng.gamma(shapes, size=[n, event_size])) @ mixing.T,
        structure=_vector,
        mean=mixing @ scipy.special.digamma(shapes),
        covariance=mixing @ np.diag(scipy.special.polygamma(1, shapes)) @ mixing.T,
    )


def banana(event_size=4, bend=0.5):
    """Gaussian but for its second coordinate, which is bent by the first: unit Jacobian."""

    def log_prob(x):
        straight = x[..., 1] - bend * (tf.square(x[..., 0]) - 1)
        rest = tf.reduce_sum(tf.square(x[..., 2:]), axis=-1)
        return -(tf.square(x[..., 0]) + tf.square(straight) + rest) / 2

    def draw_packed(rng, n):
        x = rng.standard_normal([n, event_size])
        x[:, 1] += bend * (x[:, 0] ** 2 - 1)
        return x

    variances = np.ones(event_size)
    variances[1] = 1 + 2 * bend**2
    return Target(
        'banana', log_prob, draw_packed, _vector, np.zeros(event_size), np.diag(variances)
    )


def two_parts(kind='list'):
    """A Gaussian over parts [*batch, 3] and [*batch, 2, 2] that are correlated with each other.

    Args:
      kind: of the state structure: 'list', 'tuple' or 'namedtuple'.
    """
    gaussian = correlated_gaussian(7, correlation=0.7, largest_scale=5.0)
    make = {'list': list, 'tuple': tuple, 'namedtuple': lambda parts: Parts(*parts)}[kind]

    def log_prob(path, scales):
        flat = tf.reshape(scales, tf.concat([tf.shape(scales)[:-2], [4]], axis=0))
        flat.set_shape([*scales.shape[:-2], 4])
        return gaussian.log_prob(tf.concat([path, flat], axis=-1))

    return dataclasses.replace(
        gaussian,
        name=f'two_parts_{kind}',
        log_prob=log_prob,
        structure=lambda packed, batch_shape: make(_two_parts(packed, batch_shape)),
    )


def _restricted(name, base, inside, outside_log_prob):
    """`base` restricted to a region, where the log-density elsewhere is `outside_log_prob`."""

    def log_prob(x):
        return tf.where(inside(x), base.log_prob(x), outside_log_prob(x))

    def draw_packed(rng, n):
        kept = np.zeros([0, base.mean.size])
        while len(kept) < n:
            x = base.draw_packed(rng, 4 * n)
            kept = np.concatenate([kept, x[np.array(inside(tf.constant(x)))]])
        return kept[:n]

    return Target(name, log_prob, draw_packed, _vector)


def nan_region(event_size=4):
    """A correlated Gaussian; where the first coordinate exceeds 1/2, value and gradient are NaN."""
    base = correlated_gaussian(event_size, correlation=0.5, largest_scale=2.0)
    return _restricted(
        'nan_region', base, lambda x: x[..., 0] <= 0.5, lambda x: tf.sqrt(0.5 - x[..., 0])
    )


def box(event_size=4):
    """A correlated Gaussian whose log-density is -inf outside [-2, 2]^D."""
    base = correlated_gaussian(event_size, correlation=0.5, largest_scale=2.0)
    return _restricted(
        'box',
        base,
        lambda x: tf.reduce_all(tf.abs(x) <= 2, axis=-1),
        lambda x: tf.constant(float('-inf'), x.dtype),
    )


GAUSSIAN = correlated_gaussian()
SKEWED = skewed()
BANANA = banana()
LIST = two_parts('list')
TUPLE = two_parts('tuple')
NAMEDTUPLE = two_parts('namedtuple')
NAN_REGION = nan_region()
BOX = box()
