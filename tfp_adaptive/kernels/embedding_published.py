"""Cyclical kernel-adaptive Metropolis as published, which does not leave its target invariant.

Every chain on its own, in cycles of K steps, t counted from the start of the cycle:

    exploration   z <- m states of this cycle at random; gamma = gamma_t; a step of the proposals
                  made of z; log nu <- log nu + (1 + t)^-0.75 (a - target_accept_prob)
    transition    Sigma = R(q) / nu^2 where the exploration ended
    sampling      q' ~ N(q, nu_t^2 Sigma), nu_t as in `Cycle.size`; nothing is learned

z, nu and Sigma are functions of the chain's own states, for which no acceptance corrects.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import factorization, random
from tfp_adaptive.kernel_functions import KernelFunction
from tfp_adaptive.kernels import metropolis, moment_adaptive
from tfp_adaptive.kernels.embedding_adaptive import Cycle
from tfp_adaptive.kernels.gradient_adaptive import Adaptation, Noise
from tfp_adaptive.proposals import kernel_embedding
from tfp_adaptive.proposals.kernel_embedding import Embedding
from tfp_adaptive.typing import ChainState, Move, Sampler

_DECAY = 0.75


class Published(NamedTuple):
    """The published tuning."""

    kernel_function: KernelFunction
    subsample_size: int
    noise_scale: Callable
    """t = 0, 1, ... in the cycle -> gamma."""
    cycle: Cycle
    target_accept_prob: float


class Memory(NamedTuple):
    """What a chain remembers of its cycle."""

    history: Any
    """[C, E, D] states of the exploration."""
    log_scale: Any
    """[C] log nu."""
    factor: Any
    """[C, D, D] Cholesky factor of nu^2 Sigma at the transition."""


def published_sampler(axes: Published) -> Sampler:
    """A sampler that never stops learning.

    Args:
      axes: the algorithm.
    """
    return Sampler(
        init=functools.partial(_init, axes),
        init_info=moment_adaptive.init_info,
        draw=functools.partial(_draw, axes),
        step=functools.partial(_step, axes),
        uses_score=False,
        num_values=1,
    )


def _init(axes, target, state):
    size, position = target.event.size, state.position
    history = tf.tile(position[:, tf.newaxis], [1, axes.cycle.num_exploring, 1])
    identity = tf.eye(size, batch_shape=tf.shape(position)[:1], dtype=position.dtype)
    log_scale = _first_log_scale(position)
    return Adaptation(Memory(history, log_scale, identity))


def _first_log_scale(position):
    size = position.shape[-1]
    return tf.math.log(2 * 2.38 / size**0.5 + tf.zeros_like(position[:, 0]))


def _draw(axes, seed, num_chains, event_size, dtype):
    move_seed, choice_seed, accept_seed = random.split(seed, 3)
    count = axes.subsample_size
    return Noise(
        kernel_embedding.draw(count, move_seed, num_chains, event_size, dtype),
        random.uniform([num_chains, count], choice_seed, dtype),
        metropolis.draw_log_uniform(accept_seed, num_chains, dtype),
    )


def _step(axes, target, state, adaptation, info, noise, step_size, step):
    place, memory = step % axes.cycle.num_steps, adaptation.preconditioner
    transition, memory = tf.cond(
        axes.cycle.is_exploring(step),
        lambda: _explore(axes, target, state, memory, noise, step_size, place),
        lambda: _sample(axes, target, state, memory, noise, step_size, place),
    )
    totals = moment_adaptive.total(None, state, transition, ())
    log_det = tf.reduce_mean(memory.log_scale)
    report = moment_adaptive.report(info, totals, transition, log_det)
    return transition, Adaptation(memory), report


def _explore(axes, target, state, memory, noise, step_size, place):
    dtype = state.position.dtype
    time, is_first = tf.cast(place, dtype), tf.equal(place, 0)
    log_scale = tf.where(is_first, _first_log_scale(state.position), memory.log_scale)
    here = tf.one_hot(place, memory.history.shape[1], on_value=True, off_value=False)
    history = tf.where(here[:, tf.newaxis], state.position[:, tf.newaxis], memory.history)
    chosen = tf.cast(noise.entropy * (time + 1), tf.int32)
    points = tf.gather(history, tf.minimum(chosen, place), batch_dims=1)
    noise_scale = tf.cast(axes.noise_scale(time), dtype)
    embedding = Embedding(points, tf.exp(log_scale)[:, tf.newaxis, tf.newaxis], noise_scale)
    gradient = axes.kernel_function.gradient
    move = kernel_embedding.propose(gradient, target, embedding, step_size, state, noise.move)
    transition = metropolis.metropolis_hastings(move, noise.log_uniform)
    change = metropolis.accept_prob(transition) - axes.target_accept_prob
    log_scale += (1 + time) ** -_DECAY * change

    def transit():
        # with the scale that was learned last, so that the first walk is as wide as the last move
        last = embedding._replace(scale=tf.exp(log_scale)[:, tf.newaxis, tf.newaxis])
        root = kernel_embedding.root(gradient, last, transition.state.position)
        # in double precision, as in `low_rank_normal`
        root = tf.cast(root, tf.float64)
        covariance = tf.matmul(root, root, transpose_a=True)
        ridge = tf.linalg.diag_part(covariance) + tf.cast(noise_scale, tf.float64) ** 2
        return tf.cast(factorization.cholesky(tf.linalg.set_diag(covariance, ridge)), dtype)

    is_last = tf.equal(place + 1, memory.history.shape[1])
    factor = tf.cond(is_last, transit, lambda: memory.factor)
    return transition, Memory(history, log_scale, factor)


def _sample(axes, target, state, memory, noise, step_size, place):
    size = step_size * axes.cycle.size(place, state.position.dtype)
    increment = tf.linalg.matvec(memory.factor, noise.move.white)
    position = state.position + size * increment
    log_prob = target.value(position)
    move = Move(
        proposed=ChainState(position, log_prob, state.score),
        rejected=state,
        energy_change=state.log_prob - log_prob,
        midpoint=position,
        midpoint_score=state.score,
        curvature=0,
        num_gradients=0,
        trajectory=(),
    )
    return metropolis.metropolis_hastings(move, noise.log_uniform), memory
