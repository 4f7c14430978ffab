"""Rows on the disk: one raw file, only ever appended to."""

import os
import zlib
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling.storage.state_file import BINARY, explained, sync_folder, write_all

_BLOCK_BYTES = 2**24


class DiskRows:
    """Rows of a nest of arrays as records of one raw file, read back as a memory map.

    A row counts once a checkpoint says so; rows beyond the last that counted are cut off when the
    file is opened again.
    """

    def __init__(self, path: str, specs: Any, counted: dict[str, Any] | None = None):
        """Opens the file for more rows.

        Args:
          path: of the file.
          specs: nest of `tf.TensorSpec`, of one row.
          counted: what `count` returned when the rows that count were written. Default `None`:
            there are none.

        Raises:
          OSError: if the file cannot be opened or cut.
          ValueError: if it does not hold the rows that count.
        """
        self._path, self._specs = path, specs
        self._form = [
            [leaf.dtype.as_numpy_dtype().dtype.name, leaf.shape.as_list()]
            for leaf in tf.nest.flatten(specs)
        ]
        fields = [(f'f{i}', dtype, tuple(shape)) for i, (dtype, shape) in enumerate(self._form)]
        self._dtype = np.dtype(fields, align=True)
        self._num_rows, self._checksum, self._is_synced = 0, 0, True
        if counted:
            if counted['form'] != self._form:
                raise ValueError(
                    f'`checkpoint` keeps rows of {counted["form"]} (dtype, shape), this call makes '
                    f'{self._form}: pass the `trace_fn` and `target` it was begun with, or choose '
                    'another path.'
                )
            self._num_rows, self._checksum = counted['num_rows'], counted['checksum']
        length = self._num_rows * self._dtype.itemsize
        _check(path, length, self._checksum)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | BINARY, 0o666)
        os.ftruncate(self._descriptor, length)
        sync_folder(os.path.dirname(path))

    def append(self, rows: list[np.ndarray]) -> None:
        """Keeps more rows.

        Args:
          rows: the leaves of the nest, each [count, ...].

        Raises:
          OSError: if they cannot be written.
        """
        records = np.zeros(len(rows[0]) if rows else 0, self._dtype)
        for name, leaf in zip(self._dtype.names or (), rows, strict=True):
            records[name] = leaf
        content = records.view(np.uint8).data
        self._is_synced = False
        with explained(self._path):
            write_all(self._descriptor, content)
        self._checksum = zlib.crc32(content, self._checksum)
        self._num_rows += len(records)

    def count(self) -> dict[str, Any]:
        """Puts all rows so far on the disk and says what must be there for them to count."""
        if not self._is_synced:
            os.fsync(self._descriptor)
            self._is_synced = True
        return {'num_rows': self._num_rows, 'checksum': self._checksum, 'form': self._form}

    def read(self) -> Any:
        """All rows so far: nest of read-only `np.memmap`s [num_rows, ...]."""
        if self._num_rows and self._dtype.itemsize:
            records: Any = np.memmap(self._path, self._dtype, 'r', shape=(self._num_rows,))
        else:
            records = np.empty([self._num_rows], self._dtype)
        arrays = [records[name] for name in self._dtype.names or ()]
        return tf.nest.pack_sequence_as(self._specs, arrays)

    def close(self) -> None:
        """Closes the file; `read` goes on to work."""
        os.close(self._descriptor)


def _check(path, length, checksum):
    """Refuses a file whose first `length` bytes are not those that were written."""
    if not length:
        return
    what = f'{path}, which holds the draws of `checkpoint`,'
    remedy = 'Nothing has been changed; restore it from a copy, or choose another path.'
    if not os.path.exists(path):
        raise ValueError(f'{what} is missing. {remedy}')
    found, rest = 0, length
    with open(path, 'rb') as file:
        while rest:
            block = file.read(min(rest, _BLOCK_BYTES))
            if not block:
                raise ValueError(
                    f'{what} is cut short: {length - rest} of {length} bytes are left. {remedy}'
                )
            found = zlib.crc32(block, found)
            rest -= len(block)
    if found != checksum:
        raise ValueError(f'{what} is damaged: it does not match its checksum. {remedy}')
