"""Inverse negative Hessians from differences of positions and scores.

Notation (C chains, n pairs, D event size):
    s_j   difference of two positions;  y_j  minus the difference of their scores
    H     the estimate, with H y_j = s_j where the log-density is quadratic

Every function maps s, y [C, n, D], a first matrix [C, D, D] and a mask [C, n] of the pairs that
count to (H [C, D, D], number of pairs used [C]). Loops over pairs have a static length.
"""

import tensorflow as tf

from tfp_adaptive.internal import factorization
from tfp_adaptive.typing import Tensor

_DAMPING = 0.2
_SKIP = 1e-4


def bfgs(s: Tensor, y: Tensor, first: Tensor, is_used: Tensor) -> tuple[Tensor, Tensor]:
    """Damped BFGS, positive definite by construction (Nocedal & Wright 2006, procedure 18.2).

    A pair whose curvature s^T y is below a fifth of s^T B s, with B = H^-1, is drawn towards B s.
    B is carried beside H: neither is ever inverted.
    """
    inverse, direct = first, tf.linalg.inv(first)
    applied = []
    for j in range(s.shape[1]):
        step, change = s[:, j], y[:, j]
        image = tf.linalg.matvec(direct, step)
        curvature, model = _dot(step, change), _dot(step, image)
        is_convex = curvature > _DAMPING * model
        share = (1 - _DAMPING) * model / _or_one(~is_convex, model - curvature)
        share = _or_one(~is_convex, share)[:, tf.newaxis]
        damped = share * change + (1 - share) * image
        product = _dot(step, damped)
        applies = is_used[:, j] & (product > 1e-12 * _norm(step) * _norm(damped)) & (model > 0)
        product, model = (_or_one(applies, x) for x in (product, model))
        rate = _columns(1 / product)
        moved = tf.linalg.matvec(inverse, damped)
        cross = _outer(step, moved) + _outer(moved, step)
        square = (1 + _columns(_dot(damped, moved)) * rate) * _outer(step, step)
        new = inverse + rate * (square - cross)
        new_direct = direct - _outer(image, image) / _columns(model) + rate * _outer(damped, damped)
        inverse = tf.where(_columns(applies), new, inverse)
        direct = tf.where(_columns(applies), new_direct, direct)
        applied.append(applies)
    return inverse, _count(applied)


def sr1(s: Tensor, y: Tensor, first: Tensor, is_used: Tensor) -> tuple[Tensor, Tensor]:
    """Symmetric rank one; a pair is skipped where its denominator nearly vanishes."""
    inverse, applied = first, []
    for j in range(s.shape[1]):
        change = y[:, j]
        residual = s[:, j] - tf.linalg.matvec(inverse, change)
        product = _dot(residual, change)
        applies = is_used[:, j] & (tf.abs(product) > _SKIP * _norm(residual) * _norm(change))
        rate = _columns(1 / _or_one(applies, product))
        update = rate * _outer(residual, residual)
        inverse += tf.where(_columns(applies), update, tf.zeros_like(update))
        applied.append(applies)
    return inverse, _count(applied)


def least_squares(
    s: Tensor, y: Tensor, first: Tensor, is_used: Tensor, penalty: float, is_relative: bool
) -> tuple[Tensor, Tensor]:
    """Ridge regression of s on y that shrinks to `first`, made symmetric (equation 21).

    H solves min |S - Y H|^2 + weight |H - first|^2. The weight is the penalty, as published, or
    penalty * tr(Y^T Y) / D, so that the penalty has no units.
    """
    s, y = (tf.where(is_used[..., tf.newaxis], x, tf.zeros_like(x)) for x in (s, y))
    gram = tf.linalg.matmul(y, y, transpose_a=True)
    weight = penalty * tf.linalg.trace(gram) / s.shape[2]
    weight = weight if is_relative else penalty * tf.ones_like(weight)
    # without any pair the first matrix is the answer, whatever the weight
    weight = _columns(tf.where(weight > 0, weight, tf.ones_like(weight)))
    ridge = gram + weight * tf.eye(s.shape[2], dtype=s.dtype)
    right = tf.linalg.matmul(y, s, transpose_a=True) + weight * first
    solution = tf.linalg.cholesky_solve(factorization.cholesky(ridge), right)
    symmetric = (solution + tf.linalg.matrix_transpose(solution)) / 2
    return symmetric, tf.reduce_sum(tf.cast(is_used, tf.int32), axis=-1)


def positive_definite(matrix: Tensor, fallback: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """The matrix with its spectrum made positive (equation 23), and [C] whether it was not.

    In coordinates in which `fallback` is the identity, so that the units of the event do not
    matter, eigenvalues are replaced by their absolute values, at least `floor`, where one of them
    is below that. A matrix that is not finite gives way to `fallback`.
    """
    is_finite = tf.reduce_all(tf.math.is_finite(matrix), axis=[-2, -1])
    matrix = tf.where(_columns(is_finite), matrix, fallback)
    factor = factorization.cholesky(fallback)
    half = tf.linalg.triangular_solve(factor, matrix)
    whitened = tf.linalg.triangular_solve(factor, tf.linalg.matrix_transpose(half))
    whitened = (whitened + tf.linalg.matrix_transpose(whitened)) / 2
    least = floor * tf.eye(whitened.shape[-1], dtype=whitened.dtype)
    is_high = factorization.is_positive_definite(whitened - least)

    def flipped():
        values, vectors = tf.linalg.eigh(whitened)
        root = factor @ (vectors * tf.sqrt(tf.maximum(tf.abs(values), floor))[..., tf.newaxis, :])
        rebuilt = tf.linalg.matmul(root, root, transpose_b=True)
        return tf.where(_columns(is_high), matrix, rebuilt)

    matrix = tf.cond(tf.reduce_all(is_high), lambda: matrix, flipped)
    return matrix, ~(is_high & is_finite)


def _or_one(mask, x):
    return tf.where(mask, x, tf.ones_like(x))


def _dot(a, b):
    return tf.reduce_sum(a * b, axis=-1)


def _norm(a):
    return tf.sqrt(_dot(a, a))


def _outer(a, b):
    return a[..., :, tf.newaxis] * b[..., tf.newaxis, :]


def _columns(x):
    return x[..., tf.newaxis, tf.newaxis]


def _count(applied):
    return tf.reduce_sum(tf.cast(tf.stack(applied), tf.int32), axis=0)
