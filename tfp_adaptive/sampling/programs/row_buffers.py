"""The rows that a compiled program keeps, in as few buffers as will do.

Every buffer that a loop writes is an operation of its own. A step of a cheap target consists of
some forty, each of less than a microsecond, and on a CPU XLA hands work over to another thread,
which costs more than it saves, as soon as nine of them wait. So small tensors of one dtype share a
buffer.
"""

from typing import Any, NamedTuple

import tensorflow as tf

_MAX_SHARED_SIZE = 256


class _Slot(NamedTuple):
    """Where a tensor lies."""

    buffer: int
    start: int
    size: int
    spec: tf.TensorSpec


class RowBuffers:
    """Where the tensors of a row lie; the buffers themselves are loop variables."""

    def __init__(self, row_specs: Any, capacity: int):
        """Initializes this layout.

        Args:
          row_specs: nest of `tf.TensorSpec` of static shape.
          capacity: rows.
        """
        self._row_specs, self._capacity = row_specs, capacity
        self._dtypes: list[tf.DType] = []
        self._sizes: list[int] = []
        self._slots: list[_Slot] = []
        shared: dict[tf.DType, int] = {}
        for spec in tf.nest.flatten(row_specs):
            size, index = spec.shape.num_elements(), len(self._sizes)
            if size <= _MAX_SHARED_SIZE:
                index = shared.setdefault(spec.dtype, index)
            if index == len(self._sizes):
                self._dtypes.append(spec.dtype)
                self._sizes.append(0)
            self._slots.append(_Slot(index, self._sizes[index], size, spec))
            self._sizes[index] += size

    def empty(self) -> list[tf.TensorArray]:
        """The buffers before the first row."""
        return [
            tf.TensorArray(dtype, self._capacity, element_shape=[size])
            for dtype, size in zip(self._dtypes, self._sizes, strict=True)
        ]

    def write(self, buffers: list[tf.TensorArray], row: tf.Tensor, traced: Any) -> list:
        """The buffers with one row more.

        Args:
          buffers: of which this consumes the old state.
          row: its number.
          traced: what to keep of it, nest like `row_specs`.
        """
        parts: list[list] = [[] for _ in buffers]
        for slot, leaf in zip(self._slots, tf.nest.flatten(traced), strict=True):
            parts[slot.buffer].append(tf.reshape(leaf, [slot.size]))
        return [
            buffer.write(row, leaves[0] if len(leaves) == 1 else tf.concat(leaves, axis=0))
            for buffer, leaves in zip(buffers, parts, strict=True)
        ]

    def read(self, buffers: list[tf.TensorArray]) -> Any:
        """All rows, nest like `row_specs` of tensors [capacity, ...].

        Args:
          buffers: full or not.
        """
        stacked = [buffer.stack() for buffer in buffers]
        leaves = [
            tf.reshape(
                stacked[slot.buffer][:, slot.start : slot.start + slot.size],
                [self._capacity, *slot.spec.shape],
            )
            for slot in self._slots
        ]
        return tf.nest.pack_sequence_as(self._row_specs, leaves)
