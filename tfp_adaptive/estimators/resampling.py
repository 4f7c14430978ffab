"""Systematic resampling of weighted particles, in their order along a line or as they come.

Notation (N particles): level j is (uniform + j) / N, j = 0, ..., N - 1; its ancestor is the first
particle whose cumulative weight reaches it.
"""

import numpy as np
import tensorflow as tf

_MAX_COUNTED = 64
"""Particles up to which comparing all pairs takes less time than sorting. A filter with 150 steps
of 4 chains takes 1.0, 1.8, 6.5, 13 and 63 ms with 8, 30, 60, 120 and 240 particles by counting,
and 1.5, 2.7, 9.3, 11 and 23 by sorting, which XLA does on one number at a time."""


def systematic(weights: tf.Tensor, uniform: tf.Tensor, x: tf.Tensor | None = None) -> tf.Tensor:
    """Ancestors by systematic resampling.

    Args:
      weights: [*batch, N], normalized.
      uniform: [*batch] in (0, 1).
      x: [*batch, N], whose order the particles are taken in. Default `None`: as they come.

    Returns:
      Indices [*batch, N].
    """
    if x is None:
        return _ancestors(tf.cumsum(weights, axis=-1), uniform)
    if weights.shape[-1] <= _MAX_COUNTED:
        return ancestors_by_counting(x, weights, uniform)
    return ancestors_by_sorting(x, weights, uniform)


def ancestors_by_sorting(x: tf.Tensor, weights: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """For level j the first particle, in the order of x, whose cumulative weight reaches it.

    Args:
      x: [*batch, N].
      weights: [*batch, N], normalized.
      uniform: [*batch]; the levels are (uniform + j) / N.

    Returns:
      Indices [*batch, N].
    """
    rank = x.shape.rank - 1
    order = tf.argsort(x, axis=-1, stable=True)
    cumulative = tf.cumsum(tf.gather(weights, order, axis=-1, batch_dims=rank), axis=-1)
    return tf.gather(order, _ancestors(cumulative, uniform), axis=-1, batch_dims=rank)


def ancestors_by_counting(x: tf.Tensor, weights: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """`ancestors_by_sorting` by comparing every particle with every other."""
    num_particles = x.shape[-1]
    index = np.arange(num_particles)
    this, other = x[..., :, tf.newaxis], x[..., tf.newaxis, :]
    is_earlier = tf.equal(this, other) & (index <= index[:, np.newaxis])
    is_passed = tf.cast((other < this) | is_earlier, x.dtype)
    place = tf.reduce_sum(is_passed, axis=-1) - 1
    cumulative = tf.reduce_sum(is_passed * weights[..., tf.newaxis, :], axis=-1)
    # of the levels the first that a particle does not reach
    last = tf.floor(num_particles * cumulative - uniform[..., tf.newaxis]) + 1
    level = tf.constant(index, x.dtype)
    passed = tf.cast(last[..., tf.newaxis, :] <= level[:, tf.newaxis], x.dtype)
    # rounding may leave the last sum below the last level
    wanted = tf.minimum(tf.reduce_sum(passed, axis=-1), num_particles - 1)
    is_ancestor = tf.equal(place[..., tf.newaxis, :], wanted[..., tf.newaxis])
    return tf.cast(tf.reduce_sum(tf.cast(is_ancestor, x.dtype) * level, axis=-1), tf.int32)


def _ancestors(cumulative, uniform):
    """For every level (u + j) / N the first particle whose cumulative weight reaches it.

    Particle i is passed by all levels from number floor(N C_i - u) + 1 on, so a running count of
    those numbers is the answer. XLA compares every weight with every level in a `searchsorted`: 739
    against 6 ms for 150 steps of 4 chains with 1,024 particles, 0.6 against 0.8 with 30.

    Args:
      cumulative: [*batch, N].
      uniform: [*batch].
    """
    num_particles = cumulative.shape[-1]
    first = tf.floor(num_particles * cumulative - uniform[..., tf.newaxis])
    first = tf.clip_by_value(tf.cast(first, tf.int32) + 1, 0, num_particles)
    flat = tf.reshape(first, [-1, num_particles])
    rows = tf.broadcast_to(tf.range(tf.shape(flat)[0])[:, tf.newaxis], tf.shape(flat))
    counts = tf.scatter_nd(
        tf.stack([rows, flat], axis=-1),
        tf.ones_like(flat),
        [tf.shape(flat)[0], num_particles + 1],
    )
    ancestors = tf.reshape(tf.cumsum(counts[:, :-1], axis=-1), tf.shape(cumulative))
    # rounding may leave the last sum below the last level
    return tf.minimum(ancestors, num_particles - 1)
