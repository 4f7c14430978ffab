"""From an estimated inverse mass to its factor C, always usable."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import Tensor


def unit_vector(event_size: int, dtype: Any) -> Tensor:
    """Diagonal of the identity, [D]."""
    return tf.ones([event_size], dtype)


def unit_matrix(event_size: int, dtype: Any) -> Tensor:
    """The identity, [D, D]."""
    return tf.eye(event_size, dtype=dtype)


def diagonal(inverse_mass: Tensor) -> Tensor:
    """Square roots [D]."""
    return tf.sqrt(inverse_mass)


def dense(inverse_mass: Tensor) -> Tensor:
    """The lower triangular root [D, D] of a symmetric matrix [D, D] with a positive diagonal.

    The matrix is factored in units of its own standard deviations, so that units do not matter, and
    its correlations are shrunk by 4 D roundings, so that the factorisation does not fail: a failure
    would leave nothing but NaN.
    """
    deviation = tf.sqrt(tf.linalg.diag_part(inverse_mass))
    correlation = inverse_mass / deviation / deviation[:, tf.newaxis]
    correlation = tf.linalg.set_diag(correlation, tf.ones_like(deviation))
    size = inverse_mass.shape[-1]
    share = 4 * size * np.finfo(inverse_mass.dtype.as_numpy_dtype).eps
    identity = tf.linalg.diag(tf.ones_like(deviation))
    safe = correlation * (1 - share) + share * identity
    safe = tf.where(chains.is_finite(safe), safe, identity)
    return deviation[:, tf.newaxis] * tf.linalg.cholesky(safe)


def divided(scale: Tensor, x: Tensor) -> Tensor:
    """C^-T x of a diagonal [D], row by row."""
    return x / scale


def solved(lower: Tensor, x: Tensor) -> Tensor:
    """C^-T x of a lower triangular factor [D, D], row by row."""
    columns = tf.linalg.triangular_solve(lower, tf.transpose(x), adjoint=True)
    return tf.transpose(columns)
