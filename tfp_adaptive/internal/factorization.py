"""Cholesky factors by blocks, which is where XLA on a CPU needs help.

XLA factorizes column by column in a loop, at D = 256 in 13 ms; products of blocks take a tenth.
"""

import tensorflow as tf

_BLOCK_SIZE = 32


def cholesky(matrix: tf.Tensor) -> tf.Tensor:
    """Lower factor of a positive definite matrix [D, D] with D static.

    Args:
      matrix: [D, D]; its upper triangle is not used.
    """
    size = matrix.shape[-1]
    if size <= _BLOCK_SIZE:
        return tf.linalg.cholesky(matrix)
    columns: list = []
    for start in range(0, size, _BLOCK_SIZE):
        end = min(start + _BLOCK_SIZE, size)
        panel = matrix[start:, start:end]
        if columns:
            done = tf.concat([column[start:] for column in columns], axis=1)
            panel -= tf.matmul(done, done[: end - start], transpose_b=True)
        corner = tf.linalg.cholesky(panel[: end - start])
        inverse = tf.linalg.triangular_solve(corner, tf.eye(end - start, dtype=matrix.dtype))
        below = tf.matmul(panel[end - start :], inverse, transpose_b=True)
        column = tf.concat([corner, below], axis=0)
        columns.append(tf.pad(column, [[start, 0], [0, 0]]))
    return tf.concat(columns, axis=1)
