"""Before the warm-up: the chains go to the typical set, and the kernel starts at their scales."""

from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import log_density, packing, random
from tfp_adaptive.sampling.compiled import XLA, Compiled
from tfp_adaptive.sampling.programs import where_xla_pays
from tfp_adaptive.sampling.targets.starts import Start
from tfp_adaptive.tuning import first_metric
from tfp_adaptive.tuning.arrive import arrive
from tfp_adaptive.tuning.first_scale import NUM_GRADIENTS, first_scale
from tfp_adaptive.tuning.walk import MAX_STEPS, walk


class ArrivalPrograms(NamedTuple):
    """What moves chains to the typical set.

    Attributes:
      descend: (state, seed, most gradients) -> (`First`, whether to walk, from where).
      walk: (state, where to begin, seed, number of steps) -> `First`.
      measure: (state, scale) -> `Measured`, in units of the scale.
      start_from: (state, factor [D, D]) -> parameters of the preconditioner.
      takes_factor: whether they may be any factor.
    """

    descend: Compiled
    walk: Compiled
    measure: Compiled
    start_from: Compiled
    takes_factor: bool


def make_arrival(kernel: Any, start: Start, xla: XLA) -> ArrivalPrograms:
    """How chains get to where the warm-up begins.

    There, the scale of every coordinate is estimated, which the preconditioner starts from unless
    it was given an `initial_scale`; in many dimensions a dense one starts from the Hessian.

    Args:
      kernel: the one that warms up.
      start: of the chains.
      xla: whether XLA may compile it, which it does where the density holds a loop; never the
        Hessian, of few products, of which XLA takes half a minute to compile those of a loop.
    """
    own_xla = xla if where_xla_pays.arrives_faster(kernel, start.state) else None
    target, *_ = _packed(kernel, start.batch_shape, start.state)
    return ArrivalPrograms(
        Compiled(_descending(kernel, start.batch_shape), own_xla),
        Compiled(_walking(kernel, start.batch_shape), own_xla),
        Compiled(_measuring(kernel, start.batch_shape)),
        Compiled(_starting(kernel, start.batch_shape)),
        kernel.takes_factor(target),
    )


class First(NamedTuple):
    """Where chains have come to.

    Attributes:
      state: of the chains.
      scale: a stable proposal of every coordinate, [D].
      proposal: parameters of the preconditioner that suits the place.
      num_restarts: chains that start from others.
      num_gradients: that it took.
    """

    state: Any
    scale: tf.Tensor
    proposal: Any
    num_restarts: tf.Tensor
    num_gradients: tf.Tensor


def _descending(kernel, batch_shape):
    """(state, seed, most gradients) -> (`First`, whether to walk, from where)."""

    def run(state, seed, max_gradients):
        target, position, make_first = _packed(kernel, batch_shape, state)
        arrival = arrive(target, position, seed, max_gradients)
        num_gradients = arrival.num_gradients + arrival.num_values
        is_there = ~arrival.is_funnel
        first = make_first(arrival.position, is_there, arrival.is_restarted, num_gradients)
        return first, arrival.is_funnel, arrival.resolved

    return run


def _walking(kernel, batch_shape):
    """(state, where to begin, seed, number of steps) -> `First`."""

    def run(state, position, seed, num_steps):
        target, _, make_first = _packed(kernel, batch_shape, state)
        num_steps = tf.minimum(num_steps, MAX_STEPS)
        walked = walk(target, position, random.fold_in(seed, 0), num_steps)
        return make_first(walked.position, tf.constant(False), walked.is_restarted, num_steps)

    return run


def _measuring(kernel, batch_shape):
    """(state, scale) -> `Measured`."""

    def run(state, scale):
        target, position, _ = _packed(kernel, batch_shape, state)
        return first_metric.measure(target, position, scale)

    return run


def _starting(kernel, batch_shape):
    """(state, factor) -> parameters of the preconditioner."""

    def run(state, factor):
        target, *_ = _packed(kernel, batch_shape, state)
        return kernel.first_preconditioner(target, factor)

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
        return First(
            state=packing.like_state(state, moved),
            scale=scale,
            proposal=kernel.first_preconditioner(target, scale),
            num_restarts=tf.reduce_sum(tf.cast(is_restarted, tf.int32)),
            num_gradients=num_gradients + NUM_GRADIENTS,
        )

    return target, packing.pack(layout, parts), make_first
