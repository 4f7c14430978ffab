"""Metrics from the draws alone: their variances, or their covariance."""

import tensorflow as tf

from tfp_adaptive import preconditioners
from tfp_adaptive.tuning import factors, moments
from tfp_adaptive.tuning.records import MetricEstimator


def variance() -> MetricEstimator:
    """A diagonal metric: inverse mass the variances of the draws, as Stan's `diag_e`.

    With n draws of all chains, the estimate is n / (n + 5) times the unbiased variance plus
    5 / (n + 5) times 1e-3.

    Returns:
      A `MetricEstimator` for `preconditioners.diagonal`.

    Reference: Stan, `var_adaptation.hpp`.

    Example:
      >>> kernel = tfpa.WindowedHMC(
      ...     target_log_prob_fn, 3, num_adaptation_steps=200, metric=tfpa.tuning.variance())
    """
    return _of_draws(preconditioners.diagonal(), factors.diagonal, is_dense=False)


def covariance() -> MetricEstimator:
    """A dense metric: inverse mass the covariance of the draws, as Stan's `dense_e`.

    With n draws of all chains, the estimate is n / (n + 5) times the unbiased covariance plus
    5 / (n + 5) times 1e-3 I.

    Returns:
      A `MetricEstimator` for `preconditioners.cholesky`.

    Reference: Stan, `covar_adaptation.hpp`.

    Example:
      >>> kernel = tfpa.WindowedHMC(
      ...     target_log_prob_fn, 3, num_adaptation_steps=200, metric=tfpa.tuning.covariance())
    """
    return _of_draws(preconditioners.cholesky(), factors.dense, is_dense=True)


def _of_draws(preconditioner, root, *, is_dense) -> MetricEstimator:
    def collect(state, position, score, is_alive):
        del score
        return moments.collect(state, position, is_alive)

    return MetricEstimator(
        preconditioner=preconditioner,
        init=lambda event_size, dtype: moments.empty(event_size, dtype, is_dense=is_dense),
        collect=collect,
        absorb=moments.absorb,
        restart=moments.restart,
        unit=factors.unit_matrix if is_dense else factors.unit_vector,
        factor=lambda state: root(moments.shrunk(state)),
        scale=tf.multiply,
        inverse_transpose=factors.solved if is_dense else factors.divided,
    )
