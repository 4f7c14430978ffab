"""The core step of every gradient-adaptive sampler: propose, accept, differentiate, learn.

It minimises, over the preconditioner C and one stochastic gradient a step,

    E = mean_chains loss(Delta, q, q') - beta (log|det C| + log det(I + D) - gamma pen(|mu|))

where loss is an objective, D the whitened Jacobian residual of the proposal and mu its largest
eigenvalue; beta follows the acceptance rate and gamma the penalty. Everything in here is pure:
what is learned is in `Adaptation`, what a step needs of each chain in `ChainState`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains, random
from tfp_adaptive.internal.curvature import stable_scale
from tfp_adaptive.kernels import metropolis
from tfp_adaptive.kernels.geometry import Geometry, check_preconditioner, make_geometry
from tfp_adaptive.kernels.totals import means as means_of
from tfp_adaptive.kernels.totals import over_chains
from tfp_adaptive.typing import (
    Controller,
    Entropy,
    Info,
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
    check_preconditioner(axes.preconditioner, axes.proposal)
    return Sampler(
        init=functools.partial(_init, axes),
        init_info=_init_info,
        draw=functools.partial(_draw, axes),
        step=functools.partial(_step, axes),
        uses_score=axes.proposal.uses_score,
        uses_velocity=axes.proposal.uses_velocity,
    )


def _geometry(axes, target) -> Geometry:
    return make_geometry(
        target.event, axes.proposal, axes.preconditioner, axes.objective, axes.energy_gradient
    )


def _init(axes, target, state):
    dtype = state.position.dtype
    guess = axes.proposal.stable_fraction * stable_scale(target, state)
    if axes.pool_fn is not None:
        total, count = axes.pool_fn([guess, tf.ones_like(guess)])
        guess = total / count
    geometry = _geometry(axes, target)
    parameters = geometry.init(target.event.size, dtype, guess)
    still = tf.nest.map_structure(tf.zeros_like, geometry.log_det_gradient(parameters))
    return Adaptation(
        preconditioner=parameters,
        optimizer=axes.optimizer.init(still),
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


def _step(axes, target, state, adaptation, info, noise, step_size, step):
    geometry = _geometry(axes, target)
    is_adapting = step < axes.num_adaptation_steps
    stored = geometry.store(adaptation.preconditioner)
    move, slopes = geometry.differentiable_move(
        target, stored, step_size, state, noise.move, adaptation.objective
    )
    transition = metropolis.metropolis_hastings(move, noise.log_uniform)
    is_finite = metropolis.is_finite(transition)
    # of small targets: the entropy comes after the move, and what is learned after its figures, so
    # that no product of either is ready together with anything else
    after = target.order.after
    entropy_noise = tf.nest.map_structure(
        lambda x: after(transition.state.log_prob, x), noise.entropy
    )
    midpoint = chains.where(is_finite, move.midpoint, state.position)
    score = chains.where(is_finite, move.midpoint_score, state.score)
    where = (target, stored, step_size, midpoint, score, move.curvature)

    estimate = axes.entropy.estimate(
        geometry.residual(*where),
        geometry.probe,
        entropy_noise,
        adaptation.penalty_weight,
        is_adapting,
    )
    is_used = is_finite & estimate.is_finite
    estimate = _figures_of(is_used, estimate)
    totals = _totals(axes, state, move, transition, is_used, estimate)
    means = means_of(totals)
    gradient, num_products = geometry.gradient(
        slopes, after(means.per_used, is_used), where, estimate, adaptation.entropy_weight
    )
    num_nonfinite = totals.num_nonfinite
    if axes.pool_fn is not None:
        pooled = axes.pool_fn(tf.nest.flatten((gradient, totals)))
        gradient, totals = tf.nest.pack_sequence_as((gradient, totals), pooled)
        means = means_of(totals)
    progress = _progress(axes, after(means.per_used, step), state)
    learned = _learn(axes, geometry, adaptation, gradient, totals, means, progress)
    adaptation = _select(is_adapting, learned, adaptation)
    log_det = geometry.log_det(adaptation.preconditioner)
    info = _observe(adaptation, log_det, info, means, estimate)
    num_products += estimate.num_hessian_vector_products
    num_products += geometry.products_per_gradient * move.num_gradients
    info = info._replace(
        num_gradients=info.num_gradients + move.num_gradients,
        num_hessian_vector_products=info.num_hessian_vector_products + num_products,
        num_nonfinite=info.num_nonfinite + num_nonfinite,
    )
    return transition, adaptation, info


def _totals(axes, state, move, transition, is_used, estimate):
    """What all chains of this replica have to say, summed."""
    # a chain that never had a density cannot move, whatever is learned: it has no say
    is_alive = tf.math.is_finite(state.log_prob)
    signal = axes.entropy_weight.signal(transition)
    log_volume = chains.keep(is_used, tf.zeros_like(state.log_prob) + move.log_volume)
    return over_chains(
        state.position.dtype,
        num_used=is_used,
        num_lost=is_alive & ~metropolis.is_finite(transition),
        num_alive=is_alive,
        accept_prob=metropolis.accept_prob(transition),
        acceptance_signal=chains.keep(is_alive, signal),
        objective=chains.keep(is_used, _objective_statistic(axes, state, move)),
        penalty=estimate.penalty,
        log_det=estimate.log_det + log_volume,
    )


def _figures_of(is_used, estimate):
    """The estimate, to whose figures other chains add nothing."""
    names = ('log_det', 'spectral_radius', 'penalty')
    figures = {name: getattr(estimate, name) for name in names}
    return estimate._replace(
        **{
            name: figure if figure.shape[0] == 0 else chains.keep(is_used, figure)
            for name, figure in figures.items()
        }
    )


def _objective_statistic(axes, state, move):
    return axes.objective.statistic(move.energy_change, state.position, move.proposed.position)


def _learn(axes, geometry, adaptation, gradient, totals, means, progress):
    """One step of the optimizer and of both controllers."""
    beta = adaptation.entropy_weight

    def descent_direction(gradient, log_det):
        # a chain that loses its move cannot say in which direction it was too bold, but that it
        # was: without it, hard walls leave nothing against entropy
        slope = means.per_used * gradient + (means.lost - beta) * log_det
        return axes.optimizer.condition(slope, beta)

    slope = tf.nest.map_structure(
        descent_direction, gradient, geometry.log_det_gradient(adaptation.preconditioner)
    )
    tangent, optimizer = axes.optimizer.update(slope, adaptation.optimizer, progress)
    parameters = geometry.retract(adaptation.preconditioner, tangent)
    leaves = tf.nest.flatten([gradient, parameters])
    is_usable = tf.reduce_all([chains.is_finite(leaf) for leaf in leaves])
    is_usable &= totals.num_used + totals.num_lost > 0
    return Adaptation(
        preconditioner=_select(is_usable, parameters, adaptation.preconditioner),
        optimizer=_select(is_usable, optimizer, adaptation.optimizer),
        entropy_weight=_select(
            totals.num_alive > 0,
            axes.entropy_weight.update(beta, means.acceptance_signal),
            beta,
        ),
        penalty_weight=axes.penalty_weight.update(adaptation.penalty_weight, means.penalty),
        objective=_select(
            totals.num_used > 0,
            axes.objective.update(adaptation.objective, means.objective),
            adaptation.objective,
        ),
    )


def _observe(adaptation, log_det, info, means, estimate):
    """What an observer may know of this step."""
    return info._replace(
        accept_prob=means.accept_prob,
        entropy=log_det + means.log_det,
        spectral_radius=tf.maximum(tf.reduce_max(estimate.spectral_radius), 0),
        entropy_weight=adaptation.entropy_weight,
        penalty_weight=adaptation.penalty_weight,
    )


def _progress(axes, step, state):
    """Fraction of the adaptation that is over."""
    total = tf.maximum(axes.num_adaptation_steps, 1)
    return tf.cast(step, state.position.dtype) / tf.cast(total, state.position.dtype)


def _select(condition, new, old):
    return tf.nest.map_structure(lambda a, b: tf.where(condition, a, b), new, old)
