"""The metric from draws and scores: the Gaussian that matches both best in Fisher divergence."""

from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive import preconditioners
from tfp_adaptive.tuning import factors, moments
from tfp_adaptive.tuning.records import MetricEstimator


class FisherState(NamedTuple):
    """`moments.Moments` of both."""

    draws: moments.Moments
    scores: moments.Moments


def fisher(*, is_dense: bool = False) -> MetricEstimator:
    """Inverse mass S with S cov(scores) S = cov(draws): of a Gaussian known after D + 1 draws.

    Among Gaussians, this S makes the Fisher divergence from the target smallest. Diagonal, it is
    the standard deviation of the draws over that of the scores, coordinate by coordinate; dense,
    the geometric mean of cov(draws) and the inverse of cov(scores), to whose diagonals
    5e-3 / (n + 5) of them is added after n draws. So S follows any change of units, unlike that of
    `variance` and `covariance`, which are shrunk towards 1e-3. Without draws it is the identity.

    Args:
      is_dense: whether S is dense. Default `False`.

    Returns:
      A `MetricEstimator` for `preconditioners.diagonal` or `preconditioners.cholesky`. It needs a
      kernel that uses scores.

    Raises:
      TypeError: if `is_dense` is no bool.

    Reference: A. Seyboldt, E. Carlson, B. Carpenter. Preconditioning Hamiltonian Monte Carlo by
    minimizing Fisher divergence. 2026. The diagonal estimate is the default of nutpie.

    Example:
      >>> kernel = tfpa.WindowedHMC(
      ...     target_log_prob_fn, 3, num_adaptation_steps=200, metric=tfpa.tuning.fisher())
    """
    if not isinstance(is_dense, bool):
        raise TypeError(f'`is_dense` must be True or False; got {is_dense!r}.')
    family = preconditioners.cholesky() if is_dense else preconditioners.diagonal()

    def init(event_size, dtype):
        none = moments.empty(event_size, dtype, is_dense=is_dense)
        return FisherState(none, none)

    def collect(state, position, score, is_alive):
        return (
            moments.collect(state.draws, position, is_alive),
            moments.collect(state.scores, score, is_alive),
        )

    def absorb(state, sums):
        draws, scores = sums
        return FisherState(moments.absorb(state.draws, draws), moments.absorb(state.scores, scores))

    def factor(state):
        draws, scores = state
        if is_dense:
            both = moments.conditioned(draws), moments.conditioned(scores)
            return factors.dense(_geometric_mean(*both))
        ratio = tf.sqrt(draws.squares) / tf.sqrt(scores.squares)
        is_usable = (draws.count > 1) & tf.math.is_finite(ratio) & (ratio > 0)
        return factors.diagonal(tf.where(is_usable, ratio, tf.ones_like(ratio)))

    return MetricEstimator(
        preconditioner=family,
        init=init,
        collect=collect,
        absorb=absorb,
        restart=lambda state: FisherState(*map(moments.restart, state)),
        unit=factors.unit_matrix if is_dense else factors.unit_vector,
        factor=factor,
        scale=tf.multiply,
        inverse_transpose=factors.solved if is_dense else factors.divided,
    )


def _geometric_mean(draws, scores):
    """S with S scores S = draws: L^-T (L^T draws L)^(1/2) L^-1, where scores = L L^T."""
    lower = factors.dense(scores)
    inside = tf.matmul(lower, tf.matmul(draws, lower), transpose_a=True)
    values, vectors = tf.linalg.eigh((inside + tf.linalg.matrix_transpose(inside)) / 2)
    half = vectors * tf.sqrt(tf.sqrt(tf.maximum(values, 0)))
    root = tf.linalg.triangular_solve(lower, half, adjoint=True)
    return tf.matmul(root, root, transpose_b=True)
