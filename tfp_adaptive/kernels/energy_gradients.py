"""Two ways to make a move and differentiate its objective with respect to the preconditioner.

Each is a function (proposal, preconditioner, objective) -> differentiable move, which is
    (target, parameters, step_size, state, noise) -> (move, gradient)
where gradient(is_used [C]) is the tangent of the objective summed over the chains in use.
"""

import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import LinearMap


def proposal_factor(preconditioner, parameters, step_size) -> LinearMap:
    """F = step_size * C at the given parameters."""
    return LinearMap(
        forward=lambda x: preconditioner.forward(parameters, step_size * x),
        transpose=lambda x: step_size * preconditioner.transpose(parameters, x),
    )


def fast(proposal, preconditioner, objective):
    """Every gradient of U along the trajectory is held constant: closed form, no second pass."""

    def differentiable_move(target, parameters, step_size, state, noise):
        factor = proposal_factor(preconditioner, parameters, step_size)
        move = proposal.propose(target, factor, state, noise)

        def gradient(is_used):
            used = tf.nest.map_structure(lambda x: chains.keep(is_used, x), move)
            inputs = [used.energy_change, used.proposed.position]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(inputs)
                loss = chains.keep(is_used, objective.loss(inputs[0], state.position, inputs[1]))
            weight, cotangent = tape.gradient(loss, inputs)
            pairs = proposal.pullback(factor, used, weight, cotangent)
            return preconditioner.gradient(parameters, pairs)

        return move, gradient

    return differentiable_move


def exact(proposal, preconditioner, objective):
    """Gradients flow through the whole trajectory: about one Hessian-vector product a gradient."""

    def differentiable_move(target, parameters, step_size, state, noise):
        still = tf.nest.map_structure(tf.zeros_like, preconditioner.log_det_gradient(parameters))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(still)
            moving = preconditioner.retract(parameters, still)
            factor = proposal_factor(preconditioner, moving, step_size)
            move = proposal.propose(target, factor, state, noise)
            finite = chains.all_finite(move.proposed.position)
            loss = objective.loss(
                tf.where(tf.math.is_finite(move.energy_change), move.energy_change, 0),
                state.position,
                chains.keep(finite, move.proposed.position),
            )

        def gradient(is_used):
            return tape.gradient(
                loss,
                still,
                output_gradients=tf.cast(is_used, loss.dtype),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )

        return move, gradient

    return differentiable_move
