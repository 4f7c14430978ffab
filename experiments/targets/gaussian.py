"""Gaussians of known covariance, from trivial to badly scaled."""

from typing import Any

import numpy as np
import tensorflow as tf

from experiments.errors import ExperimentError
from experiments.targets.base import Moments, Target, normal_start

_LENGTH_SCALE, _NUGGET, _RANGE = 0.4, 0.01, 4.0
_ROTATION_SEED = 0


def gaussian(
    kind: str = 'process',
    num_dims: int = 51,
    condition_number: float = 100.0,
    initial_scale: float = 0.1,
) -> Target:
    """N(0, S) without its normalising constant.

    Args:
      kind: 'iid', S = I; 'anisotropic', S diagonal with entries log-spaced from 1 to
        `condition_number`; 'rotated', the same under a fixed random rotation; 'neal', S diagonal
        with standard deviations 1/d, 2/d, .., 1; 'process', S_ij =
        exp(-(x_i - x_j)^2 / (2 * 0.4^2)) + 0.01 [i = j] for x on a grid of [0, 4].
      num_dims: d.
      condition_number: of S, for the two kinds that use it.
      initial_scale: chains start at N(0, initial_scale^2 I).

    Raises:
      ExperimentError: for another `kind`.
    """
    whitening, sd = whiten(kind, num_dims, condition_number)
    return Target(
        name=f'gaussian {kind}',
        event_size=num_dims,
        log_prob=_make_log_prob(whitening),
        initial_state=normal_start(num_dims, initial_scale),
        provenance='Hirt, Titsias & Dellaportas (2021), section 4 and appendices F, G',
        reference=Moments(
            tuple(f'q{i + 1}' for i in range(num_dims)),
            (0.0,) * num_dims,
            tuple(np.broadcast_to(sd, [num_dims]).tolist()),
            'exact',
        ),
    )


def whiten(kind: str, num_dims: int, condition_number: float) -> tuple[np.ndarray, Any]:
    """W with W S W^T = I, [d, d] or its diagonal [d], and the standard deviations.

    Args:
      kind: as for `gaussian`, and so the others.
      num_dims: d.
      condition_number: of S.

    Raises:
      ExperimentError: for another `kind`.
    """
    kinds = {
        'iid': _iid,
        'anisotropic': _anisotropic,
        'rotated': _rotated,
        'neal': _neal,
        'process': _process,
    }
    if kind not in kinds:
        raise ExperimentError(f'kind must be one of {", ".join(kinds)}; got {kind!r}.')
    return kinds[kind](num_dims, condition_number)


def _make_log_prob(whitening: np.ndarray):
    """-|W q|^2 / 2 for a matrix W, or for the diagonal of one."""

    def log_prob(q):
        matrix = tf.constant(whitening, q.dtype)
        z = matrix * q if whitening.ndim == 1 else tf.tensordot(q, matrix, axes=[[-1], [1]])
        return -tf.reduce_sum(z**2, axis=-1) / 2

    return log_prob


def _iid(num_dims, condition_number):
    del condition_number
    return np.ones(num_dims), 1.0


def _anisotropic(num_dims, condition_number):
    sd = np.sqrt(np.geomspace(1.0, condition_number, num_dims))
    return 1 / sd, sd


def _rotated(num_dims, condition_number):
    precision_root, sd = _anisotropic(num_dims, condition_number)
    noise = np.random.default_rng(_ROTATION_SEED).normal(size=[num_dims, num_dims])
    rotation, upper = np.linalg.qr(noise)
    rotation *= np.sign(np.diag(upper))
    return precision_root[:, np.newaxis] * rotation.T, np.sqrt(
        (rotation * sd) ** 2 @ np.ones(num_dims)
    )


def _neal(num_dims, condition_number):
    del condition_number
    sd = np.arange(1, num_dims + 1) / num_dims
    return 1 / sd, sd


def _process(num_dims, condition_number):
    del condition_number
    grid = np.linspace(0.0, _RANGE, num_dims)
    distance = grid[:, np.newaxis] - grid
    covariance = np.exp(-(distance**2) / (2 * _LENGTH_SCALE**2)) + _NUGGET * np.eye(num_dims)
    return np.linalg.inv(np.linalg.cholesky(covariance)), np.sqrt(np.diag(covariance))
