"""The core step of the moment samplers: propose, accept, follow the moments of the draws.

    q'      = q + step_size * lambda L eps,   eps ~ N(0, I);   accept with a = min(1, pi(q')/pi(q))
    mu      <- mu + eta (mean of x - mu)
    L L^T   <- (1 - eta) L L^T + eta (mean of (x - mu)(x - mu)^T)
    lambda  <- rule(mean of a)

x is the new state of every chain or, Rao-Blackwellised, q' with weight a and q with weight 1 - a.
lambda L is what is kept as the preconditioner: frozen, it is a proposal like any other.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive import preconditioners, proposals
from tfp_adaptive.internal import branching, chains
from tfp_adaptive.kernels import frozen, metropolis
from tfp_adaptive.kernels.geometry import make_move
from tfp_adaptive.kernels.gradient_adaptive import Adaptation
from tfp_adaptive.tuning import StepSizeRule, learned_covariance
from tfp_adaptive.tuning.learned_covariance import LearnedCovariance
from tfp_adaptive.typing import ChainState, Info, Preconditioner, Sampler, Tensor, Transition

PROPOSAL = proposals.random_walk()


class Axes(NamedTuple):
    """One choice for every axis: an algorithm."""

    rao_blackwell: bool
    scale_rule: StepSizeRule | None
    """`None` for a fixed scale."""
    gain: Callable[[Tensor, Tensor], Tensor]
    """(t = 1, 2, ..., D / number of chains) -> eta."""
    num_adaptation_steps: Any
    pool_fn: Callable[[list], list] | None = None
    preconditioner: Preconditioner = preconditioners.cholesky()


class Learning(NamedTuple):
    """What is carried beside the proposal, as `Adaptation.optimizer`."""

    covariance: LearnedCovariance
    scale: Any
    """State of the rule of lambda, or log lambda where it is fixed."""


class Totals(NamedTuple):
    """What all chains have to say, summed; pooled over replicas once a step."""

    num_chains: Tensor
    num_alive: Tensor
    accept_prob: Tensor
    accept_prob_alive: Tensor
    log_volume: Tensor
    """Log-determinants of the proposals' factors, where they differ from chain to chain."""
    moments: Any
    """Sums that the proposal is learned from."""


def moment_sampler(axes: Axes) -> Sampler:
    """A sampler that learns for the first `num_adaptation_steps` steps.

    Args:
      axes: one choice for every axis.

    Returns:
      A `Sampler` whose adaptation is an `Adaptation` with a `Learning`.
    """
    return Sampler(
        init=functools.partial(_init, axes),
        init_info=init_info,
        draw=functools.partial(frozen.draw_noise, PROPOSAL),
        step=functools.partial(_step, axes),
        uses_score=False,
        num_values=1,
    )


def initial_log_scale(event_size: int, dtype: Any) -> Tensor:
    """The logarithm of 2.38 / sqrt(D), which is best for a Gaussian target of known covariance."""
    return tf.math.log(tf.constant(2.38 / event_size**0.5, dtype))


def pooled_start(target, state, pool_fn):
    """(mean of the positions of the chains that have a density [D], number of these chains)."""
    is_alive = alive(state)
    first = tf.reduce_sum(chains.keep(is_alive, state.position), axis=0)
    count = tf.reduce_sum(tf.cast(is_alive, first.dtype))
    if pool_fn is not None:
        first, count = pool_fn([first, count])
    return tf.ensure_shape(first / tf.maximum(count, 1), [target.event.size]), count


def _init(axes, target, state):
    mean, _ = pooled_start(target, state, axes.pool_fn)
    log_scale = initial_log_scale(target.event.size, mean.dtype)
    covariance = learned_covariance.start(mean)
    scale = first_scale(axes.scale_rule, log_scale)
    return Adaptation(tf.exp(log_scale) * covariance.factor, Learning(covariance, scale))


def init_info(dtype: Any) -> Info:
    """Before the first step."""
    zero, count = tf.zeros([], dtype), tf.constant(0)
    return Info(zero, zero, zero, zero, zero, count, count, count)


def _step(axes, target, state, adaptation, info, noise, step_size, step):
    move = make_move(target.event, PROPOSAL, axes.preconditioner)
    moved = move(target, adaptation.preconditioner, step_size, state, noise.move)
    transition = metropolis.metropolis_hastings(moved, noise.log_uniform)
    collect = functools.partial(_moments, axes, state, transition)
    moments = None if _collects_late(axes, state) else collect(adaptation.optimizer.covariance)
    totals = total(axes.pool_fn, state, transition, moments)
    adaptation = _learn(axes, adaptation, totals, step, collect)
    log_det = axes.preconditioner.log_det(adaptation.preconditioner)
    return transition, adaptation, report(info, totals, transition, log_det)


def alive(state: ChainState) -> Tensor:
    """[C] bool: a chain that never had a density cannot move, so nothing is learned from it."""
    return tf.math.is_finite(state.log_prob)


def total(pool_fn, before: ChainState, transition: Transition, moments, log_volume=None) -> Totals:
    """The sums of one step over all chains of all replicas.

    Args:
      pool_fn: as kernels take it.
      before: the state that the step started from.
      transition: the step.
      moments: sums over the chains of this replica.
      log_volume: [C], or `None`.
    """
    is_alive, accept_prob = alive(before), metropolis.accept_prob(transition)
    zero = tf.zeros([], accept_prob.dtype)
    totals = Totals(
        num_chains=tf.cast(chains.count(is_alive), accept_prob.dtype),
        num_alive=tf.reduce_sum(tf.cast(is_alive, accept_prob.dtype)),
        accept_prob=tf.reduce_sum(accept_prob),
        accept_prob_alive=tf.reduce_sum(chains.keep(is_alive, accept_prob)),
        log_volume=zero if log_volume is None else tf.reduce_sum(chains.keep(is_alive, log_volume)),
        moments=moments,
    )
    if pool_fn is None:
        return totals
    return tf.nest.pack_sequence_as(totals, pool_fn(tf.nest.flatten(totals)))


def report(info: Info, totals: Totals, transition: Transition, log_det: Tensor) -> Info:
    """What an observer is told of a step."""
    return info._replace(
        accept_prob=totals.accept_prob / totals.num_chains,
        entropy=log_det,
        num_nonfinite=info.num_nonfinite + metropolis.num_nonfinite(transition),
    )


def _moments(axes, before, transition, covariance):
    weights = tf.cast(alive(before), before.position.dtype)
    rows = transition.state.position
    if axes.rao_blackwell:
        accept_prob = metropolis.accept_prob(transition)
        rows = tf.concat([transition.proposed.position, before.position], axis=0)
        weights = tf.concat([weights * accept_prob, weights * (1 - accept_prob)], axis=0)
    return learned_covariance.collect(covariance, rows, weights)


def _collects_late(axes, state):
    """Whether moments are collected where they are absorbed, and so by no step that learns nothing.

    A step after learning then takes 0.39 of the time with ten chains at D = 256, 0.48 at D = 32,
    and 0.36 with one chain at D = 256. There a step that learns takes 0.87: XLA fuses the sums with
    what absorbs them. Not so where sums are pooled, which must be known before, nor with several
    chains of few coordinates: ten at D = 2 would take 1.09 while they learn.
    """
    num_chains, size = state.position.shape
    return axes.pool_fn is None and (num_chains == 1 or size >= 8)


def _learn(axes, adaptation, totals, step, collect):
    """The next adaptation; the same where learning is over or no chain is alive."""
    covariance, scale = adaptation.optimizer
    is_learning = (step < axes.num_adaptation_steps) & (totals.num_alive > 0)
    is_last = tf.equal(step + 1, axes.num_adaptation_steps)

    def rescale(old):
        state, log_scale = next_scale(axes.scale_rule, old[0], totals, is_last)
        return state, tf.exp(log_scale)

    def follow(old):
        time, size = tf.cast(step + 1, totals.num_alive.dtype), old.mean.shape[0]
        gain = axes.gain(time, size / totals.num_alive)
        moments = collect(old) if totals.moments is None else totals.moments
        return learned_covariance.absorb(old, moments, gain)

    scale, factor = branching.when(is_learning, rescale, (scale, tf.ones_like(totals.num_alive)))
    covariance = branching.when(is_learning, follow, covariance)
    covariance = branching.when(
        is_learning & (learned_covariance.is_due(covariance, step) | is_last),
        learned_covariance.refactor,
        covariance,
    )
    preconditioner = branching.when(
        is_learning, lambda _: factor * covariance.factor, adaptation.preconditioner
    )
    return Adaptation(preconditioner, Learning(covariance, scale))


def first_scale(rule: StepSizeRule | None, log_scale: Tensor) -> Any:
    """State of the rule, or the logarithm of the scale where there is none."""
    return log_scale if rule is None else rule.init(log_scale)


def next_scale(rule: StepSizeRule | None, state: Any, totals: Totals, is_last: Tensor) -> tuple:
    """(state, logarithm of the scale) after a step.

    The scale stays within a quarter of the exponents of its type: a flat target wants ever longer
    steps.

    Args:
      rule: of the scale; `None` for a fixed one.
      state: before.
      totals: of the step, with a chain alive.
      is_last: whether the rule stops here.
    """
    if rule is None:
        return state, state
    state = rule.update(state, totals.accept_prob_alive / totals.num_alive)
    log_scale = tf.where(is_last, rule.learned(state), rule.current(state))
    bound = tf.math.log(tf.constant(log_scale.dtype.max, log_scale.dtype)) / 4
    return state, tf.clip_by_value(log_scale, -bound, bound)
