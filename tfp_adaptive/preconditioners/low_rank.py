"""Low-rank plus diagonal preconditioner: one scale per coordinate and a few learned directions.

Notation: s [D] scales; Q [D, r] orthonormal basis; T [r, r] lower triangular, positive diagonal.

    C = diag(s) K,    K = I + Q (T - I) Q^T

so that C C^T is a diagonal plus a matrix of rank at most 2 r, and within the span of Q (in units
of s) nothing restricts it. Cost O(D r) a product, nothing of size D x D. Right for dimensions in
which a dense factor does not fit and few directions are far from axis-aligned.

Under relative changes C -> C (I + A), with K^{-1} = I + Q (T^{-1} - I) Q^T and Z orthogonal to Q,

    A = K^{-1} diag(a) K                          scales the coordinates, s -> s exp(a)
    A = Q B Q^T                                   moves T -> T (I + B)
    A = Z (T - I) Q^T + Q (I - T^{-1}) Z^T        turns Q -> Q + Z
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import charts, outer_products, random, triangular
from tfp_adaptive.typing import Pairs, Preconditioner, Tensor

_BASIS_SEED = (0x6C6F7772, 0x616E6B)


class LowRankParameters(NamedTuple):
    """Parameters; tangents have the same fields."""

    scale: Tensor
    """[D] s, positive."""
    basis: Tensor
    """[D, r] Q, orthonormal columns."""
    core: Tensor
    """[r, r] T."""


def low_rank(rank: int = 8, initial_scale=None) -> Preconditioner:
    """A diagonal and `rank` directions of their own, in relative coordinates.

    Args:
      rank: r >= 1, less than D. Default 8. Take a few more than there are directions to be found:
        a direction is learned the better, the larger its component in the span of the first,
        random basis.
      initial_scale: scalar or [D], initial standard deviations, in the units of the state. Default
        `None`: a safe fraction of 1 / sqrt(largest curvature) at the start.

    Returns:
      A `Preconditioner` whose parameters are `LowRankParameters`.

    Raises:
      ValueError: if `rank` is not an int of at least 1, or not less than D.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=2, num_adaptation_steps=500,
      ...     preconditioner=tfpa.preconditioners.low_rank(rank=2))
    """
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
        raise ValueError(f'`rank` must be an int of at least 1; got {rank!r}.')

    def init(event_size, dtype, guess):
        if rank >= event_size:
            raise ValueError(
                f'`rank`={rank} must be less than the {event_size} coordinates of the state; '
                'use cholesky() for a dense factor.'
            )
        directions = random.normal([event_size, rank], tf.constant(_BASIS_SEED), dtype)
        return LowRankParameters(
            scale=charts.initial_scale_vector(initial_scale, guess, event_size, dtype),
            basis=_orthonormal(directions),
            core=tf.eye(rank, dtype=dtype),
        )

    return Preconditioner(
        init=init,
        forward=lambda parameters, x: parameters.scale * _stretch(parameters, x),
        transpose=_transpose,
        log_det=_log_det,
        gradient=_gradient,
        log_det_gradient=_log_det_gradient,
        retract=_retract,
        takes_scales=True,
    )


def _stretch(parameters, x):
    """K x."""
    _, basis, core = parameters
    inside = tf.matmul(x, basis)
    change = tf.matmul(inside, core, transpose_b=True) - inside
    return x + tf.matmul(change, basis, transpose_b=True)


def _transpose(parameters, x):
    """K^T diag(s) x."""
    scale, basis, core = parameters
    x = scale * x
    inside = tf.matmul(x, basis)
    return x + tf.matmul(tf.matmul(inside, core) - inside, basis, transpose_b=True)


def _log_det(parameters):
    return tf.reduce_sum(tf.math.log(parameters.scale)) + triangular.log_det(parameters.core)


def _gradient(parameters, pairs):
    _, basis, core = parameters
    all_left, all_right = outer_products.stack(pairs)
    left, right = tf.matmul(all_left, basis), tf.matmul(all_right, basis)
    # T^{-T} Q^T left, row by row
    solved = tf.linalg.triangular_solve(core, tf.transpose(left), adjoint=True)
    shrunk = left - tf.transpose(solved)
    stretched = tf.matmul(right, core, transpose_b=True) - right
    turn = tf.matmul(all_left, stretched, transpose_a=True)
    turn += tf.matmul(all_right, shrunk, transpose_a=True)
    stretched_right = _stretch(parameters, all_right)
    unstretched = all_left - tf.matmul(shrunk, basis, transpose_b=True)
    return LowRankParameters(
        scale=outer_products.diagonal(
            outer_products.split_like(pairs, unstretched, stretched_right)
        ),
        basis=_basis_unit(basis) * _orthogonal_part(basis, turn),
        core=triangular.relative_gradient(Pairs((left,), (right,))),
    )


def _log_det_gradient(parameters):
    scale, basis, core = parameters
    return LowRankParameters(
        tf.ones_like(scale), tf.zeros_like(basis), triangular.identity_like(core)
    )


def _retract(parameters, tangent):
    scale, basis, core = parameters
    turn = _orthogonal_part(basis, tangent.basis)
    return LowRankParameters(
        scale=scale * tf.exp(tangent.scale),
        basis=_orthonormal(basis + _basis_unit(basis) * turn),
        core=triangular.relative_update(core, tangent.core),
    )


def _basis_unit(basis):
    """A step of one unit in every entry turns a column by about one radian, whatever D."""
    return basis.shape[0] ** -0.5


def _orthogonal_part(basis, change):
    return change - tf.matmul(basis, tf.matmul(basis, change, transpose_a=True))


def _orthonormal(directions):
    """Orthonormal columns with the same span, by the Cholesky factor of the Gram matrix."""
    gram = tf.matmul(directions, directions, transpose_a=True)
    solved = tf.linalg.triangular_solve(tf.linalg.cholesky(gram), tf.transpose(directions))
    return tf.transpose(solved)
