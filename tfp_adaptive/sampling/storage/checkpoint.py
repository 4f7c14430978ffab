"""A run on the disk, so that it can be stopped at any moment and go on as if nothing had happened.

At the path that the user gives lies one small NumPy archive: the chains, the learned proposal, the
settings, and how many rows count. Beside it a folder holds the rows themselves, which are only ever
appended to. Rows are on the disk before the file that counts them replaces the last one, and rows
beyond those counted are cut off when the run goes on: whenever a process is killed, the file at the
path is whole, and so are the rows that it counts.
"""

import contextlib
import os
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive._version import __version__
from tfp_adaptive.sampling.programs.programs import Position
from tfp_adaptive.sampling.storage import admission, state_file
from tfp_adaptive.sampling.storage.places import check_path, locked
from tfp_adaptive.sampling.storage.row_files import DiskRows
from tfp_adaptive.sampling.storage.rows import MemoryRows

_SECONDS_BETWEEN_SAVES = 1.0
_MAX_SHARE_OF_TIME = 0.05
_FIGURES = (
    *('num_rows', 'accept_prob', 'num_divergences', 'seconds'),
    *('num_restarts', 'num_moved_starts'),
)


def open_store(path: Any) -> Any:
    """Where a run is kept: a context manager with the methods of `Checkpoint`.

    Args:
      path: of the checkpoint, or `None` to keep nothing but in memory.

    Raises:
      OSError: if the path cannot be written.
      TypeError: if it is no path.
      ValueError: if there is a file that is no checkpoint, or a damaged one.
    """
    return Nowhere() if path is None else Checkpoint(path)


class Nowhere(contextlib.AbstractContextManager):
    """A run that is kept in memory alone."""

    def __exit__(self, *error: Any) -> None:
        """Nothing to close."""

    def seed(self, seed: Any, is_given: bool) -> Any:
        """The seed itself."""
        return seed

    def coordinates(self) -> list[np.ndarray]:
        """None that a run has begun with."""
        return []

    def admit(self, setup: Any) -> None:
        """Any run may begin."""

    def restore(self, phase: str, first: Position) -> Position:
        """The first position."""
        return first

    def rows(self, phase: str, specs: Any, num_expected: int) -> Any:
        """Rows in memory."""
        return MemoryRows(specs, num_expected)

    def begin(self) -> None:
        """Nothing to save."""

    def moved(self, phase: str, position: Position) -> None:
        """Nothing to save."""

    def save(self) -> None:
        """Nothing to save."""


class Checkpoint(contextlib.AbstractContextManager):
    """A run whose rows and position lie on the disk; a context manager that holds its lock."""

    def __init__(self, path: Any):
        """Opens the checkpoint at `path`, or makes room for one.

        Args:
          path: a str or an `os.PathLike`.

        Raises:
          as `open_store`.
        """
        if not isinstance(path, (str, os.PathLike)) or not str(path) or '\0' in str(path):
            raise TypeError(
                f"`checkpoint` must be a path such as 'run.npz', or None; got {path!r:.60}."
            )
        self._path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        self._folder = f'{self._path}.rows'
        self._rows: dict[str, DiskRows] = {}
        # what is saved next: arrays by name, and facts
        self._arrays: dict[str, np.ndarray] = {}
        self._facts: dict[str, Any] = {'phases': {}}
        self._due = 0.0
        check_path(self._path)
        if os.path.exists(self._path):
            # refused before anything is made beside it
            state_file.read(self._path)
        with state_file.explained(self._path):
            self._lock = locked(self._folder, self._path)
        try:
            stored = self._read()
        except BaseException:
            self._leave()
            raise
        self._is_new = stored is None
        if stored is not None:
            self._arrays, self._facts = stored

    def __exit__(self, *error: Any) -> None:
        for rows in self._rows.values():
            rows.close()
        self._leave()

    def seed(self, seed: tf.Tensor, is_given: bool) -> tf.Tensor:
        """The seed that the run began with, else `seed`.

        Args:
          seed: int32 [2].
          is_given: whether the user asked for it.

        Raises:
          ValueError: if the user asked for another than the run began with.
        """
        if not self._is_new:
            stored = self._facts['seed']
            if is_given and np.asarray(seed).tolist() != stored:
                raise ValueError(
                    f'`checkpoint` {self._path} was begun with another `seed`: leave `seed` out to '
                    'go on with its own, or choose another path.'
                )
            seed = tf.constant(stored, tf.int32)
        self._facts['seed'] = np.asarray(seed).tolist()
        return seed

    def coordinates(self) -> list[np.ndarray]:
        """Coordinates of the target that the run began with; empty for a new one.

        Another machine would find others, as a descent makes much of rounding.
        """
        return [] if self._is_new else admission.coordinates(self._arrays)

    def admit(self, setup: Any) -> None:
        """Checks that the run is the one that began here, if one did.

        Args:
          setup: `setups.Setup`.

        Raises:
          ValueError: if the target, the kernel, a setting or a shape is another one.
        """
        arrays, facts = admission.identity(setup)
        if self._is_new:
            self._arrays.update(arrays)
            self._facts.update(facts)
        else:
            admission.check(self._path, self._arrays, self._facts, facts, setup.start.model)

    def restore(self, phase: str, first: Position) -> Position:
        """The position at which a phase was saved, or its first one.

        Args:
          phase: its name.
          first: where it begins.

        Raises:
          ValueError: if what is stored does not have the shapes of `first`.
        """
        figures = self._facts['phases'].get(phase)
        if figures is None:
            return first
        leaves = {
            name: admission.take(self._path, self._arrays, f'{phase}/{name}', like)
            for name, like in (('state', first.state), ('kernel_results', first.kernel_results))
        }
        return Position(**leaves, **{name: figures[name] for name in _FIGURES if name in figures})

    def rows(self, phase: str, specs: Any, num_expected: int) -> DiskRows:
        """The rows of a phase, those that count already included.

        Args:
          phase: its name.
          specs: nest of `tf.TensorSpec`, of one row.
          num_expected: has no influence here.

        Raises:
          OSError: if the files cannot be opened.
          ValueError: if they are damaged, or rows of another form.
        """
        counted = self._facts['phases'].get(phase, {}).get('rows')
        with state_file.explained(self._path):
            self._rows[phase] = DiskRows(os.path.join(self._folder, f'{phase}.bin'), specs, counted)
        return self._rows[phase]

    def begin(self) -> None:
        """Saves a new run before its first rows, so that rows always belong to a saved run.

        Raises:
          OSError: if it cannot be saved.
        """
        if self._is_new and not self._facts['phases']:
            self.save()

    def moved(self, phase: str, position: Position) -> None:
        """Takes note of a position whose rows have been appended; saves once in a while.

        Args:
          phase: its name.
          position: to go on from.

        Raises:
          OSError: if it cannot be saved.
        """
        self._facts['phases'][phase] = {name: getattr(position, name) for name in _FIGURES}
        self._arrays.update(admission.put(f'{phase}/state', position.state))
        self._arrays.update(admission.put(f'{phase}/kernel_results', position.kernel_results))
        if time.perf_counter() >= self._due:
            self.save()

    def save(self) -> None:
        """Puts rows and positions on the disk.

        Raises:
          OSError: if they cannot be written; what was saved before is still there.
        """
        before = time.perf_counter()
        self._facts['versions'] = {
            'tfp_adaptive': __version__,
            'tensorflow': tf.__version__,
            'tensorflow_probability': tfp.__version__,
            'numpy': np.__version__,
        }
        with state_file.explained(self._path):
            for phase, rows in self._rows.items():
                if phase in self._facts['phases']:
                    self._facts['phases'][phase]['rows'] = rows.count()
            state_file.write(self._path, self._arrays, self._facts)
        after = time.perf_counter()
        pause = max(_SECONDS_BETWEEN_SAVES, (after - before) / _MAX_SHARE_OF_TIME)
        self._due = after + min(pause, 60 * _SECONDS_BETWEEN_SAVES)

    def _leave(self):
        """Gives up the lock; of a run that has saved nothing, nothing stays."""
        if not os.path.exists(self._path):
            with contextlib.suppress(OSError):
                for name in os.listdir(self._folder):
                    if not os.path.getsize(os.path.join(self._folder, name)):
                        os.unlink(os.path.join(self._folder, name))
                os.rmdir(self._folder)
        if self._lock is not None:
            os.close(self._lock)

    def _read(self):
        try:
            return state_file.read(self._path)
        except FileNotFoundError:
            orphans = [
                name
                for name in os.listdir(self._folder)
                if os.path.getsize(os.path.join(self._folder, name))
            ]
        if orphans:
            raise ValueError(
                f'`checkpoint` {self._path} is missing, but the draws of a run are in '
                f'{self._folder}: put the file back, or remove that folder to start afresh.'
            )
        return None
