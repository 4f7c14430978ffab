"""Lower triangular factors with a positive diagonal, and how they move.

Shapes: a factor is [..., D, D], pairs are [..., M, D]; leading dimensions are independent blocks.
"""

import tensorflow as tf

from tfp_adaptive.typing import Pairs

_DENSE_SIZE = 16


def coordinate_scale(size: int) -> float:
    """Unit of the off-diagonal entries of A for a matrix with `size` free entries a column.

    Noise of size eta in every entry of A is noise of size eta sqrt(D) in the operator A. Off the
    diagonal one unit is therefore worth min(1, 4 / sqrt(D)), which makes the noise that an
    optimizer leaves in the proposal, and so its learning rate, independent of D.
    """
    return min(1.0, (_DENSE_SIZE / max(size, 1)) ** 0.5)


def relative_gradient(pairs: Pairs) -> tf.Tensor:
    """[sum_m left_m right_m^T]_low in scaled relative coordinates, [..., D, D]."""
    gradient = tf.linalg.band_part(tf.matmul(pairs.left, pairs.right, transpose_a=True), -1, 0)
    return _scale_off_diagonal(gradient)


def relative_update(factor: tf.Tensor, tangent: tf.Tensor) -> tf.Tensor:
    """Moves to factor (I + A), with exp on the diagonal of A so that it stays invertible.

    Args:
      factor: [..., D, D] lower triangular with positive diagonal.
      tangent: [..., D, D], A in scaled relative coordinates; its upper triangle is not used.
    """
    change = _scale_off_diagonal(tf.linalg.band_part(tangent, -1, 0))
    growth = tf.exp(tf.linalg.diag_part(change))
    return tf.matmul(factor, tf.linalg.set_diag(change, growth))


def euclidean_gradient(factor: tf.Tensor, pairs: Pairs) -> tf.Tensor:
    """The functional of A as a gradient in the entries of the factor: [C^{-T} G]_low."""
    gradient = tf.matmul(pairs.left, pairs.right, transpose_a=True)
    return tf.linalg.band_part(tf.linalg.triangular_solve(factor, gradient, adjoint=True), -1, 0)


def euclidean_update(factor: tf.Tensor, tangent: tf.Tensor, floor: float) -> tf.Tensor:
    """Adds the tangent and clips the diagonal at `floor`."""
    moved = factor + tf.linalg.band_part(tangent, -1, 0)
    diagonal = tf.maximum(tf.linalg.diag_part(moved), floor)
    return tf.linalg.set_diag(moved, diagonal)


def identity_like(factor: tf.Tensor) -> tf.Tensor:
    """The gradient of log|det C| in relative coordinates, [..., D, D]."""
    return tf.linalg.diag(tf.ones_like(factor[..., 0]))


def log_det(factor: tf.Tensor) -> tf.Tensor:
    """log|det C|, a scalar."""
    return tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))


def _scale_off_diagonal(matrix: tf.Tensor) -> tf.Tensor:
    scale = coordinate_scale(matrix.shape[-1])
    return tf.linalg.set_diag(scale * matrix, tf.linalg.diag_part(matrix))
