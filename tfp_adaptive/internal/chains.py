"""Helpers on [C, ...] tensors that work row by row; but for `is_finite` nothing mixes chains."""

import functools
from collections.abc import Callable

import tensorflow as tf

from tfp_adaptive.internal import devices
from tfp_adaptive.typing import ChainState


def count(x: tf.Tensor):
    """C of a tensor [C, ...]: a Python int where static, else a scalar tensor."""
    return x.shape[0] if x.shape[0] is not None else tf.shape(x)[0]


def where(mask: tf.Tensor, yes: tf.Tensor, no: tf.Tensor) -> tf.Tensor:
    """Selects whole rows: mask [C], yes and no [C, ...]."""
    return tf.where(mask if yes.shape.rank == 1 else tf.expand_dims(mask, 1), yes, no)


def keep(mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Rows of x [C, ...] where mask holds and zeros elsewhere: a NaN there does no harm."""
    return where(mask, x, tf.zeros_like(x))


def per_chain(x: tf.Tensor) -> tf.Tensor:
    """A scalar, or a value per chain of any shape with C entries as [C, 1]."""
    return x if x.shape.rank == 0 else tf.reshape(x, [-1, 1])


def all_finite(x: tf.Tensor) -> tf.Tensor:
    """[C, D] -> [C] whether every entry of the row is finite."""
    return tf.equal(sum_of_row(tf.cast(~tf.math.is_finite(x), x.dtype)), 0)


def can_move(state: ChainState) -> tf.Tensor:
    """[C] whether a chain has a density and, where it is used, a score: else no move is finite.

    Args:
      state: of the chains.
    """
    return tf.math.is_finite(state.log_prob) & all_finite(state.score)


def is_finite(x: tf.Tensor) -> tf.Tensor:
    """Whether every entry of a tensor of any shape is finite, a scalar."""
    # row by row: a product with ones for the whole of a matrix would have to store as many
    size = x.shape[-1] if x.shape.rank else None
    return tf.reduce_all(all_finite(tf.reshape(x, [-1, size] if size else [1, -1])))


def squared_norm(x: tf.Tensor) -> tf.Tensor:
    """[C, D] -> [C] sum of squares."""
    return sum_of_row(tf.square(x))


def norm(x: tf.Tensor) -> tf.Tensor:
    """[C, D] -> [C] the length, also where its square would overflow."""
    largest = tf.reduce_max(tf.abs(x), axis=-1)
    unit = tf.where(largest > 0, largest, tf.ones_like(largest))
    return largest * tf.sqrt(squared_norm(x / unit[:, tf.newaxis]))


def sum_of_row(x: tf.Tensor) -> tf.Tensor:
    """[C, D] -> [C].

    On a CPU XLA sums a long row in several passes through memory, and a product with a vector of
    ones in one, up to five times faster. Not so on accelerators, whose products may round.
    """
    if devices.has_accelerator():
        return tf.reduce_sum(x, axis=-1)
    size = x.shape[-1] if x.shape[-1] is not None else tf.shape(x)[-1]
    return tf.linalg.matvec(x, tf.ones([size], x.dtype))


def drop_nonfinite_gradient(x: tf.Tensor) -> tf.Tensor:
    """Identity of x [C, D] whose backward pass replaces non-finite cotangents by zero."""
    return _drop_nonfinite_gradient(tuple(x.shape), x.dtype)(x)


@functools.cache
def _drop_nonfinite_gradient(shape: tuple, dtype: tf.DType) -> Callable:
    """`drop_nonfinite_gradient` of one shape, as a graph of its own.

    TensorFlow keeps every custom gradient until the process ends, and with it the graph that it
    stands in: in the graph of a log-density it would keep the data of all models ever sampled.
    """

    @tf.custom_gradient
    def drop(x):
        def backward(cotangent):
            return tf.where(tf.math.is_finite(cotangent), cotangent, tf.zeros_like(cotangent))

        return tf.identity(x), backward

    return tf.function(drop, autograph=False).get_concrete_function(tf.TensorSpec(shape, dtype))
