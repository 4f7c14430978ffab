"""Upper banded triangular matrices in O(n p^2), log depth, with gradients and under XLA.

Notation: T [n, n] upper triangular with p super-diagonals, stored as `band` [p + 1, n] with
band[j, i] = T[i, i + j]; entries that fall outside the matrix are zero. M vectors at a time.

A triangular solve is a linear recurrence of order p, and a linear recurrence is an associative
scan over affine maps of p values; TensorFlow's own banded solver does not compile under XLA.
"""

import functools

import tensorflow as tf
import tensorflow_probability as tfp


def shifts(x: tf.Tensor, count: int) -> tf.Tensor:
    """Rows x[i + j] for j = 0, ..., count - 1, zeros past the end: [n] -> [count, n]."""
    return tf.stack([_shift_left(x, j) for j in range(count)])


def outer_bands(left: tf.Tensor, right: tf.Tensor, count: int) -> tf.Tensor:
    """The first `count` super-diagonals of sum_m left_m right_m^T, as a band [count, n]."""
    bands = [tf.reduce_sum(left * _shift_left(right, j), axis=0) for j in range(count)]
    return tf.stack(bands)


def multiply(band: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """T x for each row of x [M, n]."""
    return tf.add_n([row * _shift_left(x, j) for j, row in enumerate(tf.unstack(band))])


def multiply_transpose(band: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """T^T x for each row of x [M, n]."""
    return tf.add_n([_shift_right(row * x, j) for j, row in enumerate(tf.unstack(band))])


def to_dense(band: tf.Tensor) -> tf.Tensor:
    """T as an [n, n] matrix."""
    return tf.transpose(multiply(band, tf.eye(band.shape[-1], dtype=band.dtype)))


def solve(band: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """T^{-1} x for each row of x [M, n]: back substitution."""
    diagonal, upper = band[0], band[1:]
    coefficients = tf.reverse(-upper / diagonal, [-1])
    return tf.reverse(_linear_recurrence(coefficients, tf.reverse(x / diagonal, [-1])), [-1])


def solve_transpose(band: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """T^{-T} x for each row of x [M, n]: forward substitution."""
    diagonal = band[0]
    lower = tf.stack([_shift_right(row, j + 1) for j, row in enumerate(tf.unstack(band[1:]))])
    return _linear_recurrence(-lower / diagonal, x / diagonal)


def _linear_recurrence(coefficients: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Solves y[i] = x[i] + sum_j coefficients[j, i] y[i - 1 - j], with y = 0 before the start.

    Args:
      coefficients: [p, n], shared by all rows of x.
      x: [M, n].
    """
    specs = [tf.TensorSpec(part.shape, part.dtype) for part in (coefficients, x)]
    return _recurrence(*specs)(coefficients, x)


@functools.lru_cache(maxsize=64)
def _recurrence(*specs):
    """The scan as a function of its own, traced once for all its uses, of which a step has twenty.

    TFP takes 80 ms to trace it. The volatility model of dimension 2,519 waits 24 to 31 s for its
    warm-up, which was 37 to 43 s, and 9 to 10 s for its frozen steps, which was 16 to 19 s.
    """
    return tf.function(_scan, autograph=False).get_concrete_function(*specs)


def _scan(coefficients, x):
    order = coefficients.shape[0]
    companion = tf.transpose(coefficients)[:, tf.newaxis, :]
    shift = tf.eye(order, dtype=x.dtype)[: order - 1]
    shift = tf.broadcast_to(shift, [x.shape[-1], order - 1, order])
    maps = tf.concat([companion, shift], axis=1)
    offsets = tf.transpose(x)[:, tf.newaxis, :]
    offsets = tf.pad(offsets, [[0, 0], [0, order - 1], [0, 0]])
    _, values = tfp.math.scan_associative(_compose, (maps, offsets), axis=0)
    return tf.transpose(values[:, 0, :])


def _compose(first, second):
    """The affine map `second` after `first`, each (matrix [n, p, p], offset [n, p, M])."""
    return _product(second[0], first[0]), _product(second[0], first[1]) + second[1]


def _product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Batched product of tiny matrices; XLA fuses it where it would call a slow batched matmul."""
    if a.shape[-1] == 1:
        return a * b
    return tf.reduce_sum(a[..., :, :, tf.newaxis] * b[..., tf.newaxis, :, :], axis=-2)


def _shift_left(x: tf.Tensor, offset: int) -> tf.Tensor:
    """x[..., i] -> x[..., i + offset], zeros past the end."""
    return tf.pad(x[..., offset:], [[0, 0]] * (x.shape.rank - 1) + [[0, offset]])


def _shift_right(x: tf.Tensor, offset: int) -> tf.Tensor:
    """x[..., i] -> x[..., i - offset], zeros before the start."""
    kept = x[..., : x.shape[-1] - offset]
    return tf.pad(kept, [[0, 0]] * (x.shape.rank - 1) + [[offset, 0]])
