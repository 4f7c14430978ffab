"""How a move and what is learned from it depend on the preconditioner, linear or not."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import charts, outer_products
from tfp_adaptive.kernels import energy_gradients, flow_gradients
from tfp_adaptive.typing import (
    Event,
    EventPreconditioner,
    Flow,
    LogDensity,
    Objective,
    Pairs,
    Preconditioner,
    Proposal,
    Tensor,
)


class Midpoint(NamedTuple):
    """Where, and for which proposal, the residual D is measured."""

    target: LogDensity
    parameters: Any
    """Of the preconditioner."""
    step_size: Tensor
    position: Tensor
    """[C, D]."""
    score: Tensor
    """[C, D] at `position`, or [C, 0]."""
    curvature: Any
    """`Move.curvature`."""


class Geometry(NamedTuple):
    """What the core step asks of a preconditioner; its gradients are tangents of parameters."""

    differentiable_move: Callable
    """(target, parameters, step_size, state, noise, objective state) -> (move, slopes), where
    `slopes` is what `gradient` wants to know of the move."""
    residual: Callable
    """Fields of `Midpoint` -> the map from x to D x, both [C, D]."""
    gradient: Callable
    """(slopes, is_used [C], `Midpoint`, estimate, entropy weight beta) -> (gradient, summed over
    the chains in use, of the objective minus beta (the move's `log_volume` + log det(I + D) - the
    weighted penalty), products spent)."""
    log_det: Callable
    """parameters -> log|det|, a scalar, without what `log_volume` holds."""
    log_det_gradient: Callable
    """parameters -> its gradient."""
    retract: Callable
    """(parameters, tangent) -> parameters."""
    probe: Callable
    """(signs, coin) -> probe."""
    products_per_gradient: int = 0
    """Hessian-vector products that learning spends on each gradient of a move."""


def resolve(preconditioner, event: Event) -> Preconditioner | Flow:
    """The preconditioner for a state made of these parts."""
    if isinstance(preconditioner, EventPreconditioner):
        return preconditioner.resolve(event)
    return preconditioner


def check_preconditioner(preconditioner, proposal: Proposal) -> None:
    """Refuses what is no preconditioner, or none for this proposal.

    Raises:
      TypeError: with the fix.
    """
    if not isinstance(preconditioner, (Preconditioner, Flow, EventPreconditioner)):
        raise TypeError(
            '`preconditioner` must be made by a function of tfp_adaptive.preconditioners, such as '
            f'tfp_adaptive.preconditioners.diagonal(); got {preconditioner!r}.'
        )
    if isinstance(preconditioner, Flow) and not proposal.uses_score:
        raise TypeError(
            '`preconditioner` is non-linear, which needs a proposal driven by gradients, such as '
            'EntropyAdaptiveHMC; use a linear one for a random walk.'
        )


def initial_parameters(preconditioner, event: Event, dtype, scale) -> Any:
    """Parameters of a preconditioner before anything is learned; `scale` as `init` takes it."""
    return charts.initial_parameters(resolve(preconditioner, event), event.size, dtype, scale)


def make_geometry(
    event: Event, proposal: Proposal, preconditioner, objective: Objective, mode: str
) -> Geometry:
    """The geometry of a preconditioner.

    Args:
      event: the parts of the state.
      proposal: how a move is made.
      preconditioner: `Preconditioner`, `Flow` or `EventPreconditioner`.
      objective: what a good move is.
      mode: 'fast' or 'exact' energy gradients.
    """
    preconditioner = resolve(preconditioner, event)
    if isinstance(preconditioner, Flow):
        return _flow(event, proposal, preconditioner, objective, mode)
    return _linear(proposal, preconditioner, objective, mode)


def make_move(event: Event, proposal: Proposal, preconditioner) -> Callable:
    """(target, parameters, step_size, state, noise) -> move, with nothing to learn from."""
    preconditioner = resolve(preconditioner, event)
    if isinstance(preconditioner, Flow):
        return flow_gradients.mover(proposal, preconditioner)

    def move(target, parameters, step_size, state, noise):
        factor = energy_gradients.proposal_factor(preconditioner, parameters, step_size)
        return proposal.propose(target, factor, state, noise)

    return move


def _linear(proposal, preconditioner, objective, mode) -> Geometry:
    energy = energy_gradients.MODES[mode](proposal, preconditioner, objective)

    def residual(target, parameters, step_size, midpoint, score, curvature):
        del score
        prepared = preconditioner.prepare(parameters)
        # the step size of both factors at once: one pass less over [C, D] a product
        scale = -curvature * step_size**2

        def apply(x):
            product = target.hessian_vector_product(midpoint, preconditioner.forward(prepared, x))
            return scale * preconditioner.transpose(prepared, product)

        return apply

    def gradient(slopes, is_used, where, estimate, entropy_weight):
        del where
        kept = outer_products.keep(is_used, estimate.pairs)
        pairs = [pair for pair in zip(*kept, strict=True) if pair[0].shape[0] != 0]
        more = Pairs(
            tuple(-entropy_weight * left for left, _ in pairs), tuple(right for _, right in pairs)
        )
        return slopes(is_used, more), 0

    return Geometry(
        differentiable_move=energy.differentiable_move,
        residual=residual,
        gradient=gradient,
        log_det=preconditioner.log_det,
        log_det_gradient=preconditioner.log_det_gradient,
        retract=preconditioner.retract,
        probe=preconditioner.probe,
        products_per_gradient=energy.products_per_gradient,
    )


def _flow(event, proposal, flow, objective, mode) -> Geometry:
    is_exact = mode == 'exact'

    def log_det(parameters):
        origin = tf.zeros([1, event.size], tf.nest.flatten(parameters)[0].dtype)
        return flow.forward(parameters, origin)[1][0]

    return Geometry(
        differentiable_move=flow_gradients.differentiable_mover(
            proposal, flow, objective, log_det, is_exact=is_exact
        ),
        residual=lambda *where: flow_gradients.residual(flow, *where),
        gradient=functools.partial(flow_gradients.gradient, flow),
        log_det=log_det,
        log_det_gradient=lambda parameters: flow_gradients.gradient_at_rest(
            flow, log_det, parameters
        ),
        retract=flow.retract,
        probe=lambda signs, coin: signs,
        products_per_gradient=int(is_exact),
    )
