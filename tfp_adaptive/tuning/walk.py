"""Where descents run down a funnel: every chain walks to the typical set, with a step of its own.

    v ~ N(0, I);  (q', v') = a leapfrog step of size h_c from (q, v)
    q <- q' with probability a_c = min(1, pi(q') N(v') / (pi(q) N(v)))
    log h_c <- log h_c + rate (a_c - 0.6)

A funnel has no mode to go to, but moves that leave the density invariant go where the volume is.
Far out they are those of a descent, and the steps differ by as many decades as the slopes.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains, loops, random
from tfp_adaptive.proposals.leapfrog import leapfrog
from tfp_adaptive.tuning import donors
from tfp_adaptive.typing import ChainState, LinearMap, LogDensity, Tensor

MAX_STEPS = 10_000
_ACCEPT_PROB = 0.6
_RATE = 0.5
"""Fifty powers of e in 250 steps, should a chain start that far from its step size."""
_FIRST_DRIFT = 0.1
"""Of the first move, in unconstrained coordinates; no first step is larger than 1."""
_FAR = 10
"""A chain is lost if its log-density lies this many times as far below the median of the chains as
draws of a Gaussian lie below its mode."""


class Walked(NamedTuple):
    """Where the chains are.

    Attributes:
      position: [C, D].
      is_restarted: [C] bool; it was lost, and starts where another chain is.
    """

    position: Tensor
    is_restarted: Tensor


def walk(target: LogDensity, position: Tensor, seed: Tensor, num_steps: Tensor) -> Walked:
    """Langevin moves in unscaled coordinates, of which every chain learns its own step size.

    Args:
      target: on packed positions.
      position: [C, D], where the log-density is finite.
      seed: int32 [2].
      num_steps: at least 1, scalar int32; one gradient each. 10,000 at most.

    Returns:
      A `Walked`.
    """
    proposal = leapfrog(1)
    walk_seed, donor_seed = random.split(seed, 2)
    num_chains, num_dims = tf.shape(position)[0], position.shape[-1]

    def step(index, state, log_step_size, seed):
        """A move; the first one stays, and takes the gradient where the chain is."""
        move_seed, accept_seed = random.split(random.fold_in(seed, index), 2)
        is_first = tf.equal(index, 0)
        step_size = tf.where(is_first, tf.zeros_like(log_step_size), tf.exp(log_step_size))
        factor = _times(step_size[:, tf.newaxis])
        noise = proposal.draw(move_seed, num_chains, num_dims, position.dtype)
        move = proposal.propose(target, factor, state, noise)
        change = tf.where(is_first, tf.zeros_like(log_step_size), move.energy_change)
        change = tf.where(tf.math.is_finite(change), change, np.inf)
        accept_prob = tf.exp(-tf.maximum(change, 0))
        uniform = random.uniform([num_chains], accept_seed, position.dtype)
        state = tf.nest.map_structure(
            lambda new, old: chains.where(uniform < accept_prob, new, old), move.proposed, state
        )
        log_step_size += _RATE * (accept_prob - _ACCEPT_PROB)
        log_step_size = tf.where(is_first, _first_step_size(state.score), log_step_size)
        return index + 1, state, log_step_size, loops.varying(seed)

    zero = tf.zeros_like(position[:, 0])
    start = ChainState(position, zero, tf.zeros_like(position))
    _, state, *_ = tf.while_loop(
        lambda index, *_: index < num_steps,
        step,
        (tf.constant(0), start, zero, walk_seed),
        maximum_iterations=MAX_STEPS,
    )
    return _without_lost(state, donor_seed)


def _times(step_size):
    return LinearMap(lambda x: step_size * x, lambda x: step_size * x)


def _first_step_size(score):
    """Log h with h^2 / 2 times the slope = `_FIRST_DRIFT`."""
    slope = chains.norm(score)
    return tf.math.log(2 * _FIRST_DRIFT / tf.maximum(slope, 2 * _FIRST_DRIFT)) / 2


def _without_lost(state, seed):
    """Chains far below the others start where one of those is."""
    ordered = tf.sort(state.log_prob)
    middle = ordered[tf.size(ordered) // 2]
    depth = donors.typical_depth(state.position.shape[-1])
    is_lost = state.log_prob < middle - _FAR * depth
    donor, is_restarted = donors.choose(~is_lost, is_lost, seed)
    return Walked(tf.gather(state.position, donor), is_restarted)
