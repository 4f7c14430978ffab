"""Banded precision factor with an optional dense border: the arrowhead of state-space models.

Notation: the state is a path of n coordinates followed by k global ones, D = n + k.
    T [n, n] upper banded with p super-diagonals, the precision factor of the path
    R [n, k] regression of the path on the global coordinates
    G [k, k] lower triangular factor of the global coordinates

    C = [[T^{-1}, R G], [0, G]],     C^{-1} = [[T, -T R], [0, G^{-1}]]

so global coordinates move as G z, and the path follows them by R before it moves on its own.
Cost O(n (p^2 + k) + k^3) a product. Under relative changes A the diagonal of A scales the rows of
T, the border of A adds T^{-1} A_pg G^{-1} to R, its corner multiplies G. Multiplying by a band
would widen the band, so the unit band W[i, j] = T[i, j] / T[j, j] is learned additively; it does
not depend on the units of the path either.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import banded as band_algebra
from tfp_adaptive.internal import charts, outer_products, triangular
from tfp_adaptive.typing import Pairs, Preconditioner, Tensor


class BandedParameters(NamedTuple):
    """Parameters, and tangents in euclidean coordinates."""

    band: Tensor
    """[p + 1, n]; band[j, i] = T[i, i + j]."""
    border: Tensor
    """[k, n] R^T: products with it run along the path."""
    corner: Tensor
    """[k, k] G."""


class BandedTangent(NamedTuple):
    """A relative change of `BandedParameters`."""

    rows: Tensor
    """[n] diagonal of A on the path."""
    band: Tensor
    """[p, n] change of the unit band W."""
    border: Tensor
    """[k, n] A_pg^T in units of coordinate_scale(n)."""
    corner: Tensor
    """[k, k] A_gg."""


def banded(
    bandwidth: int = 1,
    border_size: int = 0,
    initial_scale=None,
    *,
    coordinates: str = 'relative',
    min_diagonal: float | None = None,
) -> Preconditioner:
    """An upper banded precision factor, bordered by the last `border_size` coordinates.

    Args:
      bandwidth: p >= 1, super-diagonals of the precision factor: a path whose precision given the
        rest is banded with half-width p is captured exactly.
      border_size: k >= 0, number of global coordinates at the end of the packed state (its last
        parts) that may move all others. Default 0: a plain band.
      initial_scale: scalar or [D], initial standard deviations, in the units of the state. Default
        `None`: a safe fraction of 1 / sqrt(largest curvature) at the start.
      coordinates: 'relative' (default) or 'euclidean' (entries of T, R and G).
      min_diagonal: floor of the diagonal in euclidean coordinates, in the units of the parameters.
        Default `None`: 1e-3, as published.

    Returns:
      A `Preconditioner` whose parameters are `BandedParameters`.

    Raises:
      ValueError: if `bandwidth` or `border_size` is out of range, here or against the event size.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=4, num_adaptation_steps=500,
      ...     preconditioner=tfpa.preconditioners.banded(bandwidth=1, border_size=2))
    """
    if not _is_count(bandwidth) or bandwidth < 1:
        raise ValueError(
            f'`bandwidth` must be an int of at least 1; got {bandwidth!r}. '
            'Use diagonal() for bandwidth 0.'
        )
    if not _is_count(border_size):
        raise ValueError(f'`border_size` must be an int of at least 0; got {border_size!r}.')

    def init(event_size, dtype, guess):
        n = event_size - border_size
        if n <= bandwidth:
            raise ValueError(
                f'`bandwidth`={bandwidth} with `border_size`={border_size} needs more than '
                f'{bandwidth + border_size} coordinates; the state has {event_size}.'
            )
        scale = charts.initial_scale_vector(initial_scale, guess, event_size, dtype)
        band = tf.pad(1 / scale[tf.newaxis, :n], [[0, bandwidth], [0, 0]])
        return BandedParameters(band, tf.zeros([border_size, n], dtype), tf.linalg.diag(scale[n:]))

    floor = charts.diagonal_floor(coordinates, min_diagonal)
    chart = charts.select(
        coordinates,
        relative=charts.Chart(_relative_gradient, _relative_log_det_gradient, _relative_update),
        euclidean=charts.Chart(
            _euclidean_gradient,
            _euclidean_log_det_gradient,
            lambda parameters, tangent: _euclidean_update(parameters, tangent, floor),
        ),
    )
    return Preconditioner(
        init=init,
        forward=_forward,
        transpose=_transpose,
        log_det=_log_det,
        probe=functools.partial(_probe, border_size),
        takes_scales=True,
        **chart._asdict(),
    )


def _is_count(value) -> bool:
    is_int = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_int and int(value) >= 0


def _forward(parameters, x):
    path, rest = _split(parameters, x)
    rest = tf.matmul(rest, parameters.corner, transpose_b=True)
    path = band_algebra.solve(parameters.band, path) + tf.matmul(rest, parameters.border)
    return tf.concat([path, rest], axis=-1)


def _transpose(parameters, x):
    path, rest = _split(parameters, x)
    rest += tf.matmul(path, parameters.border, transpose_b=True)
    rest = tf.matmul(rest, parameters.corner)
    return tf.concat([band_algebra.solve_transpose(parameters.band, path), rest], axis=-1)


def _log_det(parameters):
    log_diagonal = tf.math.log(parameters.band[0])
    return triangular.log_det(parameters.corner) - tf.reduce_sum(log_diagonal)


def _probe(border_size, signs, coin):
    """Probes the path or the global coordinates, not both.

    The border has n entries a column. Fed with a probe of everything, each would see the noise of
    all the path; fed with a probe of the global coordinates alone it sees the coupling it has to
    learn and hardly anything else.
    """
    if not border_size:
        return signs
    coin = coin[:, tf.newaxis]
    n = signs.shape[-1] - border_size
    weights = tf.concat([tf.repeat(coin, n, axis=1), tf.repeat(1 - coin, border_size, 1)], 1)
    return tf.sqrt(2 * weights) * signs


def _split(parameters, x):
    n = parameters.band.shape[-1]
    return x[..., :n], x[..., n:]


def _outer_bands(parameters, pairs):
    count = parameters.band.shape[0]
    bands = [
        band_algebra.outer_bands(left, right, count) for left, right in zip(*pairs, strict=True)
    ]
    return tf.add_n(bands)


def _relative_gradient(parameters, pairs):
    all_left, all_right = outer_products.stack(pairs)
    left, left_rest = _split(parameters, all_left)
    right, right_rest = _split(parameters, all_right)
    scaled = parameters.band[0] * band_algebra.solve(parameters.band, right)
    border_unit = triangular.coordinate_scale(left.shape[-1])
    return BandedTangent(
        rows=outer_products.diagonal(outer_products.split_like(pairs, left, right)),
        band=-_outer_bands(parameters, outer_products.split_like(pairs, left, scaled))[1:],
        border=border_unit * tf.matmul(right_rest, left, transpose_a=True),
        corner=triangular.relative_gradient(Pairs((left_rest,), (right_rest,))),
    )


def _relative_log_det_gradient(parameters):
    return BandedTangent(
        rows=tf.ones_like(parameters.band[0]),
        band=tf.zeros_like(parameters.band[1:]),
        border=tf.zeros_like(parameters.border),
        corner=tf.eye(parameters.corner.shape[-1], dtype=parameters.corner.dtype),
    )


def _relative_update(parameters, tangent):
    band = tf.exp(-tangent.rows) * parameters.band
    diagonals = band_algebra.shifts(band[0], band.shape[0])
    band = tf.concat([band[:1], band[1:] + tangent.band * diagonals[1:]], axis=0)
    border = parameters.border
    if border.shape[0]:
        change = triangular.coordinate_scale(border.shape[-1]) * tangent.border
        change = tf.linalg.triangular_solve(parameters.corner, change, adjoint=True)
        border += band_algebra.solve(parameters.band, change)
    corner = triangular.relative_update(parameters.corner, tangent.corner)
    return BandedParameters(band, border, corner)


def _euclidean_gradient(parameters, pairs):
    all_left, all_right = outer_products.stack(pairs)
    left, left_rest = _split(parameters, all_left)
    right, right_rest = _split(parameters, all_right)
    solved = band_algebra.solve(parameters.band, right)
    moved = tf.matmul(right_rest, parameters.corner, transpose_b=True)
    pulled = band_algebra.multiply_transpose(parameters.band, left)
    corner = parameters.corner
    if corner.shape[-1]:
        corner = triangular.euclidean_gradient(corner, Pairs((left_rest,), (right_rest,)))
    return BandedParameters(
        band=-_outer_bands(parameters, outer_products.split_like(pairs, left, solved)),
        border=tf.matmul(moved, pulled, transpose_a=True),
        corner=corner,
    )


def _euclidean_log_det_gradient(parameters):
    band = tf.pad(-1 / parameters.band[:1], [[0, parameters.band.shape[0] - 1], [0, 0]])
    corner = tf.linalg.diag(1 / tf.linalg.diag_part(parameters.corner))
    return BandedParameters(band, tf.zeros_like(parameters.border), corner)


def _euclidean_update(parameters, tangent, floor):
    band = parameters.band + tangent.band
    diagonal = tf.maximum(band[:1], floor)
    return BandedParameters(
        band=tf.concat([diagonal, band[1:]], axis=0),
        border=parameters.border + tangent.border,
        corner=triangular.euclidean_update(parameters.corner, tangent.corner, floor),
    )
