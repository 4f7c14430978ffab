"""The rows that a compiled program keeps, in as few buffers as will do.

Every buffer that a loop writes is an operation of its own. A step of a cheap target consists of
some forty, each of less than a microsecond, and on a CPU XLA hands work over to another thread,
which costs more than it saves, as soon as nine of them wait. So small tensors of one dtype share a
buffer.
"""

from typing import Any

import tensorflow as tf

_MAX_SHARED_SIZE = 256


class RowBuffers:
    """Which tensors of a row lie in which buffer; the buffers themselves are loop variables."""

    def __init__(self, row_specs: Any, capacity: int):
        """Initializes this layout.

        Args:
          row_specs: nest of `tf.TensorSpec` of static shape.
          capacity: rows.
        """
        self._row_specs, self._capacity = row_specs, capacity
        self._specs = tf.nest.flatten(row_specs)
        groups: dict[Any, list[int]] = {}
        for i, spec in enumerate(self._specs):
            is_shared = spec.shape.num_elements() <= _MAX_SHARED_SIZE
            groups.setdefault((spec.dtype, None if is_shared else i), []).append(i)
        self._groups = list(groups.values())
        """For every buffer, which leaves of a row it holds."""

    def empty(self) -> list[tf.TensorArray]:
        """The buffers before the first row."""
        return [
            tf.TensorArray(
                self._specs[group[0]].dtype,
                self._capacity,
                element_shape=[sum(self._sizes(group))],
            )
            for group in self._groups
        ]

    def write(self, buffers: list[tf.TensorArray], row: tf.Tensor, traced: Any) -> list:
        """The buffers with one row more.

        Args:
          buffers: of which this consumes the old state.
          row: its number.
          traced: what to keep of it, nest like `row_specs`.
        """
        leaves = [tf.reshape(leaf, [-1]) for leaf in tf.nest.flatten(traced)]
        return [
            buffer.write(row, tf.concat([leaves[i] for i in group], axis=0))
            for buffer, group in zip(buffers, self._groups, strict=True)
        ]

    def read(self, buffers: list[tf.TensorArray]) -> Any:
        """All rows, nest like `row_specs` of tensors [capacity, ...].

        Args:
          buffers: full or not.
        """
        leaves = {}
        for buffer, group in zip(buffers, self._groups, strict=True):
            pieces = tf.split(buffer.stack(), self._sizes(group), axis=1)
            for i, piece in zip(group, pieces, strict=True):
                leaves[i] = tf.reshape(piece, [self._capacity, *self._specs[i].shape])
        return tf.nest.pack_sequence_as(self._row_specs, [leaves[i] for i in range(len(leaves))])

    def _sizes(self, group):
        return [self._specs[i].shape.num_elements() for i in group]
