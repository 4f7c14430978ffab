"""Two ways to make a move and differentiate its objective with respect to the preconditioner.

A differentiable move is a function
    (target, parameters, step_size, state, noise, objective_state) -> (move, gradient)
where gradient(is_used [C], more) is the tangent of the objective summed over the chains in use,
plus that of the pairs `more`, none by default.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains, outer_products
from tfp_adaptive.typing import LinearMap, Pairs, Proposal

_NO_PAIRS = Pairs((), ())


class EnergyGradient(NamedTuple):
    """A differentiable move and its price."""

    differentiable_move: Callable
    products_per_gradient: int
    """Hessian-vector products spent for each gradient of the move."""


def proposal_factor(preconditioner, parameters, step_size) -> LinearMap:
    """F = step_size * C at the given parameters."""
    prepared = preconditioner.prepare(parameters)
    return LinearMap(
        forward=lambda x: step_size * preconditioner.forward(prepared, x),
        transpose=lambda x: step_size * preconditioner.transpose(prepared, x),
    )


def learning_proposal(proposal: Proposal) -> Proposal:
    """The variant of `proposal` that records what learning needs."""
    return proposal.learning or proposal


def fast(proposal, preconditioner, objective) -> EnergyGradient:
    """Every gradient of U along the trajectory is held constant: closed form, no second pass."""
    proposal = learning_proposal(proposal)

    def differentiable_move(target, parameters, step_size, state, noise, objective_state=()):
        factor = proposal_factor(preconditioner, parameters, step_size)
        move = proposal.propose(target, factor, state, noise)

        def gradient(is_used, more=_NO_PAIRS):
            inputs = [move.energy_change, move.proposed.position]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(inputs)
                loss = objective.loss(inputs[0], state.position, inputs[1], objective_state)
            weight, cotangent = tape.gradient(loss, inputs)
            weight = tf.zeros_like(inputs[0]) if weight is None else weight
            # rows of different chains are first combined below, so here is where to remove some
            pairs = proposal.pullback(factor, move, weight, cotangent)
            pairs = outer_products.keep(is_used, pairs)
            # one product for all pairs
            pairs = Pairs(*((*a, *b) for a, b in zip(pairs, more, strict=True)))
            return preconditioner.gradient(parameters, pairs)

        return move, gradient

    return EnergyGradient(differentiable_move, 0)


def exact(proposal, preconditioner, objective) -> EnergyGradient:
    """Gradients flow through the whole trajectory: about one Hessian-vector product a gradient."""
    proposal = learning_proposal(proposal)

    def differentiable_move(target, parameters, step_size, state, noise, objective_state=()):
        still = tf.nest.map_structure(tf.zeros_like, preconditioner.log_det_gradient(parameters))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(still)
            moving = preconditioner.retract(parameters, still)
            factor = _guarded(proposal_factor(preconditioner, moving, step_size))
            move = proposal.propose(target, factor, state, noise)
            finite = chains.all_finite(move.proposed.position)
            loss = objective.loss(
                tf.where(tf.math.is_finite(move.energy_change), move.energy_change, 0),
                state.position,
                chains.keep(finite, move.proposed.position),
                objective_state,
            )

        def gradient(is_used, more=_NO_PAIRS):
            slope = tape.gradient(
                loss,
                still,
                output_gradients=tf.cast(is_used, loss.dtype),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            if not more.left:
                return slope
            return tf.nest.map_structure(tf.add, slope, preconditioner.gradient(parameters, more))

        return move, gradient

    return EnergyGradient(differentiable_move, 1)


def _guarded(factor: LinearMap) -> LinearMap:
    """The same map, through which a chain that overflows sends no NaN to the shared parameters."""

    def guard(apply):
        return lambda x: chains.drop_nonfinite_gradient(apply(chains.keep(chains.all_finite(x), x)))

    return LinearMap(guard(factor.forward), guard(factor.transpose))


MODES = {'fast': fast, 'exact': exact}


def check_mode(argument: str, name: str) -> str:
    """The name of one of `MODES` that `argument` was given.

    Raises:
      ValueError: for any other name.
    """
    if name not in MODES:
        raise ValueError(f"`{argument}` must be 'fast' or 'exact'; got {name!r}.")
    return name
