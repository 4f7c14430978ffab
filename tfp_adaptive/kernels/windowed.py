"""The core step of classical tuning: move, then tune the step size, and the metric in windows.

    F = step_size * eps * C
    a  = mean acceptance of the chains' moves with F, as the mover takes it
    eps <- rule(a)                                        at every step
    C   <- estimator(draws of the window), rule restarts  at the end of every window

eps C is what is kept as the preconditioner: frozen, it is a proposal like any other.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.internal.curvature import pooled_with, stable_scale
from tfp_adaptive.kernels import metropolis
from tfp_adaptive.kernels.gradient_adaptive import Adaptation
from tfp_adaptive.tuning import MetricEstimator, Schedule, StepSizeRule, moments
from tfp_adaptive.typing import ChainState, Info, Preconditioner, Sampler, Tensor, Transition


class Tuning(NamedTuple):
    """What tuning carries beside the proposal, as `Adaptation.optimizer`."""

    step_size: Any
    """State of the step-size rule."""
    metric: Any
    """State of the metric estimator: the draws of this window."""
    factor: Any
    """Parameters of C, without eps."""


class Step(NamedTuple):
    """A step of all chains."""

    transition: Transition
    accept_prob: Tensor
    """[C] what the step-size rule is told."""
    num_gradients: Any
    """Scalar."""


class Mean(NamedTuple):
    """How the acceptance of many chains becomes one number: inverse(mean of forward(a))."""

    forward: Callable[[Tensor], Tensor]
    """[C] -> [C]."""
    inverse: Callable[[Tensor], Tensor]
    """Scalar -> scalar."""


ARITHMETIC = Mean(lambda a: a, lambda mean: mean)

_LEAST = 0.01

HARMONIC = Mean(lambda a: 1 / tf.maximum(a, _LEAST), lambda mean: 1 / mean)
"""Near the least of them, so that a chain in a narrow place is not outvoted by the others; below
0.01 all count alike, so that one that is stuck does not decide alone."""


class Mover(NamedTuple):
    """How chains move with a given proposal."""

    draw: Callable[..., Any]
    """(seed, num_chains, event_size, dtype) -> noise."""
    move: Callable[..., Step]
    """(target, parameters of F / step_size, step_size, state, noise) -> step."""
    stable_fraction: float
    """A safe first scale, as a fraction of 1 / sqrt(largest curvature)."""
    uses_velocity: bool = False
    mean: Mean = ARITHMETIC
    """Over chains, of what the step-size rule is told."""


class Axes(NamedTuple):
    """One choice for every axis: an algorithm."""

    mover: Mover
    step_size_rule: StepSizeRule
    metric: MetricEstimator
    schedule: Schedule
    num_adaptation_steps: int
    pool_fn: Callable[[list], list] | None = None

    @property
    def preconditioner(self) -> Preconditioner:
        """The family of C."""
        return self.metric.preconditioner


class _Sums(NamedTuple):
    """What all chains have to say, summed; pooled over replicas once a step."""

    num_chains: Tensor
    num_alive: Tensor
    accept_prob: Tensor
    accept_prob_alive: Tensor
    metric: Any


def windowed_sampler(axes: Axes) -> Sampler:
    """A sampler that tunes for the first `num_adaptation_steps` steps.

    Args:
      axes: one choice for every axis.

    Returns:
      A `Sampler` whose adaptation is an `Adaptation` with a `Tuning`.
    """
    return Sampler(
        init=functools.partial(_init, axes),
        init_info=_init_info,
        draw=axes.mover.draw,
        step=functools.partial(_step, axes),
        uses_velocity=axes.mover.uses_velocity,
    )


def fixed_sampler(mover: Mover, parameters: Any) -> Sampler:
    """The moves alone, with parameters that travel in the results.

    Args:
      mover: how chains move.
      parameters: of the preconditioner, eps C.

    Returns:
      A `Sampler` without adaptation code.
    """

    def step(target, state, adaptation, info, noise, step_size, step):
        del step
        taken = mover.move(target, adaptation.preconditioner, step_size, state, noise)
        return taken.transition, adaptation, _count(info, taken)

    def init_info(dtype):
        return Info(tf.zeros([], dtype), (), (), (), (), tf.constant(0), tf.constant(1), ())

    return Sampler(
        init=lambda target, state: Adaptation(parameters),
        init_info=init_info,
        draw=mover.draw,
        step=step,
        uses_velocity=mover.uses_velocity,
    )


def _init(axes, target, state):
    dtype, size = state.position.dtype, target.event.size
    guess = axes.mover.stable_fraction * stable_scale(target, state)
    guess, metric = first_guess(axes, target, state, guess)
    factor = axes.metric.unit(size, dtype)
    rule = axes.step_size_rule.init(tf.math.log(guess))
    return Adaptation(axes.metric.scale(factor, guess), Tuning(rule, metric, factor))


def first_guess(axes: Axes, target, state: ChainState, scale: Tensor) -> tuple[Tensor, Any]:
    """(first scale, metric estimator before the first draw), of all replicas.

    The estimator is about the mean of where the chains start: a first window that begins at once
    would subtract large sums elsewhere.

    Args:
      axes: of the kernel.
      target: its density.
      state: of the chains.
      scale: that this replica would start with.
    """
    empty = axes.metric.init(target.event.size, state.position.dtype)
    is_alive = chains.can_move(state)
    sums = axes.metric.collect(empty, state.position, state.score, is_alive)
    scale, sums = pooled_with(scale, sums, axes.pool_fn)
    return scale, moments.moved(empty, axes.metric.absorb(empty, sums))


def _init_info(dtype):
    zero, count = tf.zeros([], dtype), tf.constant(0)
    # two gradients: the value at the start and the secant behind the first scale
    return Info(zero, zero, zero, zero, zero, count, count + 2, count)


def _step(axes, target, state, adaptation, info, noise, step_size, step):
    taken = axes.mover.move(target, adaptation.preconditioner, step_size, state, noise)
    tuning = adaptation.optimizer
    sums = _sums(axes, state, taken, tuning)
    if axes.pool_fn is not None:
        sums = tf.nest.pack_sequence_as(sums, axes.pool_fn(tf.nest.flatten(sums)))
    learned = _learn(axes, tuning, sums, step)
    is_adapting = (step < axes.num_adaptation_steps) & (sums.num_alive > 0)
    adaptation = tf.nest.map_structure(
        lambda new, old: tf.where(is_adapting, new, old), learned, adaptation
    )
    info = _count(info, taken)._replace(
        accept_prob=sums.accept_prob / sums.num_chains,
        entropy=axes.metric.preconditioner.log_det(adaptation.preconditioner),
    )
    return taken.transition, adaptation, info


def _sums(axes, before, taken, tuning):
    # a chain that never had a density or a score cannot move, whatever is learned: it is left out
    is_alive = chains.can_move(before)
    after = taken.transition.state
    dtype = after.position.dtype
    return _Sums(
        num_chains=tf.cast(chains.count(is_alive), dtype),
        num_alive=tf.reduce_sum(tf.cast(is_alive, dtype)),
        accept_prob=tf.reduce_sum(taken.accept_prob),
        accept_prob_alive=tf.reduce_sum(
            chains.keep(is_alive, axes.mover.mean.forward(taken.accept_prob))
        ),
        metric=axes.metric.collect(tuning.metric, after.position, after.score, is_alive),
    )


def _learn(axes, tuning, sums, step):
    rule, metric = axes.step_size_rule, axes.metric
    plan = axes.schedule.plan(max(int(axes.num_adaptation_steps), 1))
    last = len(plan.collects) - 1
    collects, ends = (
        tf.gather(tf.constant(np.asarray(flags, bool)), tf.minimum(step, last)) for flags in plan
    )
    accept_prob = axes.mover.mean.inverse(sums.accept_prob_alive / tf.maximum(sums.num_alive, 1))
    step_state = rule.update(tuning.step_size, accept_prob)
    absorbed = metric.absorb(tuning.metric, sums.metric)
    draws = _select(collects, absorbed, moments.moved(tuning.metric, absorbed))
    factor = tf.cond(
        ends, lambda: _finite_or(metric.factor(draws), tuning.factor), lambda: tuning.factor
    )
    step_state = _select(ends, rule.init(_bounded(rule.current(step_state))), step_state)
    draws = _select(ends, metric.restart(draws), draws)
    log_step_size = tf.where(step >= last, rule.learned(step_state), rule.current(step_state))
    scaled = metric.scale(factor, tf.exp(_bounded(log_step_size)))
    return Adaptation(scaled, Tuning(step_state, draws, factor))


def _finite_or(factor, old):
    is_finite = tf.reduce_all([chains.is_finite(leaf) for leaf in tf.nest.flatten(factor)])
    return _select(is_finite, factor, old)


def _bounded(log_step_size):
    """Within a quarter of the exponents of its type: a flat target wants ever longer steps."""
    bound = np.log(np.finfo(log_step_size.dtype.as_numpy_dtype).max) / 4
    return tf.clip_by_value(log_step_size, -bound, bound)


def _count(info, taken):
    return info._replace(
        accept_prob=tf.reduce_mean(taken.accept_prob),
        num_nonfinite=info.num_nonfinite + metropolis.num_nonfinite(taken.transition),
        num_gradients=info.num_gradients + taken.num_gradients,
    )


def _select(condition, new, old):
    return tf.nest.map_structure(lambda a, b: tf.where(condition, a, b), new, old)
