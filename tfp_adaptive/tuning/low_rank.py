"""A metric for many dimensions: a scale for every coordinate, and the few directions that matter.

Nothing of size D x D is kept. Beside the variances, sums over draws x of z z^T W are, where z are
deviations in units of the last window's standard deviations, and W [D, k] is a fixed random matrix:
the covariance is then Y (W^T Y)^+ Y^T on the span of its largest directions (Nystrom), and exactly
so where k = D. Replicas may pool these sums, as those of the variances.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive import preconditioners
from tfp_adaptive.internal import chains, random
from tfp_adaptive.preconditioners.low_rank import LowRankParameters
from tfp_adaptive.tuning import moments
from tfp_adaptive.tuning.records import MetricEstimator
from tfp_adaptive.typing import Tensor

_SPARE = 8
"""Columns of W beyond the rank."""
_LEAST_REST = 1e-4
"""Share of a variance that directions leave to its coordinate."""
_SEED = (0x736B6574, 0x6368)


class LowRankState(NamedTuple):
    """The draws of this window."""

    moments: moments.Moments
    sketch: Tensor
    """[D, k], sum of z z^T W about the mean."""
    unit: Tensor
    """[D], what z are in units of."""


class LowRankSums(NamedTuple):
    """Of new draws, about the mean of the old ones."""

    moments: moments.Sums
    sketch: Tensor
    """[D, k]."""


def low_rank(rank: int = 8) -> MetricEstimator:
    """A metric of one scale a coordinate and `rank` directions, from draws: O(D rank) a step.

    The model of probabilistic principal components, in units of the standard deviations s: with
    the largest eigenvalues lambda_i of the correlation and their directions q_i, and the mean rho
    of the others,

        C C^T = diag(s) (diag(rest) + sum_i max(0, lambda_i - rho) q_i q_i^T) diag(s),

    where `rest` makes the diagonal that of the covariance. Variances are shrunk as those of
    `variance`. It is exact where common causes make all correlation, as many as the rank, and leave
    every coordinate the same share of its variance; near it otherwise.

    Args:
      rank: r >= 1, less than D. Default 8.

    Returns:
      A `MetricEstimator` for `preconditioners.low_rank`.

    Raises:
      ValueError: if `rank` is not an int of at least 1, or not less than D.

    Reference: M. Tipping, C. Bishop. Probabilistic principal component analysis. JRSS B 1999,
    equation 7; N. Halko, P. Martinsson, J. Tropp. Finding structure with randomness. SIAM Review
    2011, section 5.4, for the sketch.

    Example:
      >>> kernel = tfpa.WindowedHMC(
      ...     target_log_prob_fn, 3, num_adaptation_steps=200, metric=tfpa.tuning.low_rank(2))
    """
    family = preconditioners.low_rank(rank)

    def unit(event_size, dtype):
        return family.init(event_size, dtype, tf.ones([], dtype))

    def init(event_size, dtype):
        none = moments.empty(event_size, dtype, is_dense=False)
        width = min(rank + _SPARE, event_size)
        return LowRankState(
            none, tf.zeros([event_size, width], dtype), tf.ones([event_size], dtype)
        )

    def collect(state, position, score, is_alive):
        del score
        z = chains.keep(is_alive, position - state.moments.mean) / state.unit
        return LowRankSums(
            moments.collect(state.moments, position, is_alive),
            tf.matmul(z, tf.matmul(z, _directions(state.sketch)), transpose_a=True),
        )

    def absorb(state, sums):
        after = moments.absorb(state.moments, sums.moments)
        first = (sums.moments.first / state.unit)[tf.newaxis]
        inside = tf.matmul(first, _directions(state.sketch)) / tf.maximum(after.count, 1)
        correction = tf.matmul(first, inside, transpose_a=True)
        return LowRankState(after, state.sketch + sums.sketch - correction, state.unit)

    def restart(state):
        return LowRankState(
            moments.restart(state.moments),
            tf.zeros_like(state.sketch),
            tf.sqrt(moments.shrunk(state.moments)),
        )

    def factor(state):
        found = _factor(state, rank)
        is_usable = (state.moments.count > 1) & tf.reduce_all(
            [chains.is_finite(leaf) for leaf in found]
        )
        none = unit(state.unit.shape[0], state.unit.dtype)
        return LowRankParameters(
            *(tf.where(is_usable, new, old) for new, old in zip(found, none, strict=True))
        )

    return MetricEstimator(
        preconditioner=family,
        init=init,
        collect=collect,
        absorb=absorb,
        restart=restart,
        unit=unit,
        factor=factor,
        scale=lambda parameters, eps: parameters._replace(scale=eps * parameters.scale),
        inverse_transpose=_inverse_transpose,
    )


def _directions(sketch):
    """W, of the shape of the sketch."""
    return random.normal(sketch.shape, tf.constant(_SEED), sketch.dtype)


def _factor(state, rank) -> LowRankParameters:
    count, variance = state.moments.count, moments.shrunk(state.moments)
    share = count / (count + 5) / tf.maximum(count - 1, 1)
    root = _root(share * state.sketch, _directions(state.sketch))
    values, loadings = _principal(root * (state.unit * tf.math.rsqrt(variance))[:, tf.newaxis])
    values, loadings = values[-rank:], loadings[:, -rank:]
    size = state.unit.shape[0]
    noise = tf.maximum((size - tf.reduce_sum(values)) / (size - rank), 0)
    kept = tf.maximum(tf.math.divide_no_nan(values - noise, values), 0)
    loadings *= tf.sqrt(kept)
    rest = tf.maximum(1 - tf.reduce_sum(loadings**2, axis=-1), _LEAST_REST)
    values, own = _principal(loadings * tf.math.rsqrt(rest)[:, tf.newaxis])
    return LowRankParameters(
        scale=tf.sqrt(variance * rest),
        basis=tf.math.divide_no_nan(own, tf.sqrt(values)),
        core=tf.linalg.diag(tf.sqrt(1 + values)),
    )


def _root(sketch, directions):
    """F [D, k] with F F^T = Y (W^T Y)^+ Y^T."""
    gram = tf.matmul(directions, sketch, transpose_a=True)
    values, vectors = tf.linalg.eigh((gram + tf.transpose(gram)) / 2)
    least = 10 * np.finfo(gram.dtype.as_numpy_dtype).eps * gram.shape[0] * values[-1]
    inverse = tf.where(values > least, tf.math.rsqrt(tf.maximum(values, least)), 0)
    return tf.matmul(sketch, vectors * inverse)


def _principal(columns):
    """(eigenvalues of F F^T [k] in ascending order, their directions times their roots [D, k])."""
    values, vectors = tf.linalg.eigh(tf.matmul(columns, columns, transpose_a=True))
    return tf.maximum(values, 0), tf.matmul(columns, vectors)


def _inverse_transpose(parameters, x):
    """C^-T x: K is symmetric here."""
    scale, basis, core = parameters
    inside = tf.matmul(x, basis)
    inside *= 1 / tf.linalg.diag_part(core) - 1
    return (x + tf.matmul(inside, basis, transpose_b=True)) / scale
