"""Rows on the disk: one raw file for every leaf, only ever appended to."""

import os
import zlib
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling.state_file import write_all

_BLOCK_BYTES = 2**24


class DiskRows:
    """Rows of a nest of arrays as raw files `<name>.<leaf>.bin` in row-major order.

    A row counts once a checkpoint says so; rows beyond the last that counted are cut off when the
    files are opened again.
    """

    def __init__(self, folder: str, name: str, specs: Any, counted: dict[str, Any] | None = None):
        """Opens the files for more rows.

        Args:
          folder: where the files are.
          name: what their names begin with.
          specs: nest of `tf.TensorSpec`, of one row.
          counted: what `count` returned when the rows that count were written. Default `None`:
            there are none.

        Raises:
          OSError: if a file cannot be opened or cut.
          ValueError: if the files do not hold the rows that count.
        """
        self._specs = specs
        leaves = tf.nest.flatten(specs)
        self._dtypes = [np.dtype(leaf.dtype.as_numpy_dtype) for leaf in leaves]
        self._shapes = [tuple(leaf.shape) for leaf in leaves]
        self._paths = [os.path.join(folder, f'{name}.{i}.bin') for i in range(len(leaves))]
        self._form = [
            [dtype.name, list(shape)]
            for dtype, shape in zip(self._dtypes, self._shapes, strict=True)
        ]
        if counted and counted['form'] != self._form:
            raise ValueError(
                f'`checkpoint` keeps rows of {counted["form"]} (dtype, shape), this call makes '
                f'{self._form}: pass the `trace_fn` and `target` it was begun with, or choose '
                'another path.'
            )
        self._num_rows = counted['num_rows'] if counted else 0
        self._checksums = list(counted['checksums']) if counted else [0] * len(leaves)
        for path, length, checksum in zip(
            self._paths, self._lengths(), self._checksums, strict=True
        ):
            _check(path, length, checksum)
        self._descriptors = [
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666) for path in self._paths
        ]
        for descriptor, length in zip(self._descriptors, self._lengths(), strict=True):
            os.ftruncate(descriptor, length)

    def append(self, rows: list[np.ndarray]) -> None:
        """Keeps more rows.

        Args:
          rows: the leaves of the nest, each [count, ...].

        Raises:
          OSError: if they cannot be written.
        """
        for index, (descriptor, leaf) in enumerate(zip(self._descriptors, rows, strict=True)):
            content = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data
            write_all(descriptor, content)
            self._checksums[index] = zlib.crc32(content, self._checksums[index])
        self._num_rows += len(rows[0]) if rows else 0

    def count(self) -> dict[str, Any]:
        """Puts all rows so far on the disk and says what must be there for them to count."""
        for descriptor in self._descriptors:
            os.fsync(descriptor)
        return {
            'num_rows': self._num_rows,
            'checksums': list(self._checksums),
            'form': self._form,
        }

    def read(self) -> Any:
        """All rows so far: nest of read-only `np.memmap`s [num_rows, ...]."""
        arrays = [
            np.memmap(path, dtype, 'r', shape=(self._num_rows, *shape))
            if self._num_rows and dtype.itemsize * np.prod(shape, dtype=int)
            else np.empty([self._num_rows, *shape], dtype)
            for path, dtype, shape in zip(self._paths, self._dtypes, self._shapes, strict=True)
        ]
        return tf.nest.pack_sequence_as(self._specs, arrays)

    def close(self) -> None:
        """Closes the files; `read` goes on to work."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def _lengths(self):
        return [
            self._num_rows * dtype.itemsize * int(np.prod(shape, dtype=int))
            for dtype, shape in zip(self._dtypes, self._shapes, strict=True)
        ]


def _check(path, length, checksum):
    """Refuses a file whose first `length` bytes are not those that were written."""
    if not length:
        return
    found, rest = 0, length
    if not os.path.exists(path):
        raise ValueError(
            f'{path}, draws of `checkpoint`, is missing: put it back, or choose another path to '
            'start afresh.'
        )
    with open(path, 'rb') as file:
        while rest:
            block = file.read(min(rest, _BLOCK_BYTES))
            if not block:
                raise ValueError(
                    f'{path}, draws of `checkpoint`, is cut short: {length - rest} of {length} '
                    'bytes are left. Nothing has been changed; restore it from a copy, or choose '
                    'another path to start afresh.'
                )
            found = zlib.crc32(block, found)
            rest -= len(block)
    if found != checksum:
        raise ValueError(
            f'{path}, draws of `checkpoint`, is damaged: its content does not match its checksum. '
            'Nothing has been changed; restore it from a copy, or choose another path to start '
            'afresh.'
        )
