"""Lower triangular factors with a positive diagonal, and how they move.

Shapes: a factor is [..., D, D], pairs are [..., M, D]; leading dimensions are independent blocks.
"""

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import devices, outer_products
from tfp_adaptive.typing import Pairs

_DENSE_SIZE = 16
_BLOCK_SIZE = 20
_MAX_UNDIVIDED_SIZE = 64


def coordinate_scale(size: int) -> float:
    """Unit of the off-diagonal entries of A for a matrix with `size` free entries a column.

    Noise of size eta in every entry of A is noise of size eta sqrt(D) in the operator A. Off the
    diagonal one unit is therefore worth min(1, 4 / sqrt(D)), which makes the noise that an
    optimizer leaves in the proposal, and so its learning rate, independent of D.
    """
    return min(1.0, (_DENSE_SIZE / max(size, 1)) ** 0.5)


def relative_gradient(pairs: Pairs) -> tf.Tensor:
    """[sum_m left_m right_m^T]_low in scaled relative coordinates, [..., D, D]."""
    left, right = outer_products.stack(pairs)
    return _scale_off_diagonal(_lower(tf.matmul(left, right, transpose_a=True)))


def relative_update(factor: tf.Tensor, tangent: tf.Tensor) -> tf.Tensor:
    """Moves to factor (I + A), with exp on the diagonal of A so that it stays invertible.

    Args:
      factor: [..., D, D] lower triangular with positive diagonal.
      tangent: [..., D, D], A in scaled relative coordinates; its upper triangle is not used.
    """
    change = coordinate_scale(tangent.shape[-1]) * _lower(tangent)
    growth = tf.exp(tf.linalg.diag_part(tangent))
    return product(factor, tf.linalg.set_diag(change, growth))


def product(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """The product of two lower triangular matrices [..., D, D].

    On a CPU by blocks of columns, whose products with zeros are left out: a third of the
    multiplications is left at D = 300.
    """
    size = left.shape[-1]
    if size <= _MAX_UNDIVIDED_SIZE or devices.has_accelerator():
        return tf.matmul(left, right)
    # D / 4, but a multiple of what the vector units of a CPU divide well
    width = 32 * -(-size // 128)
    terms = []
    for start in range(0, size, width):
        end = min(start + width, size)
        term = tf.matmul(left[..., start:, start:end], right[..., start:end, :end])
        whole = [[0, 0]] * (left.shape.rank - 2)
        terms.append(tf.pad(term, [*whole, [start, 0], [0, size - end]]))
    return tf.add_n(terms)


def euclidean_gradient(factor: tf.Tensor, pairs: Pairs) -> tf.Tensor:
    """The functional of A as a gradient in the entries of the factor: [C^{-T} G]_low."""
    left, right = outer_products.stack(pairs)
    if (left.shape[-2] or 0) <= factor.shape[-1]:
        gradient = tf.matmul(solve_from_right(factor, left), right, transpose_a=True)
    else:
        total = tf.matmul(right, left, transpose_a=True)
        gradient = tf.linalg.matrix_transpose(solve_from_right(factor, total))
    return _lower(gradient)


def solve_from_right(factor: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """X with X C = rows, by blocks.

    XLA inverts a triangular matrix one row after the other in a loop, which at D = 100 takes ten
    times as long as the products; here one short loop inverts all blocks of the diagonal at once.

    Args:
      factor: C, [..., D, D] lower triangular with D static.
      rows: [..., M, D].
    """
    size, last = _BLOCK_SIZE, factor.shape[-1]
    starts = range(0, last, size)
    inverses = _inverse_blocks(factor, starts)
    solved: list = []
    for start, inverse in zip(reversed(starts), reversed(inverses), strict=True):
        end = min(start + size, last)
        owed = rows[..., start:end]
        if solved:
            later = tf.concat(solved[::-1], axis=-1)
            owed -= tf.matmul(later, factor[..., end:, start:end])
        solved.append(tf.matmul(owed, inverse))
    return tf.concat(solved[::-1], axis=-1)


def _inverse_blocks(factor, starts):
    """Inverses of the blocks on the diagonal, the last of which may be smaller."""
    size = _BLOCK_SIZE
    full = [factor[..., i : i + size, i : i + size] for i in starts]
    rest = [full.pop()] if full[-1].shape[-1] < size else []
    inverses = []
    for blocks in filter(None, (full, rest)):
        stacked = tf.stack(blocks)
        identity = tf.eye(stacked.shape[-1], dtype=factor.dtype)
        identity = tf.broadcast_to(identity, tf.shape(stacked))
        inverses += tf.unstack(tf.linalg.triangular_solve(stacked, identity))
    return inverses


def euclidean_update(factor: tf.Tensor, tangent: tf.Tensor, floor: float) -> tf.Tensor:
    """Adds the tangent and clips the diagonal at `floor`."""
    moved = factor + _lower(tangent)
    diagonal = tf.maximum(tf.linalg.diag_part(moved), floor)
    return tf.linalg.set_diag(moved, diagonal)


def identity_like(factor: tf.Tensor) -> tf.Tensor:
    """The gradient of log|det C| in relative coordinates, [..., D, D]."""
    return tf.linalg.diag(tf.ones_like(factor[..., 0]))


def log_det(factor: tf.Tensor) -> tf.Tensor:
    """log|det C|, a scalar."""
    return tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))


def _lower(matrix: tf.Tensor) -> tf.Tensor:
    """Zeros above the diagonal; `tf.linalg.band_part` has XLA compile several times the code."""
    row, column = _indices(matrix.shape[-1])
    return tf.where(row >= column, matrix, tf.zeros_like(matrix))


def _scale_off_diagonal(matrix: tf.Tensor) -> tf.Tensor:
    row, column = _indices(matrix.shape[-1])
    return tf.where(row == column, matrix, coordinate_scale(matrix.shape[-1]) * matrix)


def _indices(size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Of the rows, [D, 1], and of the columns, [D]."""
    index = np.arange(size, dtype=np.int32)
    return tf.constant(index[:, np.newaxis]), tf.constant(index)
