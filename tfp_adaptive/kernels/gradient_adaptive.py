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


class _Sums(NamedTuple):
    """What one step learns from all its chains, as sums and counts that may be pooled."""

    gradient: Any
    num_used: Tensor
    num_lost: Tensor
    num_alive: Tensor
    num_chains: Tensor
    accept_prob: Tensor
    acceptance_signal: Tensor
    objective: Tensor
    penalty: Tensor
    log_det: Tensor


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
    midpoint = chains.where(is_finite, move.midpoint, state.position)
    score = chains.where(is_finite, move.midpoint_score, state.score)
    where = (target, stored, step_size, midpoint, score, move.curvature)

    estimate = axes.entropy.estimate(
        geometry.residual(*where),
        geometry.probe,
        noise.entropy,
        adaptation.penalty_weight,
        is_adapting,
    )
    estimate = _without_the_lost(is_finite, estimate)
    is_used = is_finite & estimate.is_finite
    gradient, num_products = geometry.gradient(
        slopes, is_used, where, estimate, adaptation.entropy_weight
    )
    signal = axes.entropy_weight.signal(transition)
    # a chain that never had a density cannot move, whatever is learned: it has no say
    is_alive = tf.math.is_finite(state.log_prob)
    log_volume = chains.keep(is_used, tf.zeros_like(state.log_prob) + move.log_volume)
    totals = _totals(
        state,
        num_used=is_used,
        num_lost=is_alive & ~is_finite,
        num_alive=is_alive,
        accept_prob=metropolis.accept_prob(transition),
        acceptance_signal=chains.keep(is_alive, signal),
        objective=_objective_statistic(axes, state, move, is_used),
        penalty=estimate.penalty,
        log_det=estimate.log_det + log_volume,
    )
    totals['num_chains'] = tf.cast(chains.count(is_used), state.position.dtype)
    sums = _Sums(gradient=gradient, **totals)
    if axes.pool_fn is not None:
        sums = tf.nest.pack_sequence_as(sums, axes.pool_fn(tf.nest.flatten(sums)))
    learned = _learn(axes, geometry, adaptation, sums, _progress(axes, step, state))
    adaptation = _select(is_adapting, learned, adaptation)
    log_det = geometry.log_det(adaptation.preconditioner)
    info = _observe(adaptation, log_det, info, sums, transition, estimate)
    num_products += estimate.num_hessian_vector_products
    num_products += geometry.products_per_gradient * move.num_gradients
    info = info._replace(
        num_gradients=info.num_gradients + move.num_gradients,
        num_hessian_vector_products=info.num_hessian_vector_products + num_products,
    )
    return transition, adaptation, info


def _without_the_lost(is_finite, estimate):
    """The estimate, to which chains that lost their move add nothing."""
    of_chains = {
        name: tf.nest.map_structure(
            lambda x: x if x.shape[0] == 0 else chains.keep(is_finite, x), getattr(estimate, name)
        )
        for name in ('log_det', 'pairs', 'forms', 'spectral_radius', 'penalty')
    }
    return estimate._replace(**of_chains)


def _objective_statistic(axes, state, move, is_used):
    used = [chains.keep(is_used, x) for x in (move.energy_change, state.position)]
    return axes.objective.statistic(*used, chains.keep(is_used, move.proposed.position))


def _learn(axes, geometry, adaptation, sums, progress):
    """One step of the optimizer and of both controllers."""
    beta = adaptation.entropy_weight
    num_used = tf.maximum(sums.num_used, 1)
    # a chain that loses its move cannot say in which direction it was too bold, but that it was:
    # without it, hard walls leave nothing against entropy
    num_alive = tf.maximum(sums.num_alive, 1)
    lost = sums.num_lost / num_alive

    def descent_direction(gradient, log_det):
        # times a number: to divide a whole matrix costs as much as a product with it
        slope = (1 / num_used) * gradient + (lost - beta) * log_det
        return axes.optimizer.condition(slope, beta)

    gradient = tf.nest.map_structure(
        descent_direction, sums.gradient, geometry.log_det_gradient(adaptation.preconditioner)
    )
    tangent, optimizer = axes.optimizer.update(gradient, adaptation.optimizer, progress)
    parameters = geometry.retract(adaptation.preconditioner, tangent)
    leaves = tf.nest.flatten([sums.gradient, parameters])
    is_usable = tf.reduce_all([chains.is_finite(leaf) for leaf in leaves])
    is_usable &= sums.num_used + sums.num_lost > 0
    return Adaptation(
        preconditioner=_select(is_usable, parameters, adaptation.preconditioner),
        optimizer=_select(is_usable, optimizer, adaptation.optimizer),
        entropy_weight=_select(
            sums.num_alive > 0,
            axes.entropy_weight.update(beta, sums.acceptance_signal / num_alive),
            beta,
        ),
        penalty_weight=axes.penalty_weight.update(
            adaptation.penalty_weight, sums.penalty / num_used
        ),
        objective=_select(
            sums.num_used > 0,
            axes.objective.update(adaptation.objective, sums.objective / num_used),
            adaptation.objective,
        ),
    )


def _observe(adaptation, log_det, info, sums, transition, estimate):
    """What an observer may know of this step."""
    return info._replace(
        accept_prob=sums.accept_prob / sums.num_chains,
        entropy=log_det + sums.log_det / sums.num_chains,
        spectral_radius=tf.reduce_max(estimate.spectral_radius),
        entropy_weight=adaptation.entropy_weight,
        penalty_weight=adaptation.penalty_weight,
        num_nonfinite=info.num_nonfinite + metropolis.num_nonfinite(transition),
    )


def _progress(axes, step, state):
    """Fraction of the adaptation that is over."""
    total = tf.maximum(axes.num_adaptation_steps, 1)
    return tf.cast(step, state.position.dtype) / tf.cast(total, state.position.dtype)


def _select(condition, new, old):
    return tf.nest.map_structure(lambda a, b: tf.where(condition, a, b), new, old)


def _totals(state, **figures):
    """Sums over chains of figures [C], all of them at once."""
    rows = [tf.cast(figure, state.position.dtype) for figure in figures.values()]
    totals = tf.unstack(chains.sum_of_row(tf.stack(rows)), num=len(rows))
    return dict(zip(figures, totals, strict=True))
