"""Chains that are lost start from others."""

import tensorflow as tf

from tfp_adaptive.internal import chains, random
from tfp_adaptive.typing import Tensor


def choose(can_give: Tensor, is_lost: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
    """The chain that each starts from, and whether that is another.

    Args:
      can_give: [C] bool; each of these is as likely.
      is_lost: [C] bool.
      seed: int32 [2].

    Returns:
      Indices [C], and bool [C]; all stay if none can give.
    """
    num_chains = chains.count(can_give)
    # the giver number k of those that can give, k uniform
    count = tf.cumsum(tf.cast(can_give, tf.int32))
    choice = random.uniform([num_chains], seed, tf.float32)
    choice = tf.cast(choice * tf.cast(count[-1], choice.dtype), tf.int32)
    donor = tf.reduce_sum(tf.cast(count <= choice[:, tf.newaxis], tf.int32), axis=-1)
    is_restarted = is_lost & tf.reduce_any(can_give)
    return tf.where(is_restarted, donor, tf.range(num_chains)), is_restarted


def typical_depth(num_dims: int) -> float:
    """Nats below the mode within which draws of a Gaussian lie: D / 2, and four deviations."""
    return num_dims / 2 + 4 * (num_dims / 2) ** 0.5 + 3
