"""Before the warm-up: the chains go to the typical set, and the kernel starts at their scales."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import log_density, packing, random
from tfp_adaptive.kernels.adaptive import GradientAdaptiveKernel
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.programs.programs import Position
from tfp_adaptive.sampling.user_code import running
from tfp_adaptive.tuning.arrive import arrive
from tfp_adaptive.tuning.first_scale import NUM_GRADIENTS, first_scale
from tfp_adaptive.tuning.walk import walk

_SHARE = 4
_LEAST_GRADIENTS = 25


class Arrived(NamedTuple):
    """The first position of the warm-up.

    Attributes:
      position: where the chains are, with the kernel results of their first step. The gradients
        that it took to get there are counted in them.
      num_restarts: chains that were lost, and were started from the others.
    """

    position: Position
    num_restarts: int


def make_arrival(
    kernel: Any, bootstrap: Callable, batch_shape: tuple[int, ...], jit_compile: bool
) -> Callable:
    """How a kernel gets to its first position.

    Chains of gradient-adaptive kernels go to the typical set first. The descent takes at most a
    quarter as many gradients as the warm-up has steps, with four log-densities beside each; in a
    funnel the walk takes as many gradients again. All count as gradients.

    There, the scale of every coordinate is estimated, which the preconditioner starts from unless
    it was given an `initial_scale`. With less than a hundred steps of warm-up chains stay where
    they are, and so do the chains of other kernels.

    Args:
      kernel: the one that warms up.
      bootstrap: state -> its kernel results.
      batch_shape: chain dimensions.
      jit_compile: whether to compile with XLA.

    Returns:
      (state, seed, number of warm-up steps) -> `Arrived`.
    """
    arrive_program = Compiled(_arriving(kernel, batch_shape), jit_compile)
    walk_program = Compiled(_walking(kernel, batch_shape), jit_compile)

    def begin(state, seed, num_warmup_steps):
        results = bootstrap(state)
        max_gradients = num_warmup_steps // _SHARE
        if not _can_arrive(kernel, results) or max_gradients < _LEAST_GRADIENTS:
            return Arrived(Position(state, results), 0)
        with running(state, is_compiling=arrive_program.is_compiling):
            first, is_funnel, resolved = arrive_program(state, seed, tf.constant(max_gradients))
        num_gradients = first.num_gradients
        if is_funnel:
            with running(state, is_compiling=walk_program.is_compiling):
                first = walk_program(state, resolved, seed, tf.constant(max_gradients))
            num_gradients += first.num_gradients
        results = bootstrap(first.state)
        info = results.info._replace(num_gradients=results.info.num_gradients + num_gradients)
        results = results._replace(
            adaptation=results.adaptation._replace(preconditioner=first.proposal), info=info
        )
        return Arrived(Position(first.state, results), int(first.num_restarts))

    return begin


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
