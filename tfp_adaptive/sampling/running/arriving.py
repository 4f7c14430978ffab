"""Chains go to the typical set: before the warm-up, and once more if it found a better place."""

from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.kernels.adaptive import GradientAdaptiveKernel
from tfp_adaptive.kernels.base import SamplerKernel
from tfp_adaptive.sampling.programs.programs import Position
from tfp_adaptive.sampling.programs.setups import Setup
from tfp_adaptive.sampling.programs.statistics import find_field
from tfp_adaptive.sampling.user_code import explained
from tfp_adaptive.tuning import first_metric
from tfp_adaptive.tuning.arrive import LOST
from tfp_adaptive.tuning.first_scale import MIN_CHAINS

_SHARE = 4
_MAX_SHARE = 4
"""Gradients a Hessian may take for each step of the warm-up."""
_NO_SECOND_DERIVATIVE = (
    *(LookupError, NotImplementedError, TypeError, ValueError),
    tf.errors.OpError,
)
"""Raised where a density, or its gradient, holds what cannot be differentiated, such as code in
Python. Chains can do without a Hessian."""
_LEAST_GRADIENTS = 25
_COUNTS = ('num_gradients', 'num_hessian_vector_products', 'num_nonfinite')


def arrive(setup: Setup, begun: Position, seed: Any) -> Position:
    """The chains go to the typical set, and the kernel starts at their scales.

    Those of gradient-adaptive kernels that use scores do. The descent takes at most a quarter as
    many gradients as the warm-up has steps, with four log-densities beside each. In a funnel the
    walk takes as many gradients again. Elsewhere a dense proposal in many dimensions starts from
    the Hessian, unless that takes more than four gradients for each step of the warm-up. All count
    as gradients of the warm-up, and so do those that own coordinates of parts took. With less than
    a hundred steps of warm-up chains stay where they are, and so do the chains of other kernels.

    Args:
      setup: kernel and programs.
      begun: the first position.
      seed: int32 [2].
    """
    of_coordinates = setup.start.model.num_gradients
    most = _most_gradients(setup, begun)
    if most is None:
        return _counted(setup, begun, of_coordinates)
    state = begun.state
    with explained('target` or `kernel', tf.nest.flatten(state)):
        first, is_funnel, resolved = setup.arrival.descend(state, seed, most)
        num_gradients = first.num_gradients
        if is_funnel:
            first = setup.arrival.walk(state, resolved, seed, most)
            num_gradients += first.num_gradients
        else:
            first, num_more = _with_metric(setup, first)
            num_gradients += num_more
    return _arrived(setup, begun, first, num_gradients + of_coordinates)


def arrive_again(setup: Setup, warmup: Position, seed: Any) -> Position:
    """Where the warm-up begins once more, if it has found a better mode than the arrival.

    A chain may come upon it that no descent has led to. The others are then left in modes of next
    to no weight, and start from where that chain is, as they would have done on arrival.

    Args:
      setup: kernel and programs.
      warmup: the last position of the warm-up.
      seed: int32 [2].

    Returns:
      The first position of another warm-up, with more `num_restarts`; or that of this one if no
      chain is lost, with the gradients counted that it took to tell.
    """
    most, results = _most_gradients(setup, warmup), warmup.kernel_results
    if most is None:
        return warmup
    with explained('target` or `kernel', tf.nest.flatten(warmup.state)):
        first, is_funnel, _ = setup.arrival.descend(warmup.state, seed, most)
        if is_funnel or not first.num_restarts:
            return _counted(setup, warmup, first.num_gradients)
        first, num_more = _with_metric(setup, first)
        first = first._replace(num_gradients=first.num_gradients + num_more)
    found = _arrived(setup, warmup, first, first.num_gradients)
    info = found.kernel_results.info
    counts = {name: getattr(info, name) + getattr(results.info, name) for name in _COUNTS}
    results = found.kernel_results._replace(info=info._replace(**counts))
    return replace(found, kernel_results=results, num_rows=0, accept_prob=0.0, num_divergences=0)


def _with_metric(setup, first):
    """In many dimensions, with the proposal that the Hessian tells, and the gradients for it."""
    programs, size = setup.arrival, setup.start.event_size
    if size < first_metric.MANY_DIMENSIONS or not programs.takes_factor:
        return first, 0
    num_chains = setup.start.num_chains
    num_gradients = first_metric.num_gradients(num_chains, size)
    is_cheap = num_gradients <= _MAX_SHARE * setup.settings.num_warmup_steps
    if num_chains < MIN_CHAINS or not is_cheap:
        return first, 0
    try:
        measured = programs.measure(first.state, first.scale)
    except tf.errors.ResourceExhaustedError:
        raise
    except _NO_SECOND_DERIVATIVE:
        return first, 0
    factor = first_metric.factor(measured)
    if factor is None:
        return first, num_gradients
    stable = tf.cast(first.scale.numpy()[:, np.newaxis] * factor, first.scale.dtype)
    proposal = programs.start_from(first.state, stable)
    return first._replace(proposal=proposal), num_gradients


def _counted(setup, position, num_gradients):
    """With more gradients, of a kernel that counts them."""
    results = position.kernel_results
    uses_scores = bool(getattr(results, 'grads_target_log_prob', ()))
    if not (isinstance(setup.kernel, SamplerKernel) and uses_scores):
        return position
    info = results.info._replace(num_gradients=results.info.num_gradients + num_gradients)
    return replace(position, kernel_results=results._replace(info=info))


def _most_gradients(setup, position):
    """That an arrival may take; `None` where there is none."""
    most = setup.settings.num_warmup_steps // _SHARE
    uses_scores = isinstance(setup.kernel, GradientAdaptiveKernel) and bool(
        position.kernel_results.grads_target_log_prob
    )
    return tf.constant(most) if uses_scores and most >= _LEAST_GRADIENTS else None


def _arrived(setup, begun, first, num_gradients) -> Position:
    results = setup.bootstrap(first.state)
    return replace(
        begun,
        state=first.state,
        kernel_results=results._replace(
            adaptation=results.adaptation._replace(preconditioner=first.proposal),
            info=results.info._replace(num_gradients=results.info.num_gradients + num_gradients),
        ),
        num_restarts=begun.num_restarts + int(first.num_restarts),
    )


def are_apart(setup: Setup, warmup: Position) -> bool:
    """Whether log-densities of chains are farther apart than those of draws may be.

    Args:
      setup: kernel and programs.
      warmup: the last position of the warm-up.
    """
    log_prob = find_field(warmup.kernel_results, 'target_log_prob')
    if log_prob is None:
        return False
    finite = log_prob.numpy()[np.isfinite(log_prob)]
    return finite.size > 0 and float(np.ptp(finite)) > LOST + setup.start.event_size
