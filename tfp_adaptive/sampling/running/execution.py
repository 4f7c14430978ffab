"""A program under way: its chunks go to the rows it keeps, to the progress bar, and to the disk."""

import contextlib
import time
from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling.programs.programs import Position, Program
from tfp_adaptive.sampling.running.progress import Progress
from tfp_adaptive.sampling.user_code import explained


class Execution(contextlib.AbstractContextManager):
    """One phase of a run, advanced as far as its owner says; a context manager.

    Attributes:
      position: how far it has come.
      rows: what it has kept.
      compile_seconds: spent compiling.
    """

    def __init__(
        self,
        label: str,
        program: Program,
        position: Position,
        seed: Any,
        rows: Any,
        *,
        progress: bool,
        store: Any,
    ):
        """Initializes this phase.

        Args:
          label: name of the phase.
          program: its code.
          position: where to go on from.
          seed: int32 [2]; step k uses it folded with k.
          rows: has a method `append`; holds as many rows as `position` counts.
          progress: whether to show progress.
          store: where the run is kept; its method `begin` is called once the program is compiled,
            and `moved` after every chunk.
        """
        self.position, self.rows, self.compile_seconds = position, rows, 0.0
        self._program, self._seed = program, seed
        self._label, self._store = label, store
        self._progress = progress
        self._report: Progress | None = None

    def __enter__(self) -> 'Execution':
        return self

    def __exit__(self, *error: Any) -> None:
        if self._report is not None:
            self._report.__exit__(*error)

    def advance_to(self, num_rows: int) -> None:
        """Goes on until there are `num_rows` rows, in chunks of about a quarter of a second.

        Args:
          num_rows: of the phase.

        Raises:
          ValueError: if the program fails.
        """
        if num_rows <= self.position.num_rows:
            return
        num_steps = num_rows * self._program.steps_per_row
        if self._report is None:
            self._report = Progress(self._label, num_steps, self._progress)
            self._begin(self._report)
        pace, last = self._program.pace, time.perf_counter()
        while self.position.num_rows < num_rows:
            count = min(pace.num_rows, self._program.capacity, num_rows - self.position.num_rows)
            before = time.perf_counter()
            chunk = self._call(count)
            # sliced by NumPy: TensorFlow takes a quarter of a millisecond a slice
            leaves = [leaf.numpy()[:count] for leaf in tf.nest.flatten(chunk.traced)]
            now = time.perf_counter()
            self._keep(leaves, self.position.after(chunk, count, now - last))
            self._show(self._report, num_steps)
            pace.learn(count, now - before)
            last = now
        self._store.save()

    def _begin(self, report):
        self._program.pace.start_again()
        if self._program.advance.is_new:
            before = time.perf_counter()
            report.compiling()
            self._call(0)
            self.compile_seconds = time.perf_counter() - before
        self._store.begin()
        report.begin(self.position.num_rows * self._program.steps_per_row)

    def _call(self, count):
        """A chunk of `count` rows; one of none compiles the program and does nothing else."""
        program, position = self._program, self.position
        with explained('target` or `kernel', tf.nest.flatten(position.state)):
            return program.advance(
                position.state,
                position.kernel_results,
                self._seed,
                tf.constant(position.num_rows),
                tf.constant(count),
                *program.arguments,
            )

    def _keep(self, leaves, position):
        self.rows.append(leaves)
        self.position = position
        self._store.moved(self._label, position)

    def _show(self, report, total):
        done, accept_prob = self.position.num_rows * self._program.steps_per_row, None
        if self._program.has_acceptance:
            accept_prob = self.position.accept_prob / done
        report.show(done, total, accept_prob)
