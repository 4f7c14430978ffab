"""Log-Gaussian Cox process on an n x n grid, with simulated counts (Hirt et al. 2021, section 4).

    y_i ~ Poisson(m exp(q_i)), m = 1 / n^2
    q ~ N(mu, S), S_ij = s^2 exp(-|i - j| / l) + 1e-5 [i = j]

with |i - j| the distance of two cells in cells, s^2 = 1.91 and mu = log 126 - s^2 / 2. The paper
prints the correlation length l = n / 33. Its code has n^2 / 33, for it divides the cells by n as
well. At n = 8 these are 0.24 and 1.9 cells, at n = 16 0.48 and 7.8: as printed, neighbours are
nearly independent.
"""

import numpy as np
import tensorflow as tf

from experiments.errors import ExperimentError
from experiments.targets.base import Target, normal_start

_VARIANCE, _RANGE, _JITTER = 1.91, 1 / 33, 1e-5
_MEAN = np.log(126.0) - _VARIANCE / 2


def cox_process(
    grid_size: int = 8,
    covariance: str = 'printed',
    data_seed: int = 0,
    initial_scale: float = 0.01,
) -> Target:
    """The posterior of the log-intensities q, d = n^2, given simulated counts.

    Args:
      grid_size: n, cells along one side.
      covariance: 'printed', l = n / 33, or 'code', l = n^2 / 33.
      data_seed: of the field and the counts.
      initial_scale: chains start at N(0, initial_scale^2 I).

    Raises:
      ExperimentError: for another `covariance`.
    """
    prior = prior_covariance(grid_size, covariance)
    counts = simulate(grid_size, covariance, data_seed)
    return Target(
        name=f'Cox process {grid_size} x {grid_size}, {covariance}',
        event_size=grid_size**2,
        log_prob=_make_log_prob(prior, counts),
        initial_state=normal_start(grid_size**2, initial_scale),
        provenance='Hirt, Titsias & Dellaportas (2021), section 4; simulated data',
    )


def prior_covariance(grid_size: int, covariance: str) -> np.ndarray:
    """S [d, d], cells row by row.

    Args:
      grid_size: n.
      covariance: as for `cox_process`.

    Raises:
      ExperimentError: for another `covariance`.
    """
    lengths = {'printed': grid_size * _RANGE, 'code': grid_size**2 * _RANGE}
    if covariance not in lengths:
        raise ExperimentError(
            f'covariance must be one of {", ".join(lengths)}; got {covariance!r}.'
        )
    cells = np.stack(np.divmod(np.arange(grid_size**2), grid_size), axis=-1)
    distance = np.linalg.norm(cells[:, np.newaxis] - cells, axis=-1)
    return _VARIANCE * np.exp(-distance / lengths[covariance]) + _JITTER * np.eye(grid_size**2)


def simulate(grid_size: int, covariance: str, seed: int) -> np.ndarray:
    """Counts [d] of one field drawn from the prior, the same for the same seed.

    Args:
      grid_size: n.
      covariance: as for `cox_process`.
      seed: of the field and the counts.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(prior_covariance(grid_size, covariance))
    field = _MEAN + root @ rng.normal(size=grid_size**2)
    return rng.poisson(np.exp(field) / grid_size**2)


def riemannian_metric(grid_size: int, covariance: str) -> np.ndarray:
    """The constant mass matrix M = Lambda + S^{-1}, Lambda_ii = m exp(mu + S_ii), [d, d].

    Args:
      grid_size: n.
      covariance: as for `cox_process`.
    """
    prior = prior_covariance(grid_size, covariance)
    return np.diag(np.exp(_MEAN + np.diag(prior)) / grid_size**2) + np.linalg.inv(prior)


def _make_log_prob(prior: np.ndarray, counts: np.ndarray):
    """Up to a constant: y^T r - m exp(mu) sum_i exp(r_i) - |W r|^2 / 2, r = q - mu, W S W^T = I."""
    whitening = np.linalg.inv(np.linalg.cholesky(prior))
    intensity = np.exp(_MEAN) / len(counts)

    def log_prob(q):
        field = q - tf.constant(_MEAN, q.dtype)
        z = tf.tensordot(field, tf.constant(whitening, q.dtype), axes=[[-1], [1]])
        data = tf.constant(counts, q.dtype) * field - tf.constant(intensity, q.dtype) * tf.exp(
            field
        )
        return tf.reduce_sum(data - z**2 / 2, axis=-1)

    return log_prob
