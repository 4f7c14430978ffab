"""Compiled programs that advance chains by a number of rows given at run time.

A row is what is kept of every `steps_per_row` steps. One program serves every seed and every number
of rows: the loop bound is an argument, and the seed of a step is the run's seed folded with the
step's index. Draws therefore do not depend on how a run is cut into chunks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import loops, random
from tfp_adaptive.sampling.compiled import XLA, Compiled
from tfp_adaptive.sampling.programs.row_buffers import RowBuffers
from tfp_adaptive.sampling.programs.statistics import find_field, is_divergent

_CHUNK_BYTES = 2**24
_MAX_CHUNK_ROWS = 1000


class StepStatistics(NamedTuple):
    """Sums over the steps of a chunk; 0 for kernels that report no acceptance."""

    accept_prob: Any
    """Mean over chains."""
    num_divergences: Any
    """Of all chains."""


class Chunk(NamedTuple):
    """What `num_rows` rows leave behind; traces hold garbage after row `num_rows`."""

    state: Any
    kernel_results: Any
    traced: Any
    statistics: StepStatistics


@dataclass(frozen=True)
class Position:
    """How far a program has come: all it takes to go on.

    Attributes:
      state: of the chains.
      kernel_results: of the last step.
      num_rows: rows kept so far.
      accept_prob: sum over steps of the mean acceptance probability.
      num_divergences: of all steps and chains.
      seconds: spent, but for compilation.
      num_restarts: chains that were lost, and were started from the others.
      num_moved_starts: chains that were given no finite start, and began where another did.
    """

    state: Any
    kernel_results: Any
    num_rows: int = 0
    accept_prob: float = 0.0
    num_divergences: int = 0
    seconds: float = 0.0
    num_restarts: int = 0
    num_moved_starts: int = 0

    def after(self, chunk: 'Chunk', num_rows: int, seconds: float) -> 'Position':
        """The position that a chunk leads to.

        Args:
          chunk: of the program.
          num_rows: in it.
          seconds: it took.
        """
        return replace(
            self,
            state=chunk.state,
            kernel_results=chunk.kernel_results,
            num_rows=self.num_rows + num_rows,
            accept_prob=self.accept_prob + float(chunk.statistics.accept_prob),
            num_divergences=self.num_divergences + int(chunk.statistics.num_divergences),
            seconds=self.seconds + seconds,
        )

    def anew(self) -> 'Position':
        """The first position of a phase that goes on from here; the seconds count as its own."""
        return Position(self.state, self.kernel_results, seconds=self.seconds)


class Pace:
    """How many rows of a program take a quarter of a second, as far as earlier calls tell."""

    _SECONDS = 0.25
    _MAX_GROWTH = 32

    def __init__(self):
        """Initializes the pace of a program that has never run."""
        self.num_rows = 1

    def start_again(self) -> None:
        """Starts a new run with short calls: its first steps may take longer than the last ones."""
        self.num_rows = max(1, self.num_rows // self._MAX_GROWTH)

    def learn(self, num_rows: int, seconds: float) -> None:
        """Adapts to the time that a call took, by a limited factor: the first steps may be cheap.

        Args:
          num_rows: it took.
          seconds: it took.
        """
        most = max(self._MAX_GROWTH * num_rows, self.num_rows)
        self.num_rows = int(max(1, min(most, num_rows * self._SECONDS / seconds)))


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
    pace: Pace
    arguments: tuple = ()
    """Tensors that the kernel depends on."""


def make_program(
    kernel_fn: Callable,
    trace_fn: Callable,
    start: tuple[Any, Any],
    *,
    steps_per_row: int,
    xla: XLA,
    arguments: tuple = (),
) -> Program:
    """The program of a kernel; it is compiled when it is first called.

    Args:
      kernel_fn: `arguments` -> any `tfp.mcmc.TransitionKernel`.
      trace_fn: (state, kernel_results) -> nest of tensors kept in every row.
      start: (state, kernel_results), for their shapes.
      steps_per_row: steps taken for each row kept.
      xla: whether XLA compiles it.
      arguments: scalar tensors; a program serves all values of them.
    """
    traced = tf.function(trace_fn, autograph=False).get_concrete_function(*start)
    row_specs = tf.nest.map_structure(
        lambda x: tf.TensorSpec(x.shape, x.dtype), traced.structured_outputs
    )
    capacity = max(1, min(_MAX_CHUNK_ROWS, _CHUNK_BYTES // _num_bytes(row_specs)))
    rows = RowBuffers(row_specs, capacity)

    def advance(state, kernel_results, seed, first_row, num_rows, *arguments):
        kernel = kernel_fn(*arguments)
        statistics = _no_statistics(kernel_results)

        def one_step(step, seed, state, kernel_results, statistics):
            step_seed = random.fold_in(seed, step)
            state, kernel_results = kernel.one_step(state, kernel_results, seed=step_seed)
            return step + 1, seed, state, kernel_results, _add(statistics, kernel_results)

        def one_row(row, step, seed, state, kernel_results, buffers, statistics):
            step, seed, state, kernel_results, statistics = _repeat(
                steps_per_row, one_step, (step, seed, state, kernel_results, statistics)
            )
            buffers = rows.write(buffers, row, trace_fn(state, kernel_results))
            seed, kernel_results = loops.varying((seed, kernel_results))
            return row + 1, step, seed, state, kernel_results, buffers, statistics

        first_step = first_row * steps_per_row
        _, _, _, state, kernel_results, buffers, statistics = tf.while_loop(
            lambda row, *_: row < num_rows,
            one_row,
            (0, first_step, seed, state, kernel_results, rows.empty(), statistics),
            maximum_iterations=capacity,
        )
        return Chunk(state, kernel_results, rows.read(buffers), _of_all_chains(statistics))

    return Program(
        advance=Compiled(advance, xla),
        row_specs=row_specs,
        capacity=capacity,
        steps_per_row=steps_per_row,
        has_acceptance=find_field(start[1], 'log_accept_ratio') is not None,
        pace=Pace(),
        arguments=arguments,
    )


def _num_bytes(specs) -> int:
    leaves = tf.nest.flatten(specs)
    return max(1, sum(leaf.dtype.size * int(np.prod(leaf.shape)) for leaf in leaves))


def _repeat(count, body, loop_vars):
    """Applies `body` a static number of times; a single time without a loop."""
    if count == 1:
        return body(*loop_vars)
    last = loop_vars[0] + count
    return tf.while_loop(lambda step, *_: step < last, body, loop_vars, maximum_iterations=count)


def _no_statistics(kernel_results):
    """[2, *batch] for the sums of a `StepStatistics` over steps, or nothing to sum.

    Chain by chain, and both in one: sums over chains cost a third of a step of a cheap target. In
    float64, so that the sum hardly depends on how a run is cut into chunks.
    """
    ratio = find_field(kernel_results, 'log_accept_ratio')
    return () if ratio is None else tf.zeros([2, *ratio.shape], tf.float64)


def _add(statistics, kernel_results):
    """The sums with one step more."""
    ratio = find_field(kernel_results, 'log_accept_ratio')
    if ratio is None:
        return statistics
    ratio = tf.where(tf.math.is_nan(ratio), tf.constant(-np.inf, ratio.dtype), ratio)
    accept_prob = tf.exp(tf.minimum(ratio, 0))
    divergent = tf.cast(is_divergent(kernel_results), ratio.dtype) + tf.zeros_like(ratio)
    return statistics + tf.cast(tf.stack([accept_prob, divergent]), statistics.dtype)


def _of_all_chains(statistics):
    if isinstance(statistics, tuple):
        return StepStatistics(0.0, 0)
    accept_prob, num_divergences = tf.unstack(statistics)
    return StepStatistics(
        tf.reduce_mean(accept_prob), tf.cast(tf.reduce_sum(num_divergences), tf.int32)
    )
