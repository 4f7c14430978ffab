"""A mean and a covariance that follow the draws of all chains, as a factor that is always at hand.

The recursion of adaptive Metropolis, with gain eta, weighted rows x and their mean products,

    mu    <- mu + eta mean(x - mu)
    Sigma <- (1 - eta) Sigma + eta mean((x - mu)(x - mu)^T),

is kept as Sigma = L G L^T, where G is the covariance in coordinates in which it was the identity a
few steps ago. L takes in G once a tenth of the weight of G is new, at most every D / 8 steps. So a
step costs O(D^2) a chain, and hardly more than that once gains are small, whereas rank-one updates
of L would be a loop over D columns for each of the chains, and replicas could not add theirs up;
and as G is well conditioned, single precision will do for any Sigma.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains, factorization, triangular
from tfp_adaptive.typing import Tensor

_FARTHEST = 1e3
_STEPS_PER_FACTOR = 1 / 8
_LEAST_NEWS = 0.099


class LearnedCovariance(NamedTuple):
    """What has been learned so far."""

    mean: Tensor
    """mu [D]."""
    factor: Tensor
    """L [D, D], lower triangular."""
    whitener: Tensor
    """The inverse of L, [D, D]."""
    whitened: Tensor
    """G [D, D]."""
    news: Tensor
    """Weight in G of what L has not taken in, a scalar."""


class Sums(NamedTuple):
    """Of new rows, about the mean; replicas may add them up."""

    weight: Tensor
    first: Tensor
    """[D]."""
    second: Tensor
    """[D, D], of whitened rows."""


def start(mean: Tensor) -> LearnedCovariance:
    """The identity about a mean [D]."""
    identity = tf.linalg.diag(tf.ones_like(mean))
    return LearnedCovariance(mean, identity, identity, identity, tf.zeros([], mean.dtype))


def collect(learned: LearnedCovariance, rows: Tensor, weights: Tensor) -> Sums:
    """Sums over rows.

    A row farther than a thousand standard deviations away, as chains may be that have not arrived,
    counts as one at that distance: beyond it G would lose its other directions to rounding.

    Args:
      learned: so far.
      rows: [M, D].
      weights: [M], not negative; rows of weight 0 may hold anything.
    """
    deviation = chains.keep(weights > 0, rows - learned.mean)
    whitened = tf.matmul(deviation, learned.whitener, transpose_b=True)
    distance = tf.sqrt(chains.squared_norm(whitened))
    shrink = tf.sqrt(weights) * _FARTHEST / tf.maximum(distance, _FARTHEST)
    whitened *= shrink[:, tf.newaxis]
    return Sums(
        weight=tf.reduce_sum(weights),
        first=tf.linalg.matvec(deviation, weights, transpose_a=True),
        second=tf.matmul(whitened, whitened, transpose_a=True),
    )


def absorb(learned: LearnedCovariance, sums: Sums, gain: Tensor) -> LearnedCovariance:
    """One step of the recursion; nothing changes where there are no rows.

    Args:
      learned: before.
      sums: pooled or not.
      gain: eta in (0, 1), a scalar.
    """
    gain = tf.where(sums.weight > 0, gain, tf.zeros_like(gain))
    per_row = gain / tf.maximum(sums.weight, tf.constant(1e-30, gain.dtype))
    return learned._replace(
        mean=learned.mean + per_row * sums.first,
        whitened=(1 - gain) * learned.whitened + per_row * sums.second,
        news=gain + (1 - gain) * learned.news,
    )


def is_due(learned: LearnedCovariance, step: Tensor) -> Tensor:
    """Whether the factor should take in what was learned.

    Args:
      learned: so far.
      step: number of the step that it was learned in, from zero.
    """
    interval = max(1, int(learned.mean.shape[0] * _STEPS_PER_FACTOR))
    return tf.equal((step + 1) % interval, 0) & (learned.news >= _LEAST_NEWS)


def refactor(learned: LearnedCovariance) -> LearnedCovariance:
    """The same covariance with G = I."""
    is_finite = chains.is_finite(learned.whitened)
    identity = tf.linalg.diag(tf.ones_like(learned.mean))
    change = factorization.cholesky(tf.where(is_finite, learned.whitened, identity))
    factor = triangular.product(learned.factor, change)
    whitener = triangular.solve_from_right(factor, identity)
    is_usable = chains.is_finite(factor) & chains.is_finite(whitener)
    return LearnedCovariance(
        mean=learned.mean,
        factor=tf.where(is_usable, factor, learned.factor),
        whitener=tf.where(is_usable, whitener, learned.whitener),
        whitened=identity,
        news=tf.zeros_like(learned.news),
    )


def covariance(learned: LearnedCovariance) -> Any:
    """Sigma = L G L^T, [D, D]."""
    return learned.factor @ learned.whitened @ tf.linalg.matrix_transpose(learned.factor)
