"""Normal densities whose covariance is a multiple of the identity plus a few directions.

    R = gamma^2 I + U^T U,   U [M, D]

With fewer directions than dimensions, determinant and solve are those of an M x M matrix (Woodbury
and Sylvester): O(D M^2), not O(D^3).
"""

import math

import tensorflow as tf

from tfp_adaptive.internal import chains, factorization


def draw(noise_scale, root, white, directions):
    """Deviations from the mean.

    Args:
      noise_scale: gamma, a scalar or [C, 1].
      root: U [C, M, D].
      white: standard normal, [C, D].
      directions: standard normal, [C, M].
    """
    return noise_scale * white + tf.linalg.matvec(root, directions, transpose_a=True)


def log_prob(noise_scale, root, deviation):
    """The log-density of deviations from the mean, [C], without the constant of the dimension.

    In double precision, whatever the dtype: U U^T is singular where directions depend on one
    another, as those of a centred cloud always do, and the noise, squared, is then all that is left
    of a pivot. Where D > M the quadratic form is taken as the least |v - U^T w|^2 / gamma^2 + |w|^2
    over w, of which nothing cancels however small gamma is.

    Args:
      noise_scale: gamma > 0, a scalar or [C, 1].
      root: U [C, M, D].
      deviation: v [C, D].
    """
    dtype = deviation.dtype
    noise_scale, root, deviation = (tf.cast(x, tf.float64) for x in (noise_scale, root, deviation))
    return tf.cast(_log_prob(noise_scale, root, deviation), dtype)


def _log_prob(noise_scale, root, deviation):
    num_directions, size = root.shape[-2:]
    square = tf.square(noise_scale)
    is_dense = size <= num_directions
    gram = tf.matmul(root, root, transpose_a=is_dense, transpose_b=not is_dense)
    ridge = tf.linalg.diag(tf.broadcast_to(square, tf.shape(gram)[:-1]))
    factor = factorization.cholesky(gram + ridge)
    log_det = 2 * chains.sum_of_row(tf.math.log(tf.linalg.diag_part(factor)))
    if is_dense:
        solved = tf.linalg.triangular_solve(factor, deviation[..., tf.newaxis])[..., 0]
        return -0.5 * (chains.squared_norm(solved) + log_det)
    projection = tf.linalg.matvec(root, deviation)[..., tf.newaxis]
    weights = tf.linalg.cholesky_solve(factor, projection)[..., 0]
    residual = deviation - tf.linalg.matvec(root, weights, transpose_a=True)
    quadratic = chains.squared_norm(residual / noise_scale) + chains.squared_norm(weights)
    log_noise = tf.math.log(square) + tf.zeros_like(quadratic[:, tf.newaxis])
    return -0.5 * (quadratic + log_det + (size - num_directions) * log_noise[:, 0])


def constant(size: int) -> float:
    """What `log_prob` leaves out: -D log(2 pi) / 2."""
    return -0.5 * size * math.log(2 * math.pi)
