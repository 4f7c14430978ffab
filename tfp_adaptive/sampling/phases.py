"""A phase of a run: one compiled program, called in chunks between which progress is shown."""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling import programs
from tfp_adaptive.sampling import progress as progress_reports

_SECONDS_PER_CHUNK = 0.25
_CHUNK_BYTES = 2**24
_MAX_CHUNK_ROWS = 1000


@dataclass(frozen=True)
class Phase:
    """What a phase leaves behind; `traced` as NumPy arrays with one row per draw."""

    state: Any
    kernel_results: Any
    traced: Any
    accept_prob: float
    num_divergences: int
    compile_seconds: float
    seconds: float


def run_phase(
    label: str,
    kernel: Any,
    start: tuple[Any, Any],
    seed: Any,
    num_rows: int,
    trace_fn: Callable,
    *,
    steps_per_row: int = 1,
    progress: bool,
    jit_compile: bool,
) -> Phase:
    """Advances the chains, keeping what `trace_fn` returns after every `steps_per_row` steps.

    Args:
      label: name of the phase, for the progress bar.
      kernel: any `tfp.mcmc.TransitionKernel`.
      start: (state, kernel_results) to go on from.
      seed: int32 [2]; step k uses it folded with k.
      num_rows: rows to keep.
      trace_fn: (state, kernel_results) -> nest of tensors.
      steps_per_row: steps taken for each row.
      progress: whether to show progress.
      jit_compile: whether to compile with XLA.

    Returns:
      A `Phase`.
    """
    state, kernel_results = start
    capacity = max(1, min(num_rows, _MAX_CHUNK_ROWS, _CHUNK_BYTES // _row_bytes(trace_fn, start)))
    advance = functools.partial(
        programs.make_program(
            kernel, trace_fn, capacity, steps_per_row=steps_per_row, jit_compile=jit_compile
        ),
        seed=seed,
    )
    began = time.perf_counter()
    # a call of no rows compiles the program and does nothing else
    chunk = advance(state, kernel_results, first_row=tf.constant(0), num_rows=tf.constant(0))
    traced = tf.nest.map_structure(
        lambda x: np.empty([num_rows, *x.shape[1:]], x.dtype.as_numpy_dtype), chunk.traced
    )
    compiled = time.perf_counter()
    done, num_divergences, accept_prob, chunk_rows = 0, 0, 0.0, 1
    with progress_reports.reporter(label, num_rows * steps_per_row, progress) as report:
        while done < num_rows:
            rows = min(chunk_rows, capacity, num_rows - done)
            before = time.perf_counter()
            chunk = advance(
                chunk.state,
                chunk.kernel_results,
                first_row=tf.constant(done),
                num_rows=tf.constant(rows),
            )
            _keep(traced, chunk.traced, done, rows)
            accept_prob += float(chunk.statistics.accept_prob)
            num_divergences += int(chunk.statistics.num_divergences)
            done += rows
            seconds = time.perf_counter() - before
            # at most ten times the last chunk: its time may have been mostly overhead
            chunk_rows = int(max(1, min(10 * rows, rows * _SECONDS_PER_CHUNK / seconds)))
            steps = rows * steps_per_row
            report(steps, {'acceptance': float(chunk.statistics.accept_prob) / steps})
    return Phase(
        state=chunk.state,
        kernel_results=chunk.kernel_results,
        traced=traced,
        accept_prob=accept_prob / max(num_rows * steps_per_row, 1),
        num_divergences=num_divergences,
        compile_seconds=compiled - began,
        seconds=time.perf_counter() - compiled,
    )


def _row_bytes(trace_fn, start) -> int:
    leaves = tf.nest.flatten(trace_fn(*start))
    return max(1, sum(leaf.dtype.size * int(np.prod(leaf.shape)) for leaf in leaves))


def _keep(traced, rows, first, count):
    """Copies the first `count` of `rows` into `traced` from row `first` on."""
    for kept, new in zip(tf.nest.flatten(traced), tf.nest.flatten(rows), strict=True):
        kept[first : first + count] = new[:count].numpy()
