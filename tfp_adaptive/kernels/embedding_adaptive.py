"""The core step of kernel-adaptive Metropolis: propose by a cloud of points, accept, renew it.

    q'      ~ N(q, R(q)),   R(q) = step_size^2 (gamma^2 I + nu^2 M(q) H M(q)^T)
    accept with a = min(1, pi(q') N(q; q', R(q')) / (pi(q) N(q'; q, R(q))))
    z_i     <- the state of a chain chosen at random, with probability p_t (i = 1, ..., m)
    nu      <- rule(mean of a)

Each of C chains offers its state with probability eta_t / C, and z_i is renewed where exactly one
does: p_t = eta_t (1 - eta_t / C)^(C - 1), which is eta_t for one chain. Then, with eta_t = 1 / t,
each z_i is at any time one of all past states, with equal probability: the subsample of the
history, without a history to keep. With 2 / (t + 1) later states count for more.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains, random
from tfp_adaptive.kernel_functions import KernelFunction
from tfp_adaptive.kernels import metropolis, moment_adaptive
from tfp_adaptive.kernels.gradient_adaptive import Adaptation, Noise
from tfp_adaptive.proposals import kernel_embedding
from tfp_adaptive.proposals.kernel_embedding import Embedding
from tfp_adaptive.tuning import StepSizeRule
from tfp_adaptive.typing import ChainState, Info, Sampler, Tensor, Transition


class Cycle(NamedTuple):
    """Cycles of an exploration and of steps that become ever smaller."""

    num_steps: int
    exploration_fraction: float

    @property
    def num_exploring(self) -> int:
        """Steps of a cycle that explore: those with place <= fraction * number of steps."""
        # 0.29 * 100 is 28.999999999999996
        return math.floor(self.exploration_fraction * self.num_steps + 1e-9) + 1

    def is_exploring(self, step: Tensor) -> Tensor:
        """Whether the step of this number from zero explores."""
        return step % self.num_steps < self.num_exploring

    def last_exploring(self, num_steps: Tensor) -> Tensor:
        """The last of the first `num_steps` steps that explores."""
        place = (num_steps - 1) % self.num_steps
        return num_steps - 1 - tf.maximum(place - (self.num_exploring - 1), 0)

    def size(self, step: Tensor, dtype: Any) -> Tensor:
        """Size of a step, in units of those of the exploration; there is no jump between them."""
        left = tf.cast(self.num_steps - step % self.num_steps, dtype) / self.num_steps
        first = math.cos(math.pi * self.exploration_fraction) + 1
        # cos(pi (1 - left)) + 1, of which nothing is lost where it is small
        size = 2 * tf.square(tf.sin(math.pi / 2 * left)) / first
        return tf.where(self.is_exploring(step), tf.ones_like(size), size)


class Shape(NamedTuple):
    """The proposal but for what is learned."""

    kernel_function: KernelFunction
    subsample_size: int
    noise_scale: float
    adapts_noise: bool
    """Whether gamma / nu is fixed, and not gamma."""
    cycle: Cycle | None = None


class Axes(NamedTuple):
    """One choice for every axis: an algorithm."""

    shape: Shape
    scale_rule: StepSizeRule | None
    gain: Callable[[Tensor], Tensor]
    """t = 1, 2, ... -> eta_t, the mean number of chains that offer their state for a point."""
    num_adaptation_steps: Any
    pool_fn: Callable[[list], list] | None = None
    increasingly_rare: bool = False
    """Whether new points are taken over at the start of cycles 1, 2, 4, 8, ... alone."""


class Learning(NamedTuple):
    """What is carried beside the proposal, as `Adaptation.optimizer`."""

    scale: Any
    """State of the rule of nu, or log nu where it is fixed."""
    num_chains: Tensor
    """Of all replicas, as far as they have a density."""
    latest: Any
    """The points [m, D] that are to be taken over, where that is rare; else empty."""


class Offers(NamedTuple):
    """States that chains offer as points: sums over chains."""

    count: Tensor
    """[m]."""
    position: Tensor
    """[m, D]."""


def embedding_sampler(axes: Axes) -> Sampler:
    """A sampler that learns for the first `num_adaptation_steps` steps.

    Args:
      axes: one choice for every axis.

    Returns:
      A `Sampler` whose adaptation is an `Adaptation` of an `Embedding` with a `Learning`.
    """
    return Sampler(
        init=functools.partial(_init, axes),
        init_info=moment_adaptive.init_info,
        draw=functools.partial(_draw, axes.shape),
        step=functools.partial(_step, axes),
        uses_score=False,
        num_values=1,
    )


def fixed_sampler(shape: Shape, embedding: Embedding) -> Sampler:
    """The moves alone, with parameters that travel in the results.

    Args:
      shape: of the proposal.
      embedding: what was learned.
    """

    def step(target, state, adaptation, info, noise, step_size, step):
        transition = move(shape, target, adaptation.preconditioner, step_size, state, noise, step)
        return transition, adaptation, count(info, transition)

    return Sampler(
        init=lambda target, state: Adaptation(embedding),
        init_info=fixed_info,
        draw=functools.partial(_draw_moves, shape),
        step=step,
        uses_score=False,
        num_values=1,
    )


def move(shape: Shape, target, embedding, step_size, state, noise, step):
    """One Metropolis-Hastings step of all chains with a fixed cloud."""
    if shape.cycle is not None:
        step_size *= shape.cycle.size(step, step_size.dtype)
    gradient = shape.kernel_function.gradient
    moved = kernel_embedding.propose(gradient, target, embedding, step_size, state, noise.move)
    return metropolis.metropolis_hastings(moved, noise.log_uniform)


def scaled(shape: Shape, points: Tensor, log_scale: Tensor) -> Embedding:
    """The cloud with nu = exp(log_scale)."""
    scale = tf.exp(log_scale)
    noise_scale = tf.constant(shape.noise_scale, scale.dtype)
    if shape.adapts_noise:
        size = points.shape[-1]
        first = moment_adaptive.initial_log_scale(size, scale.dtype)
        noise_scale *= tf.exp(log_scale - first)
    return Embedding(points, scale, noise_scale)


def _init(axes, target, state):
    mean, count = moment_adaptive.pooled_start(target, state, axes.pool_fn)
    log_scale = moment_adaptive.initial_log_scale(target.event.size, mean.dtype)
    points = tf.tile(mean[tf.newaxis], [axes.shape.subsample_size, 1])
    scale = moment_adaptive.first_scale(axes.scale_rule, log_scale)
    latest = points if axes.increasingly_rare else ()
    return Adaptation(scaled(axes.shape, points, log_scale), Learning(scale, count, latest))


def _draw_moves(shape, seed, num_chains, event_size, dtype):
    move_seed, accept_seed = random.split(seed, 2)
    return Noise(
        kernel_embedding.draw(shape.subsample_size, move_seed, num_chains, event_size, dtype),
        (),
        metropolis.draw_log_uniform(accept_seed, num_chains, dtype),
    )


def _draw(shape, seed, num_chains, event_size, dtype):
    move_seed, offer_seed = random.split(seed, 2)
    noise = _draw_moves(shape, move_seed, num_chains, event_size, dtype)
    offers = random.uniform([num_chains, shape.subsample_size], offer_seed, dtype)
    return noise._replace(entropy=offers)


def _step(axes, target, state, adaptation, info, noise, step_size, step):
    embedding = adaptation.preconditioner
    transition = move(axes.shape, target, embedding, step_size, state, noise, step)
    chance = axes.gain(tf.cast(step + 1, state.position.dtype))
    share = chance / tf.maximum(adaptation.optimizer.num_chains, 1)
    made = offers(state, transition.state, noise.entropy, share)
    totals = moment_adaptive.total(axes.pool_fn, state, transition, made)
    is_learning = (step < axes.num_adaptation_steps) & (totals.num_alive > 0)
    if axes.shape.cycle is not None:
        is_learning &= axes.shape.cycle.is_exploring(step)
    adaptation = tf.cond(
        is_learning,
        lambda: _learn(axes, adaptation, totals, step),
        lambda: adaptation,
    )
    log_det = tf.math.log(adaptation.preconditioner.scale)
    return transition, adaptation, moment_adaptive.report(info, totals, transition, log_det)


def offers(before: ChainState, after: ChainState, uniforms: Tensor, share: Tensor) -> Offers:
    """What chains offer: each its state, for each of the points, with a small probability.

    Args:
      before: a chain without density there is left out.
      after: the states that are offered.
      uniforms: [C, m].
      share: the probability.
    """
    is_alive = moment_adaptive.alive(before)
    made = tf.cast((uniforms < share) & is_alive[:, tf.newaxis], after.position.dtype)
    positions = chains.keep(is_alive, after.position)
    return Offers(tf.reduce_sum(made, axis=0), tf.matmul(made, positions, transpose_a=True))


def renewed(points: Tensor, made: Offers) -> Tensor:
    """The points [m, D]; one is renewed where exactly one chain offered, all chains alike."""
    is_single = tf.equal(made.count, 1)[:, tf.newaxis]
    return tf.where(is_single, made.position, points)


def _learn(axes, adaptation, totals, step):
    learning, embedding = adaptation.optimizer, adaptation.preconditioner
    is_last = last_step(axes, step)
    scale, log_scale = moment_adaptive.next_scale(axes.scale_rule, learning.scale, totals, is_last)
    points = embedding.points
    if axes.increasingly_rare:
        # in the first step of cycles 1, 2, 4, 8, ..., of what was learned before this cycle
        cycle, place = step // axes.shape.cycle.num_steps, step % axes.shape.cycle.num_steps
        is_power = (cycle > 0) & tf.equal(tf.bitwise.bitwise_and(cycle, cycle - 1), 0)
        points = tf.where(tf.equal(place, 0) & is_power, learning.latest, points)
        learning = learning._replace(latest=renewed(learning.latest, totals.moments))
    else:
        points = renewed(points, totals.moments)
    embedding = scaled(axes.shape, points, log_scale)
    return Adaptation(embedding, learning._replace(scale=scale))


def last_step(axes: Axes, step: Tensor) -> Tensor:
    """Whether no later step learns.

    Args:
      axes: of the algorithm.
      step: one that learns.
    """
    num_steps = tf.cast(axes.num_adaptation_steps, step.dtype)
    if axes.shape.cycle is None:
        return tf.equal(step + 1, num_steps)
    return tf.equal(step, axes.shape.cycle.last_exploring(num_steps))


def count(info: Info, transition: Transition) -> Info:
    """What is told of a step that learns nothing."""
    return info._replace(
        accept_prob=tf.reduce_mean(metropolis.accept_prob(transition)),
        num_nonfinite=info.num_nonfinite + metropolis.num_nonfinite(transition),
    )


def fixed_info(dtype: Any) -> Info:
    """Before the first step of a sampler that learns nothing."""
    return Info(tf.zeros([], dtype), (), (), (), (), tf.constant(0), tf.constant(0), ())
