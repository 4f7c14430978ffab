"""Gaussian proposals of the pseudo-marginal family: where the covariance comes from.

All of them are q' ~ N(q + s S g / 2, S) with g a score, or 0, and differ in S. The share s is one
unless a step is so long that the drift would overshoot (`kernels/marginal.py`).

Notation (C chains, D event size, M lanes):
    eps   step size;  Sigma = C C^T  the learned covariance
    S     covariance of the proposal, eps^2 H
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import arguments, factorization
from tfp_adaptive.proposals import secants
from tfp_adaptive.typing import Tensor

_METHODS = ('bfgs', 'sr1', 'ls')
_FLOOR = 1e-4


class Matrix(NamedTuple):
    """An estimate of the inverse negative Hessian, and how it came about."""

    value: Tensor
    """H, [C, D, D]."""
    num_pairs: Tensor
    """[C] int32."""
    is_corrected: Tensor
    """[C] whether its spectrum had to be made positive."""


class GaussianProposal(NamedTuple):
    """Where the covariance of a Gaussian proposal comes from, and what it costs."""

    num_lanes: int
    """M, states of the past that are chains of their own; 1 without memory."""
    uses_score: bool
    target_accept_prob: float
    matrix: Callable[..., Matrix] | None = None
    """(positions [C, M - 1, D], scores [C, M - 1, D], log-densities [C, M - 1], Sigma [D, D]) -> H.
    `None`: H = Sigma."""
    trust_region: bool = False
    """Whether the proposal is multiplied by N(q, eps^2 Sigma)."""
    local_matrix: Callable[..., Matrix] | None = None
    """(Hessian of the log-density [C, D, D], Sigma [D, D]) -> H of a position. `None`: H does not
    depend on it."""


def langevin() -> GaussianProposal:
    """The Langevin proposal with the learned covariance (pmMH1).

    Returns:
      A `GaussianProposal` that takes one estimate of the score a step.

    Example:
      >>> proposal = tfpa.proposals.langevin()
    """
    return GaussianProposal(num_lanes=1, uses_score=True, target_accept_prob=0.5)


def newton(*, max_share: float = 4.0) -> GaussianProposal:
    """The Langevin proposal with the inverse negative Hessian of the log-estimate (pmMH2).

        S = eps^2 H(theta, u),   H = (-Hessian)^-1

    The Hessian is the derivative of the estimate's score: of Louis' identity where the score is of
    Fisher's. It is made positive by taking absolute eigenvalues, and limited so that H is nowhere
    wider than `max_share` times the learned covariance Sigma: a noisy Hessian may nearly vanish. In
    the units of Sigma the range of its eigenvalues is at most 0.01 of the inverse rounding, and
    without a finite Hessian it is Sigma.
    The reverse density has the H of the place the move ends in.

    Args:
      max_share: largest H allowed in units of Sigma, positive. Default 4.

    Returns:
      A `GaussianProposal` that takes the score and D Hessian-vector products of one estimate a
      step. Each product counts as two estimates.

    Raises:
      ValueError: if `max_share` is not positive.

    Reference: J. Dahlin, F. Lindsten, T. Schon. Particle Metropolis-Hastings using gradient and
    Hessian information. Statistics and Computing 2015.

    Example:
      >>> proposal = tfpa.proposals.newton()
    """
    if not max_share > 0:
        raise ValueError(f'`max_share` must be positive; got {max_share!r}.')
    return GaussianProposal(
        num_lanes=1,
        uses_score=True,
        target_accept_prob=0.5,
        local_matrix=functools.partial(_inverse_hessian, max_share),
    )


def _inverse_hessian(max_share, hessian, covariance) -> Matrix:
    """H in the coordinates of Sigma, in which the learned covariance is the identity."""
    factor = tf.broadcast_to(factorization.cholesky(covariance), tf.shape(hessian))
    is_finite = tf.reduce_all(tf.math.is_finite(hessian), axis=[-2, -1])
    hessian = tf.where(is_finite[:, tf.newaxis, tf.newaxis], hessian, tf.zeros_like(hessian))
    precision = -tf.linalg.matmul(factor, hessian @ factor, transpose_a=True)
    # nothing is known without a Hessian, and H is Sigma
    identity = tf.eye(hessian.shape[-1], dtype=hessian.dtype)
    precision = tf.where(is_finite[:, tf.newaxis, tf.newaxis], precision, identity)
    values, vectors = tf.linalg.eigh((precision + tf.linalg.matrix_transpose(precision)) / 2)
    least = 1 / max_share
    # of a wider range H would have no Cholesky factor
    most = least * 0.01 / np.finfo(hessian.dtype.as_numpy_dtype).eps
    limited_values = tf.clip_by_value(tf.abs(values), least, most)
    root = factor @ (vectors * tf.math.rsqrt(limited_values)[:, tf.newaxis])
    return Matrix(
        tf.linalg.matmul(root, root, transpose_b=True),
        tf.zeros_like(values[:, 0], tf.int32),
        tf.reduce_any((values < least) | (values > most), axis=-1) | ~is_finite,
    )


def walk() -> GaussianProposal:
    """The random walk with the learned covariance (pmMH0)."""
    return GaussianProposal(num_lanes=1, uses_score=False, target_accept_prob=0.2)


def quasi_newton(
    method: str = 'ls',
    memory: int = 20,
    *,
    min_pairs: int | None = None,
    penalty: float | None = None,
    relative_penalty: bool | None = None,
) -> GaussianProposal:
    """A Langevin proposal whose covariance is a quasi-Newton matrix of the last states.

    The chain is the interleaving of M lanes, each a chain of its own that is updated every M steps.
    The other M - 1 lanes, sorted by their log-density, give M - 2 pairs of differences of positions
    and scores. The matrix starts from, or shrinks to, the learned covariance Sigma.

    Args:
      method: 'bfgs' (damped), 'sr1' (with a trust region of covariance eps^2 Sigma) or 'ls' (ridge
        regression). Default 'ls'.
      memory: M >= 3. Default 20.
      min_pairs: pairs below which Sigma takes the place of the matrix, at most M - 2. Default
        `None`: 2 for 'ls' (1 with M = 3), else 1.
      penalty: of the ridge regression of 'ls', positive. Default `None`: 0.1.
      relative_penalty: whether `penalty` is in units of tr(Y^T Y) / D; as published it is not.
        Default `None`: it is.

    Returns:
      A `GaussianProposal` that takes two estimates of the score a step.

    Raises:
      ValueError: if an argument is out of its range, or a penalty is given for 'bfgs' or 'sr1'.

    Reference: J. Dahlin, A. Wills, B. Ninness. Correlated pseudo-marginal Metropolis-Hastings
    using quasi-Newton proposals, 2018. Sections 4 and 5.

    Example:
      >>> proposal = tfpa.proposals.quasi_newton('bfgs', memory=10)
    """
    if method not in _METHODS:
        raise ValueError(f"`method` must be 'bfgs', 'sr1' or 'ls'; got {method!r}.")
    arguments.count('memory', memory, least=3)
    if min_pairs is None:
        min_pairs = min(2, memory - 2) if method == 'ls' else 1
    arguments.count('min_pairs', min_pairs, least=1)
    if min_pairs > memory - 2:
        raise ValueError(
            f'`min_pairs` must be at most memory - 2 = {memory - 2}, the pairs that there are; '
            f'got {min_pairs}.'
        )
    for name, value in (('penalty', penalty), ('relative_penalty', relative_penalty)):
        if method != 'ls' and value is not None:
            raise ValueError(f"`{name}` is about `method` 'ls' alone; got it for {method!r}.")
    penalty = 0.1 if penalty is None else penalty
    if not penalty > 0:
        raise ValueError(f'`penalty` must be positive; got {penalty!r}.')
    is_relative = relative_penalty is None or bool(relative_penalty)
    ridge = functools.partial(secants.least_squares, penalty=penalty, is_relative=is_relative)
    estimate = {'bfgs': secants.bfgs, 'sr1': secants.sr1, 'ls': ridge}[method]
    return GaussianProposal(
        num_lanes=memory,
        uses_score=True,
        target_accept_prob=0.3,
        matrix=functools.partial(_matrix, estimate, min_pairs),
        trust_region=method == 'sr1',
    )


def _matrix(estimate, min_pairs, positions, scores, log_probs, covariance) -> Matrix:
    order = tf.argsort(log_probs, axis=-1)
    positions, scores = (tf.gather(x, order, batch_dims=1) for x in (positions, scores))
    s = positions[:, 1:] - positions[:, :-1]
    y = scores[:, :-1] - scores[:, 1:]
    is_used = tf.reduce_any(s != 0, axis=-1)
    fallback = tf.broadcast_to(covariance, tf.concat([tf.shape(s)[:1], covariance.shape], axis=0))
    value, num_pairs = estimate(s, y, fallback, is_used)
    value, is_corrected = secants.positive_definite(value, fallback, _FLOOR)
    has_enough = num_pairs >= min_pairs
    value = tf.where(has_enough[:, tf.newaxis, tf.newaxis], value, fallback)
    return Matrix(value, num_pairs, is_corrected & has_enough)


def limited(covariance: Tensor, region: Tensor) -> Tensor:
    """Covariance of the product of N(m, covariance) and N(q, region): equation 18.

    For m = q + covariance g / 2 its mean is q plus the result times g / 2.
    """
    product = tf.linalg.matmul(region, tf.linalg.solve(covariance + region, covariance))
    return (product + tf.linalg.matrix_transpose(product)) / 2
