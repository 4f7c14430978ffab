"""Compiled programs that advance chains by a number of rows given at run time.

A row is what is kept of every `steps_per_row` steps. One program serves every seed and every number
of rows: the loop bound is an argument, and the
seed of a step is the run's seed folded with the step's index. Draws therefore do not depend on
how a run is cut into chunks.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling import results as kernel_fields
from tfp_adaptive.sampling.statistics import is_divergent


class StepStatistics(NamedTuple):
    """Sums over the steps and chains of a chunk."""

    accept_prob: Any
    num_divergences: Any


class Chunk(NamedTuple):
    """What `num_rows` rows leave behind; traces hold garbage after row `num_rows`."""

    state: Any
    kernel_results: Any
    traced: Any
    statistics: StepStatistics


def make_program(
    kernel: Any, trace_fn: Callable, capacity: int, *, steps_per_row: int, jit_compile: bool
) -> Callable:
    """A function (state, kernel_results, seed, first_row, num_rows) -> `Chunk`.

    Args:
      kernel: any `tfp.mcmc.TransitionKernel`.
      trace_fn: (state, kernel_results) -> nest of tensors kept in every row.
      capacity: most rows of one call.
      steps_per_row: steps taken for each row kept.
      jit_compile: whether to compile with XLA.
    """

    @tf.function(jit_compile=jit_compile, autograph=False)
    def advance(state, kernel_results, seed, first_row, num_rows):
        template = trace_fn(state, kernel_results)
        arrays = tf.nest.map_structure(
            lambda x: tf.TensorArray(x.dtype, capacity, element_shape=x.shape), template
        )
        dtype = tf.nest.flatten(state)[0].dtype
        statistics = StepStatistics(tf.zeros([], dtype), tf.constant(0))

        def one_step(step, state, kernel_results, statistics):
            step_seed = random.fold_in(seed, step)
            state, kernel_results = kernel.one_step(state, kernel_results, seed=step_seed)
            return step + 1, state, kernel_results, _add(statistics, kernel_results)

        def one_row(row, state, kernel_results, arrays, statistics):
            first = (first_row + row) * steps_per_row
            _, state, kernel_results, statistics = _repeat(
                steps_per_row, one_step, (first, state, kernel_results, statistics)
            )
            traced = trace_fn(state, kernel_results)
            arrays = tf.nest.map_structure(lambda a, x: a.write(row, x), arrays, traced)
            return row + 1, state, kernel_results, arrays, statistics

        _, state, kernel_results, arrays, statistics = tf.while_loop(
            lambda row, *_: row < num_rows,
            one_row,
            (0, state, kernel_results, arrays, statistics),
            maximum_iterations=capacity,
        )
        traced = tf.nest.map_structure(lambda a: a.stack(), arrays)
        return Chunk(state, kernel_results, traced, statistics)

    return advance


def _repeat(count, body, loop_vars):
    """Applies `body` a static number of times; a single time without a loop."""
    if count == 1:
        return body(*loop_vars)
    last = loop_vars[0] + count
    return tf.while_loop(lambda step, *_: step < last, body, loop_vars, maximum_iterations=count)


def _add(statistics, kernel_results):
    ratio = kernel_fields.find_field(kernel_results, 'log_accept_ratio')
    if ratio is None:
        return statistics
    accept_prob = tf.reduce_mean(tf.exp(tf.minimum(ratio, 0)))
    divergent = is_divergent(kernel_results)
    return StepStatistics(
        statistics.accept_prob + tf.cast(accept_prob, statistics.accept_prob.dtype),
        statistics.num_divergences + tf.reduce_sum(tf.cast(divergent, tf.int32)),
    )
