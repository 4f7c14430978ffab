"""Compiled programs that advance chains by a number of rows given at run time.

A row is what is kept of every `steps_per_row` steps. One program serves every seed and every number
of rows: the loop bound is an argument, and the seed of a step is the run's seed folded with the
step's index. Draws therefore do not depend on how a run is cut into chunks.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.running import fields as kernel_fields
from tfp_adaptive.sampling.running.statistics import is_divergent

_CHUNK_BYTES = 2**24
_MAX_CHUNK_ROWS = 1000


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


class Program(NamedTuple):
    """A phase as compiled code."""

    advance: Compiled
    """(state, kernel_results, seed, first_row, num_rows, *arguments) -> `Chunk`."""
    row_specs: Any
    """Nest of `tf.TensorSpec` of what is kept of a row."""
    capacity: int
    """Most rows of one call."""
    steps_per_row: int
    has_acceptance: bool
    """Whether the kernel reports acceptance ratios."""
    arguments: tuple = ()
    """Tensors that the kernel depends on."""


def make_program(
    kernel_fn: Callable,
    trace_fn: Callable,
    start: tuple[Any, Any],
    *,
    steps_per_row: int,
    jit_compile: bool,
    arguments: tuple = (),
) -> Program:
    """The program of a kernel; it is compiled when it is first called.

    Args:
      kernel_fn: `arguments` -> any `tfp.mcmc.TransitionKernel`.
      trace_fn: (state, kernel_results) -> nest of tensors kept in every row.
      start: (state, kernel_results), for their shapes.
      steps_per_row: steps taken for each row kept.
      jit_compile: whether to compile with XLA.
      arguments: scalar tensors; a program serves all values of them.
    """
    traced = tf.function(trace_fn, autograph=False).get_concrete_function(*start)
    row_specs = tf.nest.map_structure(
        lambda x: tf.TensorSpec(x.shape, x.dtype), traced.structured_outputs
    )
    capacity = max(1, min(_MAX_CHUNK_ROWS, _CHUNK_BYTES // _num_bytes(row_specs)))

    def advance(state, kernel_results, seed, first_row, num_rows, *arguments):
        kernel = kernel_fn(*arguments)
        arrays = tf.nest.map_structure(
            lambda spec: tf.TensorArray(spec.dtype, capacity, element_shape=spec.shape), row_specs
        )
        # float64, so that the sum hardly depends on how a run is cut into chunks
        statistics = StepStatistics(tf.zeros([], tf.float64), tf.constant(0))

        def one_step(step, seed, state, kernel_results, statistics):
            step_seed = random.fold_in(seed, step)
            state, kernel_results = kernel.one_step(state, kernel_results, seed=step_seed)
            return step + 1, seed, state, kernel_results, _add(statistics, kernel_results)

        def one_row(row, step, seed, state, kernel_results, arrays, statistics):
            step, seed, state, kernel_results, statistics = _repeat(
                steps_per_row, one_step, (step, seed, state, kernel_results, statistics)
            )
            traced = trace_fn(state, kernel_results)
            arrays = tf.nest.map_structure(lambda a, x: a.write(row, x), arrays, traced)
            seed, kernel_results = _vary((seed, kernel_results))
            return row + 1, step, seed, state, kernel_results, arrays, statistics

        first_step = first_row * steps_per_row
        _, _, _, state, kernel_results, arrays, statistics = tf.while_loop(
            lambda row, *_: row < num_rows,
            one_row,
            (0, first_step, seed, state, kernel_results, arrays, statistics),
            maximum_iterations=capacity,
        )
        traced = tf.nest.map_structure(lambda a: a.stack(), arrays)
        return Chunk(state, kernel_results, traced, statistics)

    return Program(
        advance=Compiled(advance, jit_compile),
        row_specs=row_specs,
        capacity=capacity,
        steps_per_row=steps_per_row,
        has_acceptance=kernel_fields.find_field(start[1], 'log_accept_ratio') is not None,
        arguments=arguments,
    )


def _vary(loop_vars):
    """The same values, which XLA cannot see to be those of the round before.

    XLA takes every argument of the function calls that tf.vectorized_map makes, within an
    auto-batched joint distribution, to be a compile-time constant; so by whatever a position is
    computed from, such as the seed, unless it varies in the loop. It would compile the program anew
    for every value.
    """

    def same(x):
        return tf.logical_or(x, False) if x.dtype == tf.bool else x + tf.zeros([], x.dtype)

    leaves = tf.nest.flatten(loop_vars, expand_composites=True)
    return tf.nest.pack_sequence_as(loop_vars, [same(x) for x in leaves], expand_composites=True)


def _num_bytes(specs) -> int:
    leaves = tf.nest.flatten(specs)
    return max(1, sum(leaf.dtype.size * int(np.prod(leaf.shape)) for leaf in leaves))


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
    ratio = tf.where(tf.math.is_nan(ratio), tf.constant(-np.inf, ratio.dtype), ratio)
    accept_prob = tf.reduce_mean(tf.exp(tf.minimum(ratio, 0)))
    divergent = is_divergent(kernel_results)
    return StepStatistics(
        statistics.accept_prob + tf.cast(accept_prob, statistics.accept_prob.dtype),
        statistics.num_divergences + tf.reduce_sum(tf.cast(divergent, tf.int32)),
    )
