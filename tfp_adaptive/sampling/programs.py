"""Compiled programs that advance chains by a number of steps given at run time.

One program serves every seed and every number of steps: the loop bound is an argument, and the
seed of a step is the run's seed folded with the step's index. Draws therefore do not depend on
how a run is cut into chunks.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.sampling import results as kernel_fields

DIVERGENCE_THRESHOLD = -1000.0
"""A step whose log acceptance ratio lies below this counts as divergent."""


class StepStatistics(NamedTuple):
    """Sums over the steps and chains of a chunk."""

    accept_prob: Any
    num_divergences: Any


class Chunk(NamedTuple):
    """What `num_steps` steps leave behind; traces hold garbage after row `num_steps`."""

    state: Any
    kernel_results: Any
    traced: Any
    statistics: StepStatistics


def make_program(kernel: Any, trace_fn: Callable, capacity: int, *, jit_compile: bool) -> Callable:
    """A function (state, kernel_results, seed, first_step, num_steps) -> `Chunk`.

    Args:
      kernel: any `tfp.mcmc.TransitionKernel`.
      trace_fn: (state, kernel_results) -> nest of tensors kept for every step.
      capacity: most steps of one call.
      jit_compile: whether to compile with XLA.
    """

    @tf.function(jit_compile=jit_compile, autograph=False)
    def advance(state, kernel_results, seed, first_step, num_steps):
        template = trace_fn(state, kernel_results)
        arrays = tf.nest.map_structure(
            lambda x: tf.TensorArray(x.dtype, capacity, element_shape=x.shape), template
        )
        dtype = tf.nest.flatten(state)[0].dtype
        statistics = StepStatistics(tf.zeros([], dtype), tf.constant(0))

        def body(index, state, kernel_results, arrays, statistics):
            step_seed = tf.random.experimental.stateless_fold_in(seed, first_step + index)
            state, kernel_results = kernel.one_step(state, kernel_results, seed=step_seed)
            traced = trace_fn(state, kernel_results)
            arrays = tf.nest.map_structure(lambda a, x: a.write(index, x), arrays, traced)
            return index + 1, state, kernel_results, arrays, _add(statistics, kernel_results)

        _, state, kernel_results, arrays, statistics = tf.while_loop(
            lambda index, *_: index < num_steps,
            body,
            (0, state, kernel_results, arrays, statistics),
            maximum_iterations=capacity,
        )
        traced = tf.nest.map_structure(lambda a: a.stack(), arrays)
        return Chunk(state, kernel_results, traced, statistics)

    return advance


def _add(statistics, kernel_results):
    ratio = kernel_fields.find_field(kernel_results, 'log_accept_ratio')
    if ratio is None:
        return statistics
    accept_prob = tf.reduce_mean(tf.exp(tf.minimum(ratio, 0)))
    divergent = tf.math.is_nan(ratio) | (ratio < DIVERGENCE_THRESHOLD)
    return StepStatistics(
        statistics.accept_prob + tf.cast(accept_prob, statistics.accept_prob.dtype),
        statistics.num_divergences + tf.reduce_sum(tf.cast(divergent, tf.int32)),
    )
