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
from tfp_adaptive.internal import chains
from tfp_adaptive.kernels import frozen, metropolis
from tfp_adaptive.kernels.geometry import make_move
from tfp_adaptive.kernels.gradient_adaptive import Adaptation
from tfp_adaptive.tuning import StepSizeRule, learned_covariance
from tfp_adaptive.tuning.learned_covariance import LearnedCovariance
from tfp_adaptive.typing import Info, Preconditioner, Sampler, Tensor

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


class _Totals(NamedTuple):
    """What all chains have to say, summed; pooled over replicas once a step."""

    num_chains: Tensor
    num_alive: Tensor
    accept_prob: Tensor
    accept_prob_alive: Tensor
    moments: learned_covariance.Sums


def moment_sampler(axes: Axes) -> Sampler:
    """A sampler that learns for the first `num_adaptation_steps` steps.

    Args:
      axes: one choice for every axis.

    Returns:
      A `Sampler` whose adaptation is an `Adaptation` with a `Learning`.
    """
    return Sampler(
        init=functools.partial(_init, axes),
        init_info=_init_info,
        draw=functools.partial(frozen.draw_noise, PROPOSAL),
        step=functools.partial(_step, axes),
        uses_score=False,
    )


def initial_log_scale(event_size: int, dtype: Any) -> Tensor:
    """The logarithm of 2.38 / sqrt(D), which is best for a Gaussian target of known covariance."""
    return tf.math.log(tf.constant(2.38 / event_size**0.5, dtype))


def pooled_start(target, state, pool_fn):
    """Mean of the positions of all chains that have a density, [D]; zero where there is none."""
    is_alive = tf.math.is_finite(state.log_prob)
    first = tf.reduce_sum(chains.keep(is_alive, state.position), axis=0)
    count = tf.reduce_sum(tf.cast(is_alive, first.dtype))
    if pool_fn is not None:
        first, count = pool_fn([first, count])
    return tf.ensure_shape(first / tf.maximum(count, 1), [target.event.size])


def _init(axes, target, state):
    mean = pooled_start(target, state, axes.pool_fn)
    log_scale = initial_log_scale(target.event.size, mean.dtype)
    covariance = learned_covariance.start(mean)
    scale = log_scale if axes.scale_rule is None else axes.scale_rule.init(log_scale)
    return Adaptation(tf.exp(log_scale) * covariance.factor, Learning(covariance, scale))


def _init_info(dtype):
    zero, count = tf.zeros([], dtype), tf.constant(0)
    return Info(zero, zero, zero, zero, zero, count, count, count)


def _step(axes, target, state, adaptation, info, noise, step_size, step):
    move = make_move(target.event, PROPOSAL, axes.preconditioner)
    moved = move(target, adaptation.preconditioner, step_size, state, noise.move)
    transition = metropolis.metropolis_hastings(moved, noise.log_uniform)
    totals = _totals(axes, state, transition, adaptation.optimizer.covariance)
    if axes.pool_fn is not None:
        totals = tf.nest.pack_sequence_as(totals, axes.pool_fn(tf.nest.flatten(totals)))
    is_adapting = (step < axes.num_adaptation_steps) & (totals.num_alive > 0)
    adaptation = tf.cond(
        is_adapting, lambda: _learn(axes, adaptation, totals, step), lambda: adaptation
    )
    info = info._replace(
        accept_prob=totals.accept_prob / totals.num_chains,
        entropy=axes.preconditioner.log_det(adaptation.preconditioner),
        num_nonfinite=info.num_nonfinite + metropolis.num_nonfinite(transition),
    )
    return transition, adaptation, info


def _totals(axes, before, transition, covariance):
    # a chain that never had a density cannot move, whatever is learned: it has no say
    is_alive = tf.math.is_finite(before.log_prob)
    accept_prob = metropolis.accept_prob(transition)
    alive = tf.cast(is_alive, accept_prob.dtype)
    if axes.rao_blackwell:
        rows = tf.concat([transition.proposed.position, before.position], axis=0)
        weights = tf.concat([alive * accept_prob, alive * (1 - accept_prob)], axis=0)
    else:
        rows, weights = transition.state.position, alive
    return _Totals(
        num_chains=tf.cast(chains.count(is_alive), accept_prob.dtype),
        num_alive=tf.reduce_sum(alive),
        accept_prob=tf.reduce_sum(accept_prob),
        accept_prob_alive=tf.reduce_sum(chains.keep(is_alive, accept_prob)),
        moments=learned_covariance.collect(covariance, rows, weights),
    )


def _learn(axes, adaptation, totals, step):
    covariance, scale = adaptation.optimizer
    size = covariance.mean.shape[0]
    time = tf.cast(step + 1, totals.num_alive.dtype)
    gain = axes.gain(time, size / totals.num_alive)
    covariance = learned_covariance.absorb(covariance, totals.moments, gain)
    is_last = tf.equal(step + 1, axes.num_adaptation_steps)
    covariance = tf.cond(
        learned_covariance.is_due(step, size) | is_last,
        lambda: learned_covariance.refactor(covariance),
        lambda: covariance,
    )
    log_scale = scale
    if axes.scale_rule is not None:
        rule = axes.scale_rule
        scale = rule.update(scale, totals.accept_prob_alive / totals.num_alive)
        log_scale = bounded(tf.where(is_last, rule.learned(scale), rule.current(scale)))
    return Adaptation(tf.exp(log_scale) * covariance.factor, Learning(covariance, scale))


def bounded(log_scale: Tensor) -> Tensor:
    """Within a quarter of the exponents of its type: a flat target wants ever longer steps."""
    bound = tf.math.log(tf.constant(log_scale.dtype.max, log_scale.dtype)) / 4
    return tf.clip_by_value(log_scale, -bound, bound)
