"""Before the warm-up: the chains go to the typical set, and the kernel starts at their scales."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import log_density, packing
from tfp_adaptive.kernels.adaptive import GradientAdaptiveKernel
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.programs.programs import Position
from tfp_adaptive.sampling.user_code import compiling
from tfp_adaptive.tuning.arrive import arrive
from tfp_adaptive.tuning.first_scale import NUM_GRADIENTS, first_scale

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

    Chains of gradient-adaptive kernels go to the typical set first. They may take a quarter as many
    gradients as the warm-up has steps. There, the scale of every coordinate is estimated, which the
    preconditioner starts from unless it was given an `initial_scale`. With less than a hundred
    steps of warm-up chains stay where they are, and so do the chains of other kernels.

    Args:
      kernel: the one that warms up.
      bootstrap: state -> its kernel results.
      batch_shape: chain dimensions.
      jit_compile: whether to compile with XLA.

    Returns:
      (state, seed, number of warm-up steps) -> `Arrived`.
    """
    program = Compiled(_program(kernel, batch_shape), jit_compile)

    def begin(state, seed, num_warmup_steps):
        results = bootstrap(state)
        max_gradients = num_warmup_steps // _SHARE
        if not _can_arrive(kernel, results) or max_gradients < _LEAST_GRADIENTS:
            return Arrived(Position(state, results), 0)
        with compiling(state):
            state, proposal, num_gradients, num_restarts = program(
                state, seed, tf.constant(max_gradients)
            )
        results = bootstrap(state)
        info = results.info._replace(num_gradients=results.info.num_gradients + num_gradients)
        results = results._replace(
            adaptation=results.adaptation._replace(preconditioner=proposal), info=info
        )
        return Arrived(Position(state, results), int(num_restarts))

    return begin


def _can_arrive(kernel, results):
    return isinstance(kernel, GradientAdaptiveKernel) and bool(results.grads_target_log_prob)


def _program(kernel, batch_shape):
    def run(state, seed, max_gradients):
        parts = packing.to_parts(state)
        names = packing.part_names(state)
        layout = packing.make_layout(parts, tf.TensorShape(batch_shape), names)
        target = log_density.packed_log_density(kernel.target_log_prob_fn, layout, parts)
        arrival = arrive(target, packing.pack(layout, parts), seed, max_gradients)
        shape = packing.batch_shape_of(layout, parts[0])
        moved = packing.unpack(layout, arrival.position, shape, like=parts)
        num_restarts = tf.reduce_sum(tf.cast(arrival.is_restarted, tf.int32))
        num_gradients = arrival.num_gradients + arrival.num_values + NUM_GRADIENTS
        scale = first_scale(target, arrival.position, ~arrival.is_funnel)
        proposal = kernel.first_preconditioner(target, scale)
        return packing.like_state(state, moved), proposal, num_gradients, num_restarts

    return run
