"""A first guess of a safe proposal scale, from two gradients."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import ChainState, LogDensity

_RELATIVE_OFFSET = 1e-3


def stable_scale(target: LogDensity, state: ChainState) -> tf.Tensor:
    """1 / sqrt(largest curvature met along the score), a scalar; one gradient per chain.

    The secant |s(q + eps u) - s(q)| / eps along u = s / |s| weighs eigenvalues of the Hessian by
    the score's own components, so it lands near the largest one; the maximum over chains is
    taken. At a mode, where the score vanishes, u is the diagonal of the axes. Isotropic leapfrog
    steps below it are stable. Where no curvature can be seen (a flat or non-finite start) the
    scale is 1.

    Args:
      target: the log-density.
      state: ChainState of C chains; a score it lacks costs a gradient more.
    """
    if not state.score.shape[-1]:
        state = state._replace(score=target.value_and_score(state.position)[1])
    length = chains.norm(state.score)[:, tf.newaxis]
    anywhere = tf.ones_like(state.position) / state.position.shape[-1] ** 0.5
    direction = tf.where(length > 0, tf.math.divide_no_nan(state.score, length), anywhere)
    root_mean_square = tf.sqrt(tf.reduce_mean(tf.square(state.position), axis=-1, keepdims=True))
    offset = _RELATIVE_OFFSET * (1 + root_mean_square)
    log_prob, score = target.value_and_score(state.position + offset * direction)
    change = chains.norm(score - state.score)
    curvature = change / offset[:, 0]
    # a place without density has no score, and none is no change
    usable = tf.math.is_finite(state.log_prob) & tf.math.is_finite(log_prob)
    usable &= tf.math.is_finite(curvature) & (curvature > 0)
    largest = tf.reduce_max(tf.where(usable, curvature, tf.zeros_like(curvature)))
    return tf.math.rsqrt(tf.where(largest > 0, largest, tf.ones_like(largest)))


def pooled(scale: tf.Tensor, pool_fn: Callable[[list], list] | None) -> tf.Tensor:
    """The scale of the mean curvature over replicas, so that a flat one does not widen it.

    Args:
      scale: of this replica, a scalar.
      pool_fn: of the kernel, or `None` for a single replica.
    """
    return pooled_with(scale, (), pool_fn)[0]


def pooled_with(scale: tf.Tensor, sums: Any, pool_fn: Callable[[list], list] | None) -> tuple:
    """`pooled`, and other sums over the chains of this replica, over all replicas at once.

    Args:
      scale: as for `pooled`.
      sums: a nest.
      pool_fn: likewise.
    """
    if pool_fn is None:
        return scale, sums
    own = [1 / tf.square(scale), tf.ones_like(scale), *tf.nest.flatten(sums)]
    total, count, *others = pool_fn(own)
    return tf.math.rsqrt(total / count), tf.nest.pack_sequence_as(sums, others)
