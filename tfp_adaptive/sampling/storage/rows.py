"""What a phase keeps of every draw: arrays that grow by rows."""

from typing import Any

import numpy as np
import tensorflow as tf


class MemoryRows:
    """Rows in memory, with room to grow; unused room costs address space and no memory."""

    def __init__(self, specs: Any, num_expected: int):
        """Initializes these rows with none.

        Args:
          specs: nest of `tf.TensorSpec`, of one row.
          num_expected: rows to make room for at first.
        """
        self._specs = specs
        self._num_rows = 0
        self._arrays = [_empty(spec, num_expected) for spec in tf.nest.flatten(specs)]

    def append(self, rows: list[np.ndarray]) -> None:
        """Keeps more rows.

        Args:
          rows: the leaves of the nest, each [count, ...].
        """
        count = len(rows[0]) if rows else 0
        first, last = self._num_rows, self._num_rows + count
        for index, new in enumerate(rows):
            array = self._arrays[index]
            if len(array) < last:
                wider = np.empty([max(last, 2 * len(array)), *array.shape[1:]], array.dtype)
                wider[:first] = array[:first]
                self._arrays[index] = array = wider
            array[first:last] = new
        self._num_rows = last

    def read(self) -> Any:
        """All rows so far: nest of arrays [num_rows, ...]."""
        arrays = [array[: self._num_rows] for array in self._arrays]
        return tf.nest.pack_sequence_as(self._specs, arrays)


def _empty(spec, num_rows):
    return np.empty([num_rows, *spec.shape], spec.dtype.as_numpy_dtype)
