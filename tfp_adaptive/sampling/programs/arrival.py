"""Before the warm-up: the chains go to the typical set, and the kernel starts at their scales."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import log_density, packing, random
from tfp_adaptive.kernels.adaptive import GradientAdaptiveKernel
from tfp_adaptive.sampling.compiled import XLA, Compiled
from tfp_adaptive.sampling.programs import where_xla_pays
from tfp_adaptive.sampling.targets.starts import Start
from tfp_adaptive.sampling.user_code import explained
from tfp_adaptive.tuning.arrive import arrive
from tfp_adaptive.tuning.first_scale import NUM_GRADIENTS, first_scale
from tfp_adaptive.tuning.walk import MAX_STEPS, walk

_SHARE = 4
_LEAST_GRADIENTS = 25


def make_arrival(kernel: Any, bootstrap: Callable, start: Start, xla: XLA) -> Callable:
    """How a kernel gets to its first position.

    Chains of gradient-adaptive kernels that use scores go to the typical set first. The descent
    takes at most a quarter as many gradients as the warm-up has steps, with four log-densities
    beside each; in a funnel the walk takes as many gradients again. All count as gradients of the
    warm-up.

    There, the scale of every coordinate is estimated, which the preconditioner starts from unless
    it was given an `initial_scale`. With less than a hundred steps of warm-up chains stay where
    they are, and so do the chains of other kernels.

    Args:
      kernel: the one that warms up.
      bootstrap: state -> its kernel results.
      start: of the chains.
      xla: whether XLA may compile it, which it does where the density holds a loop.

    Returns:
      (start of the warm-up, seed, number of its steps) -> `Position`, the start from there.
    """
    own_xla = xla if where_xla_pays.arrives_faster(kernel, start.state) else None
    arrive_program = Compiled(_arriving(kernel, start.batch_shape), own_xla)
    walk_program = Compiled(_walking(kernel, start.batch_shape), own_xla)

    def go(position, seed, num_warmup_steps):
        state, max_gradients = position.state, num_warmup_steps // _SHARE
        if not _can_arrive(kernel, position.kernel_results) or max_gradients < _LEAST_GRADIENTS:
            return position
        with explained('target` or `kernel', tf.nest.flatten(state)):
            first, is_funnel, resolved = arrive_program(state, seed, tf.constant(max_gradients))
            num_gradients = first.num_gradients
            if is_funnel:
                first = walk_program(state, resolved, seed, tf.constant(max_gradients))
                num_gradients += first.num_gradients
        results = bootstrap(first.state)
        info = results.info._replace(num_gradients=results.info.num_gradients + num_gradients)
        results = results._replace(
            adaptation=results.adaptation._replace(preconditioner=first.proposal), info=info
        )
        return dataclasses.replace(
            position,
            state=first.state,
            kernel_results=results,
            num_restarts=int(first.num_restarts),
        )

    return go


def _can_arrive(kernel, results):
    return isinstance(kernel, GradientAdaptiveKernel) and bool(results.grads_target_log_prob)


class _First(NamedTuple):
    """Where chains have come to.

    Attributes:
      state: of the chains.
      proposal: parameters of the preconditioner that suits the place.
      num_restarts: chains that start from others.
      num_gradients: that it took.
    """

    state: Any
    proposal: Any
    num_restarts: tf.Tensor
    num_gradients: tf.Tensor


def _arriving(kernel, batch_shape):
    """(state, seed, most gradients) -> (`_First`, whether to walk, from where)."""

    def run(state, seed, max_gradients):
        target, position, make_first = _packed(kernel, batch_shape, state)
        arrival = arrive(target, position, seed, max_gradients)
        num_gradients = arrival.num_gradients + arrival.num_values
        is_there = ~arrival.is_funnel
        first = make_first(arrival.position, is_there, arrival.is_restarted, num_gradients)
        return first, arrival.is_funnel, arrival.resolved

    return run


def _walking(kernel, batch_shape):
    """(state, where to begin, seed, number of steps) -> `_First`."""

    def run(state, position, seed, num_steps):
        target, _, make_first = _packed(kernel, batch_shape, state)
        num_steps = tf.minimum(num_steps, MAX_STEPS)
        walked = walk(target, position, random.fold_in(seed, 0), num_steps)
        return make_first(walked.position, tf.constant(False), walked.is_restarted, num_steps)

    return run


def _packed(kernel, batch_shape, state):
    """The target on packed positions, the state as one, and how to come back from there."""
    parts = packing.to_parts(state)
    names = packing.part_names(state)
    layout = packing.make_layout(parts, tf.TensorShape(batch_shape), names)
    target = log_density.packed_log_density(kernel.target_log_prob_fn, layout, parts)

    def make_first(position, is_there, is_restarted, num_gradients):
        shape = packing.batch_shape_of(layout, parts[0])
        moved = packing.unpack(layout, position, shape, like=parts)
        scale = first_scale(target, position, is_there)
        return _First(
            state=packing.like_state(state, moved),
            proposal=kernel.first_preconditioner(target, scale),
            num_restarts=tf.reduce_sum(tf.cast(is_restarted, tf.int32)),
            num_gradients=num_gradients + NUM_GRADIENTS,
        )

    return target, packing.pack(layout, parts), make_first
