"""The Metropolis-Hastings step that every sampler shares."""

import tensorflow as tf

from tfp_adaptive.internal import chains, random
from tfp_adaptive.typing import Move, Tensor, Transition


def metropolis_hastings(move: Move, log_uniform: Tensor) -> Transition:
    """Accepts each chain's move with probability min(1, exp(-Delta)); not finite, not accepted."""
    minus_infinity = tf.constant(float('-inf'), log_uniform.dtype)
    is_finite = tf.math.is_finite(move.energy_change)
    log_accept_ratio = tf.where(is_finite, -move.energy_change, minus_infinity)
    is_accepted = log_uniform < log_accept_ratio
    state = tf.nest.map_structure(
        lambda proposed, rejected: chains.where(is_accepted, proposed, rejected),
        move.proposed,
        move.rejected,
    )
    return Transition(state, move.proposed, log_accept_ratio, is_accepted)


def draw_log_uniform(seed: Tensor, num_chains, dtype) -> Tensor:
    """[C] logarithms of uniforms on (0, 1)."""
    return tf.math.log(random.uniform([num_chains], seed, dtype))


def accept_prob(transition: Transition) -> Tensor:
    """[C] min(1, exp(-Delta))."""
    return tf.exp(tf.minimum(transition.log_accept_ratio, 0))


def is_finite(transition: Transition) -> Tensor:
    """[C] whether the proposal had a finite energy."""
    return transition.log_accept_ratio > float('-inf')


def num_nonfinite(transition: Transition) -> Tensor:
    """Scalar int32: chains whose proposal had none."""
    return tf.reduce_sum(tf.cast(~is_finite(transition), tf.int32))
