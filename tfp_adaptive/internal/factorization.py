"""Cholesky factors by blocks of columns, which is where XLA on a CPU needs help.

XLA factorizes column by column in a loop whose every turn multiplies whole matrices. On one core,
factors and gradients of ten matrices in float32 take it 3.0 ms at D = 30, 19 ms at D = 60 and
218 ms at D = 120, and here 1.0, 2.3 and 13 ms. At D = 30, where XLA writes out its triangular
solves, it needs 22 s to compile them, and here 3 s. Factors alone, of twenty matrices in float64,
take it 1.4 ms at D = 32 and 8.4 at D = 50, and here 0.1 and 0.3. Narrower blocks run little faster,
and XLA takes longer to compile more of them.
"""

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from tfp_adaptive.internal import devices

_BLOCK_SIZE = 64
_MAX_NUM_BLOCKS = 4


def cholesky(matrix: tf.Tensor) -> tf.Tensor:
    """Lower factor L of positive definite matrices A = L L^T, for the algorithms themselves.

    By blocks where a program is traced for XLA on a CPU, and TensorFlow's factor elsewhere.

    Args:
      matrix: A, [..., D, D] with D static.
    """
    return by_blocks(matrix) if _is_for_xla(matrix) else tf.linalg.cholesky(matrix)


def is_positive_definite(matrix: tf.Tensor) -> tf.Tensor:
    """Whether all eigenvalues of symmetric matrices are positive, [...].

    XLA on a CPU takes forty times as long for eigenvalues as for a factor by blocks. Elsewhere a
    factor would tell as well, but TensorFlow reports on stderr whatever has none.

    Args:
      matrix: [..., D, D] with D static, finite.
    """
    if _is_for_xla(matrix):
        return tf.math.is_finite(tf.linalg.trace(by_blocks(matrix)))
    return tf.linalg.eigvalsh(matrix)[..., 0] > 0


def _is_for_xla(matrix):
    is_traced = tf.is_symbolic_tensor(matrix)
    return is_traced and control_flow_util.GraphOrParentsInXlaContext(matrix.graph)


def by_blocks(matrix: tf.Tensor) -> tf.Tensor:
    """Lower factor L of positive definite matrices A = L L^T; not finite where they are not.

    It can be differentiated any number of times. Gradients are symmetric, like those of
    `tf.linalg.cholesky`.

    Args:
      matrix: A, [..., D, D] with D static; its upper triangle is not used.
    """
    if devices.has_accelerator():
        return tf.linalg.cholesky(matrix)
    return _factor(matrix, *_factorize(matrix))


def _factor(matrix, factor, inverses):
    """The factor that was found, as a function of the matrix; with inverses of its blocks."""

    @tf.custom_gradient
    def of(matrix):
        def gradient(upstream):
            # A' = sym(L^-T low(L^T L') L^-1), with half of the diagonal
            own = _factor(matrix, factor, inverses)
            inverse = _inverse(own, inverses)
            inner = _half_lower(tf.matmul(own, upstream, transpose_a=True))
            whole = tf.matmul(tf.matmul(inverse, inner, transpose_a=True), inverse)
            return (whole + tf.linalg.matrix_transpose(whole)) / 2

        return factor, gradient

    return of(matrix)


def _inverse(factor, inverses, found=None):
    """L^-1 as a function of L."""
    found = _inverse_by_blocks(factor, inverses) if found is None else found

    @tf.custom_gradient
    def of(factor):
        def gradient(upstream):
            own = _inverse(factor, inverses, found)
            inner = tf.matmul(own, upstream, transpose_a=True)
            return -tf.matmul(inner, own, transpose_b=True)

        return found, gradient

    return of(factor)


def _factorize(matrix):
    """L, and the inverses of the blocks on its diagonal."""
    size = matrix.shape[-1]
    columns: list = []
    inverses: list = []
    for start, end in _blocks(size):
        panel = matrix[..., start:, start:end]
        if columns:
            done = tf.concat([column[..., start:, :] for column in columns], axis=-1)
            panel -= tf.matmul(done, done[..., : end - start, :], transpose_b=True)
        corner, inverse = _by_rows(panel[..., : end - start, :])
        below = tf.matmul(panel[..., end - start :, :], inverse, transpose_b=True)
        column = tf.concat([corner, below], axis=-2)
        columns.append(tf.pad(column, [*[[0, 0]] * (matrix.shape.rank - 2), [start, 0], [0, 0]]))
        inverses.append(inverse)
    return tf.concat(columns, axis=-1), inverses


def _inverse_by_blocks(factor, inverses):
    """L^-1 from the inverses of its blocks, one block of rows after the other."""
    size = factor.shape[-1]
    rows: list = []
    for (start, end), inverse in zip(_blocks(size), inverses, strict=True):
        row = tf.pad(inverse, [*[[0, 0]] * (factor.shape.rank - 1), [start, size - end]])
        if rows:
            owed = tf.matmul(factor[..., start:end, :start], tf.concat(rows, axis=-2))
            row -= tf.matmul(inverse, owed)
        rows.append(row)
    return tf.concat(rows, axis=-2)


def _blocks(size):
    width = max(_BLOCK_SIZE, -(-size // _MAX_NUM_BLOCKS))
    return [(start, min(start + width, size)) for start in range(0, size, width)]


def _by_rows(matrix):
    """L of small matrices, and its inverse."""
    size = matrix.shape[-1]
    index = tf.constant(np.arange(size, dtype=np.int32))

    def next_row(j, upper, inverse):
        before = tf.gather(upper, j, axis=-1)[..., tf.newaxis, :]

        def rest(row, matrix):
            return row - tf.squeeze(tf.matmul(before, matrix), axis=-2)

        # a column, which lies in the lower triangle
        row = rest(tf.gather(matrix, j, axis=-1), upper)
        pivot = tf.sqrt(tf.gather(row, [j], axis=-1))
        row = tf.where(index >= j, row / pivot, tf.zeros_like(row))
        inverse_row = rest(tf.cast(index == j, matrix.dtype), inverse) / pivot
        is_here = (index == j)[:, tf.newaxis]
        return (
            j + 1,
            tf.where(is_here, row[..., tf.newaxis, :], upper),
            tf.where(is_here, inverse_row[..., tf.newaxis, :], inverse),
        )

    zeros = tf.zeros_like(matrix)
    _, upper, inverse = tf.while_loop(
        lambda j, *_: j < size,
        next_row,
        (tf.constant(0), zeros, zeros),
        maximum_iterations=size,
    )
    return tf.linalg.matrix_transpose(upper), inverse


def _half_lower(matrix):
    index = np.arange(matrix.shape[-1])
    weights = np.tril(np.ones([len(index)] * 2)) - np.eye(len(index)) / 2
    return matrix * tf.constant(weights, matrix.dtype)
