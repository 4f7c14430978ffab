"""The core step of every gradient-adaptive sampler: propose, accept, learn.

For every chain c, with position q, the shared preconditioner C and step size h:

    propose   q', Delta = proposal with factor h C from q
    accept    q <- q' with probability a = min(1, exp(-Delta))
    learn     E = mean_c loss(Delta, q, q') - beta (log|det C| + log det(I + D) - gamma pen(|mu|))
              C     <- optimizer step down an unbiased estimate of grad_C E
              beta  <- controller fed with mean_c a
              gamma <- controller fed with mean_c pen(|mu|)

D is the whitened Jacobian residual of the proposal at the midpoint and mu its largest eigenvalue.
Everything in here is pure: what is learned is in `Adaptation`, what a step needs of each chain in
`ChainState`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains, random
from tfp_adaptive.internal.curvature import pooled, stable_scale
from tfp_adaptive.internal.in_sequence import in_sequence
from tfp_adaptive.kernels import geometry, metropolis
from tfp_adaptive.kernels.totals import means as means_of
from tfp_adaptive.kernels.totals import totals_of
from tfp_adaptive.typing import (
    ChainState,
    Controller,
    Entropy,
    Info,
    LogDensity,
    Objective,
    Optimizer,
    Preconditioner,
    Proposal,
    Sampler,
    Tensor,
)


class Adaptation(NamedTuple):
    """Everything learned, shared by all chains. A frozen kernel keeps the preconditioner alone."""

    preconditioner: Any
    optimizer: Any = ()
    entropy_weight: Any = ()
    penalty_weight: Any = ()
    objective: Any = ()


class Noise(NamedTuple):
    """All randomness of one step; each field comes from a seed of its own."""

    move: Tensor
    entropy: Any
    log_uniform: Tensor


class Start(NamedTuple):
    """What a step starts from."""

    target: LogDensity
    geometry: geometry.Geometry
    state: ChainState
    adaptation: Adaptation
    noise: Noise
    step_size: Tensor
    """Scalar or [C, 1]."""
    step: Tensor
    """Number of steps taken before."""


class Axes(NamedTuple):
    """One choice for every axis: an algorithm."""

    proposal: Proposal
    preconditioner: Preconditioner
    objective: Objective
    energy_gradient: str
    entropy: Entropy
    optimizer: Optimizer
    entropy_weight: Controller
    penalty_weight: Controller
    num_adaptation_steps: Any
    pool_fn: Callable[[list], list] | None = None


def adaptive_sampler(axes: Axes) -> Sampler:
    """A sampler that learns its preconditioner for the first `num_adaptation_steps` steps.

    Args:
      axes: one choice for every axis.

    Returns:
      A `Sampler` whose adaptation is an `Adaptation`.
    """
    geometry.check_preconditioner(axes.preconditioner, axes.proposal)
    return Sampler(
        init=functools.partial(_init, axes),
        init_info=_init_info,
        draw=functools.partial(_draw, axes),
        step=functools.partial(_step, axes),
        uses_score=axes.proposal.uses_score,
        uses_velocity=axes.proposal.uses_velocity,
        sequence_limit=axes.proposal.sequence_limit,
    )


def _step(axes, target, state, adaptation, info, noise, step_size, step):
    """One step of the algorithm: propose, accept, learn."""
    start = Start(target, geometry_of(axes, target), state, adaptation, noise, step_size, step)
    move, slopes = _propose(start)
    transition = _accept(move, noise)
    adaptation, info = _learn(axes, start, move, slopes, transition, info)
    return transition, adaptation, info


def _propose(start):
    """The move to q' with its Delta, and the slopes that `Geometry.gradient` asks for."""
    return start.geometry.differentiable_move(
        start.target,
        start.adaptation.preconditioner,
        start.step_size,
        start.state,
        start.noise.move,
        start.adaptation.objective,
    )


def _accept(move, noise):
    """Moves to q' with probability min(1, exp(-Delta))."""
    return metropolis.metropolis_hastings(move, noise.log_uniform)


def _learn(axes, start, move, slopes, transition, info):
    """C, beta and gamma after the step, and what is reported of it."""
    beta = start.adaptation.entropy_weight
    midpoint = _midpoint(start, move, transition)
    entropy, is_used = _estimate_entropy(axes, start, move, transition, midpoint)
    gradient, num_products = start.geometry.gradient(slopes, is_used, midpoint, entropy, beta)
    own = totals_of(axes, start.state, move, transition, is_used, entropy)
    gradient, totals = _pool(axes, gradient, own)
    means = means_of(totals)
    learned = _update(axes, start, gradient, totals, means)
    adaptation = _select(start.step < axes.num_adaptation_steps, learned, start.adaptation)
    info = _report(info, start, move, adaptation, entropy, num_products, own, means)
    return adaptation, info


def _midpoint(start, move, transition) -> geometry.Midpoint:
    """Where D is measured; the current position for chains whose energy is not finite."""
    is_finite = metropolis.is_finite(transition)
    return geometry.Midpoint(
        start.target,
        start.adaptation.preconditioner,
        start.step_size,
        chains.where(is_finite, move.midpoint, start.state.position),
        chains.where(is_finite, move.midpoint_score, start.state.score),
        move.curvature,
    )


def _estimate_entropy(axes, start, move, transition, midpoint):
    """(estimate of log det(I + D), which chains it and the move are finite for [C]).

    The figures of the other chains are zero.
    """
    # random numbers of a small target are drawn after the move, not beside it
    noise = in_sequence(
        transition.state.log_prob,
        start.noise.entropy,
        since=[move.proposed.position],
        limit=axes.proposal.sequence_limit,
    )
    estimate = axes.entropy.estimate(
        start.geometry.residual(*midpoint),
        start.geometry.probe,
        noise,
        start.adaptation.penalty_weight,
        start.step < axes.num_adaptation_steps,
    )
    is_used = metropolis.is_finite(transition) & estimate.is_finite & chains.can_move(start.state)
    radius = estimate.spectral_radius
    estimate = estimate._replace(
        log_det=chains.keep(is_used, estimate.log_det),
        spectral_radius=radius if radius.shape[0] == 0 else chains.keep(is_used, radius),
        penalty=chains.keep(is_used, estimate.penalty),
    )
    return estimate, is_used


def _pool(axes, gradient, totals):
    """The sums over all replicas."""
    if axes.pool_fn is None:
        return gradient, totals
    pooled = axes.pool_fn(tf.nest.flatten((gradient, totals)))
    return tf.nest.pack_sequence_as((gradient, totals), pooled)


def _update(axes, start, gradient, totals, means) -> Adaptation:
    """One step of the optimizer and of both controllers."""
    old = start.adaptation
    parameters, optimizer = _descend(axes, start, gradient, means)
    leaves = tf.nest.flatten([gradient, parameters])
    is_usable = tf.reduce_all([chains.is_finite(leaf) for leaf in leaves])
    is_usable &= totals.num_used + totals.num_lost > 0
    beta = axes.entropy_weight.update(old.entropy_weight, means.acceptance_signal)
    objective = axes.objective.update(old.objective, means.objective)
    return Adaptation(
        preconditioner=_select(is_usable, parameters, old.preconditioner),
        optimizer=_select(is_usable, optimizer, old.optimizer),
        entropy_weight=_select(totals.num_alive > 0, beta, old.entropy_weight),
        penalty_weight=axes.penalty_weight.update(old.penalty_weight, means.penalty),
        objective=_select(totals.num_used > 0, objective, old.objective),
    )


def _descend(axes, start, gradient, means):
    """(parameters of C, optimizer state) after a step down grad E."""
    parameters, optimizer, beta = start.adaptation[:3]

    def slope_of(gradient, log_det):
        # a move without a finite energy has no derivative, but its proposal was too bold: it counts
        # against log|det C|. Without this, nothing holds the entropy back at hard walls
        slope = means.per_used * gradient + (means.lost - beta) * log_det
        return axes.optimizer.condition(slope, beta)

    slope = tf.nest.map_structure(slope_of, gradient, start.geometry.log_det_gradient(parameters))
    num_steps = tf.maximum(axes.num_adaptation_steps, 1)
    progress = tf.cast(start.step, beta.dtype) / tf.cast(num_steps, beta.dtype)
    tangent, optimizer = axes.optimizer.update(slope, optimizer, progress)
    return start.geometry.retract(parameters, tangent), optimizer


def _report(info, start, move, adaptation, entropy, num_products, own, means) -> Info:
    """The diagnostics after the step; a Hessian-vector product is counted where it is spent."""
    num_products += entropy.num_hessian_vector_products
    num_products += start.geometry.products_per_gradient * move.num_gradients
    return info._replace(
        accept_prob=means.accept_prob,
        entropy=start.geometry.log_det(adaptation.preconditioner) + means.log_det,
        spectral_radius=tf.maximum(tf.reduce_max(entropy.spectral_radius), 0),
        entropy_weight=adaptation.entropy_weight,
        penalty_weight=adaptation.penalty_weight,
        num_nonfinite=info.num_nonfinite + own.num_nonfinite,
        num_gradients=info.num_gradients + move.num_gradients,
        num_hessian_vector_products=info.num_hessian_vector_products + num_products,
    )


def _select(condition, new, old):
    return tf.nest.map_structure(lambda a, b: tf.where(condition, a, b), new, old)


def geometry_of(axes: Axes, target: LogDensity) -> geometry.Geometry:
    """How moves and what is learned from them depend on the preconditioner."""
    return geometry.make_geometry(
        target.event, axes.proposal, axes.preconditioner, axes.objective, axes.energy_gradient
    )


def _init(axes, target, state):
    dtype = state.position.dtype
    guess = pooled(axes.proposal.stable_fraction * stable_scale(target, state), axes.pool_fn)
    parameters = geometry.initial_parameters(axes.preconditioner, target.event, dtype, guess)
    tangent = geometry_of(axes, target).log_det_gradient(parameters)
    return Adaptation(
        preconditioner=parameters,
        optimizer=axes.optimizer.init(tf.nest.map_structure(tf.zeros_like, tangent)),
        entropy_weight=tf.constant(axes.entropy_weight.init, dtype),
        penalty_weight=tf.constant(axes.penalty_weight.init, dtype),
        objective=axes.objective.init(dtype),
    )


def _init_info(dtype):
    zero, count = tf.zeros([], dtype), tf.constant(0)
    # two gradients: the value at the start and the secant behind the first scale
    return Info(zero, zero, zero, zero, zero, count, count + 2, count)


def _draw(axes, seed, num_chains, event_size, dtype):
    move_seed, entropy_seed, accept_seed = random.split(seed, 3)
    return Noise(
        move=axes.proposal.draw(move_seed, num_chains, event_size, dtype),
        entropy=axes.entropy.draw(entropy_seed, num_chains, event_size, dtype),
        log_uniform=metropolis.draw_log_uniform(accept_seed, num_chains, dtype),
    )
