"""The core step of every gradient-adaptive sampler: propose, accept, differentiate, learn.

It minimises, over the preconditioner C and one stochastic gradient a step,

    E = mean_chains loss(Delta, q, q') - beta (log|det C| + log det(I + D) - gamma pen(|mu|))

where loss is an objective, D the whitened Jacobian residual of the proposal and mu its largest
eigenvalue; beta follows the acceptance rate and gamma the penalty. Everything in here is pure;
what is learned is in `Adaptation`, what a step needs of each chain in `ChainState`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.internal import chains, curvature
from tfp_adaptive.kernels.energy_gradients import proposal_factor
from tfp_adaptive.typing import (
    ChainState,
    Controller,
    Entropy,
    Info,
    Move,
    Optimizer,
    Preconditioner,
    Proposal,
    Sampler,
    Tensor,
    Transition,
)


class Adaptation(NamedTuple):
    """Everything learned, shared by all chains. A frozen kernel keeps the preconditioner alone."""

    preconditioner: Any
    optimizer: Any
    entropy_weight: Any
    penalty_weight: Any


class Noise(NamedTuple):
    """All randomness of one step; each field comes from a seed of its own."""

    move: Tensor
    entropy: Any
    log_uniform: Tensor


class Learner(NamedTuple):
    """How the preconditioner learns."""

    entropy: Entropy
    optimizer: Optimizer
    entropy_weight: Controller
    penalty_weight: Controller
    num_adaptation_steps: Any
    pool_fn: Callable[[list], list]


_MAX_SLOPE = 10.0
"""Entries of the gradient are clipped here, in units of max(1, beta): a single divergent
trajectory must not fill the optimizer's moments for a thousand steps."""


def adaptive_sampler(
    proposal: Proposal,
    preconditioner: Preconditioner,
    differentiable_move: Callable,
    learner: Learner,
) -> Sampler:
    """A sampler that learns its preconditioner for the first `num_adaptation_steps` steps.

    Args:
      proposal: how a move is made.
      preconditioner: the family of factors C.
      differentiable_move: `energy_gradients.fast` or `exact`, already given its axes.
      learner: entropy, optimizer, controllers and pooling.

    Returns:
      A `Sampler` whose adaptation is an `Adaptation`.
    """

    def init(target, state):
        dtype = state.position.dtype
        guess = proposal.stable_fraction * curvature.stable_scale(target, state)
        parameters = preconditioner.init(state.position.shape[-1], dtype, guess)
        still = tf.nest.map_structure(tf.zeros_like, preconditioner.log_det_gradient(parameters))
        return Adaptation(
            preconditioner=parameters,
            optimizer=learner.optimizer.init(still),
            entropy_weight=tf.constant(learner.entropy_weight.init, dtype),
            penalty_weight=tf.constant(learner.penalty_weight.init, dtype),
        )

    def draw(seed, num_chains, event_size, dtype):
        move_seed, entropy_seed, accept_seed = tf.unstack(tfp.random.split_seed(seed, 3))
        return Noise(
            move=proposal.draw(move_seed, num_chains, event_size, dtype),
            entropy=learner.entropy.draw(entropy_seed, num_chains, event_size, dtype),
            log_uniform=_log_uniform(accept_seed, num_chains, dtype),
        )

    def step(target, state, adaptation, info, noise, step_size, step):
        is_adapting = step < learner.num_adaptation_steps
        parameters = adaptation.preconditioner
        move, energy_gradient = differentiable_move(
            target, parameters, step_size, state, noise.move
        )
        transition = metropolis_hastings(state, move, noise.log_uniform)
        is_finite = transition.log_accept_ratio > float('-inf')
        factor = proposal_factor(preconditioner, parameters, step_size)
        midpoint = tf.stop_gradient(chains.where(is_finite, move.midpoint, state.position))

        def residual(x):
            product = target.hessian_vector_product(midpoint, factor.forward(x))
            return -proposal.curvature * factor.transpose(product)

        estimate = learner.entropy.estimate(
            residual, preconditioner.probe, noise.entropy, adaptation.penalty_weight, is_adapting
        )
        is_used = is_finite & estimate.is_finite
        sums = _Sums(
            energy_gradient=energy_gradient(is_used),
            entropy_gradient=preconditioner.gradient(parameters, estimate.pairs),
            num_used=_count(is_used, state),
            num_chains=_count(tf.ones_like(is_used), state),
            accept_prob=tf.reduce_sum(accept_prob(transition)),
            penalty=tf.reduce_sum(estimate.penalty),
            log_det=tf.reduce_sum(estimate.log_det),
        )
        sums = tf.nest.pack_sequence_as(sums, learner.pool_fn(tf.nest.flatten(sums)))
        progress = tf.cast(step, state.position.dtype) / tf.cast(
            tf.maximum(learner.num_adaptation_steps, 1), state.position.dtype
        )
        learned = _learn(preconditioner, learner, adaptation, sums, progress)
        adaptation = _select(is_adapting, learned, adaptation)
        info = Info(
            accept_prob=sums.accept_prob / sums.num_chains,
            entropy=preconditioner.log_det(parameters) + sums.log_det / sums.num_chains,
            spectral_radius=tf.reduce_max(estimate.spectral_radius),
            entropy_weight=adaptation.entropy_weight,
            penalty_weight=adaptation.penalty_weight,
            num_nonfinite=info.num_nonfinite + _num_nonfinite(transition),
            num_gradients=info.num_gradients + proposal.num_gradients,
            num_hessian_vector_products=(
                info.num_hessian_vector_products + estimate.num_hessian_vector_products
            ),
        )
        return transition, adaptation, info

    def init_info(dtype):
        zero, count = tf.zeros([], dtype), tf.constant(0)
        # the value at the start and the secant behind the first scale
        return Info(zero, zero, zero, zero, zero, count, count + 2, count)

    return Sampler(init, init_info, draw, step)


def frozen_sampler(proposal: Proposal, preconditioner: Preconditioner, parameters: Any) -> Sampler:
    """The same proposal at fixed parameters: nothing but the L gradients of the move.

    Args:
      proposal: how a move is made.
      preconditioner: the family of factors C.
      parameters: of the preconditioner.

    Returns:
      A `Sampler` whose adaptation holds the parameters, so that a compiled program takes them as
      an argument.
    """

    def init(target, state):
        del target, state
        return Adaptation(parameters, (), (), ())

    def draw(seed, num_chains, event_size, dtype):
        move_seed, accept_seed = tf.unstack(tfp.random.split_seed(seed, 2))
        return Noise(
            move=proposal.draw(move_seed, num_chains, event_size, dtype),
            entropy=(),
            log_uniform=_log_uniform(accept_seed, num_chains, dtype),
        )

    def step(target, state, adaptation, info, noise, step_size, step):
        del step
        factor = proposal_factor(preconditioner, adaptation.preconditioner, step_size)
        move = proposal.propose(target, factor, state, noise.move)
        transition = metropolis_hastings(state, move, noise.log_uniform)
        return (
            transition,
            adaptation,
            info._replace(
                accept_prob=tf.reduce_mean(accept_prob(transition)),
                num_nonfinite=info.num_nonfinite + _num_nonfinite(transition),
                num_gradients=info.num_gradients + proposal.num_gradients,
            ),
        )

    def init_info(dtype):
        return Info(tf.zeros([], dtype), (), (), (), (), tf.constant(0), tf.constant(1), ())

    return Sampler(init, init_info, draw, step)


def metropolis_hastings(state: ChainState, move: Move, log_uniform: Tensor) -> Transition:
    """Accepts each chain's move with probability min(1, exp(-Delta)); not finite, not accepted."""
    minus_infinity = tf.constant(float('-inf'), log_uniform.dtype)
    is_finite = tf.math.is_finite(move.energy_change)
    log_accept_ratio = tf.where(is_finite, -move.energy_change, minus_infinity)
    is_accepted = log_uniform < log_accept_ratio
    new = [
        chains.where(is_accepted, proposed, current)
        for proposed, current in zip(move.proposed, state, strict=True)
    ]
    return Transition(ChainState(*new), move.proposed, log_accept_ratio, is_accepted)


def accept_prob(transition: Transition) -> Tensor:
    """[C] min(1, exp(-Delta))."""
    return tf.exp(tf.minimum(transition.log_accept_ratio, 0))


class _Sums(NamedTuple):
    """What one step learns from all its chains, as sums and counts that may be pooled."""

    energy_gradient: Any
    entropy_gradient: Any
    num_used: Tensor
    num_chains: Tensor
    accept_prob: Tensor
    penalty: Tensor
    log_det: Tensor


def _learn(preconditioner, learner, adaptation, sums, progress):
    """One step of the optimizer and of both controllers."""
    beta = adaptation.entropy_weight
    num_used = tf.maximum(sums.num_used, 1)

    def descent_direction(energy, entropy, log_det):
        slope = energy / num_used - beta * (log_det + entropy / num_used)
        return tf.clip_by_value(slope / tf.maximum(beta, 1), -_MAX_SLOPE, _MAX_SLOPE)

    gradient = tf.nest.map_structure(
        descent_direction,
        sums.energy_gradient,
        sums.entropy_gradient,
        preconditioner.log_det_gradient(adaptation.preconditioner),
    )
    tangent, optimizer = learner.optimizer.update(gradient, adaptation.optimizer, progress)
    parameters = preconditioner.retract(adaptation.preconditioner, tangent)
    leaves = tf.nest.flatten([gradient, parameters])
    is_usable = tf.reduce_all([tf.reduce_all(tf.math.is_finite(leaf)) for leaf in leaves])
    is_usable &= sums.num_used > 0
    return Adaptation(
        preconditioner=_select(is_usable, parameters, adaptation.preconditioner),
        optimizer=_select(is_usable, optimizer, adaptation.optimizer),
        entropy_weight=learner.entropy_weight.update(beta, sums.accept_prob / sums.num_chains),
        penalty_weight=learner.penalty_weight.update(
            adaptation.penalty_weight, sums.penalty / num_used
        ),
    )


def _select(condition, new, old):
    return tf.nest.map_structure(lambda a, b: tf.where(condition, a, b), new, old)


def _log_uniform(seed, num_chains, dtype):
    return tf.math.log(tf.random.stateless_uniform([num_chains], seed, dtype=dtype))


def _count(mask, state):
    return tf.reduce_sum(tf.cast(mask, state.position.dtype))


def _num_nonfinite(transition):
    lost = tf.equal(transition.log_accept_ratio, float('-inf'))
    return tf.reduce_sum(tf.cast(lost, tf.int32))
