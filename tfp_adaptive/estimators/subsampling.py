"""Likelihoods of many independent rows, from a few of them.

Notation (N rows, n of them drawn, D parameters, r = N / n):
    l_i(theta)   log-likelihood of row i
    q_i(theta)   its Taylor polynomial of second order about a reference theta*
    d_i          l_i - q_i, the control variate taken away
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.estimators.records import Estimator
from tfp_adaptive.internal import arguments, packing

_MODES = ('difference', 'as_published')


class _Expansion(NamedTuple):
    """Taylor coefficients about the reference: of every row, and their sums."""

    centre: tf.Tensor
    """theta*, [D]."""
    rows: tuple
    """l_i, gradient and Hessian at theta*: [N], [N, D], [N, D, D]."""
    total: tuple
    """Their sums."""


def subsampling(
    log_prob_fn: Callable,
    data: Any,
    num_rows: int,
    *,
    reference: Any = None,
    mode: str = 'difference',
    seed: int = 0,
) -> Estimator:
    """Likelihood of independent rows of data, from a few rows that the noise chooses.

        log p = sum_{i <= N} q_i + r sum_j d_{i_j} - V / 2,    V = r^2 n (1 - 1 / r) var_j(d_{i_j})

    with one row i_j from each of n strata of r rows. The sum is unbiased for the log-likelihood,
    by the difference estimator; V / 2 corrects the exponential of its noise. What is left of the
    bias is that of an estimated V and of noise that is not Gaussian: the posterior is that of a
    likelihood off by O(n^-1) times powers of r sqrt(n) d, which is little where the log-estimate
    is little noisy: `kernel.log_estimate_variance(state, seed)` well below 1. With n = N it is
    exact.

    'as_published' is the plain sum over n rows: neither scaled to N rows nor corrected, and since
    the noise is sorted first nearly the same rows are drawn again and again. Its chain has the
    posterior of about n rows, wider by sqrt(r), as its law.

    Memory: N (1 + D + D^2) numbers for the control variates.

    Args:
      log_prob_fn: (rows, structure of tensors [*batch, n, ...], *parts [*batch, *event]) -> log-
        likelihood of each row, [*batch, n]. Twice differentiable.
      data: rows, structure of tensors [N, ...].
      num_rows: n, a divisor of N.
      reference: theta*, structure of parts [*event] of a floating dtype, near the mode of the
        posterior. Needed by 'difference'.
      mode: 'difference', or 'as_published'. Default 'difference'.
      seed: int, of the order in which rows fall into strata for 'difference'. Default 0.

    Returns:
      An `Estimator` with n numbers of noise.

    Raises:
      ValueError: if `num_rows` does not divide N, `mode` is neither, or 'difference' is given no
        reference.

    Reference: M. Quiroz, R. Kohn, M. Villani, M.-N. Tran. Speeding up MCMC by efficient data
    subsampling. JASA 2019, equations 2.4 and 2.8. 'as_published': J. Dahlin, A. Wills, B. Ninness.
    Correlated pseudo-marginal Metropolis-Hastings using quasi-Newton proposals, 2018, section 6.2.

    Example:
      >>> x = tf.random.stateless_normal([40], seed=(0, 1))
      >>> estimator = tfpa.estimators.subsampling(
      ...     lambda rows, theta: -tf.square(rows - theta[..., tf.newaxis]) / 2,
      ...     x, num_rows=10, reference=tf.zeros([]))
      >>> noise = tf.random.stateless_normal([4, 10], seed=(0, 1))
      >>> estimator.log_likelihood(noise, tf.ones([4])).shape
      TensorShape([4])
    """
    if mode not in _MODES:
        raise ValueError(f"`mode` must be 'difference' or 'as_published'; got {mode!r}.")
    data = tf.nest.map_structure(tf.convert_to_tensor, data)
    total = int(tf.nest.flatten(data)[0].shape[0])
    arguments.count('num_rows', num_rows, least=1)
    if total % num_rows:
        raise ValueError(
            f'`num_rows` must divide the number of rows, {total}; got {num_rows}: drop some rows '
            'or draw another number.'
        )
    if mode == 'as_published':
        estimate = functools.partial(_published, log_prob_fn, data, total, num_rows)
        return Estimator(num_rows, estimate, num_rows)
    if reference is None:
        raise ValueError(
            "`reference` must be a point near the mode of the posterior for mode 'difference'; "
            'got None.'
        )
    order = tf.random.experimental.stateless_shuffle(tf.range(total), seed=[0, seed])
    data = tf.nest.map_structure(lambda x: tf.gather(x, order), data)
    expansion = _expand(log_prob_fn, data, packing.to_parts(reference))
    estimate = functools.partial(_difference, log_prob_fn, data, expansion, total, num_rows)
    return Estimator(num_rows, estimate, num_rows)


def _difference(log_prob_fn, data, expansion, total, num_rows, noise, *parts):
    ratio = total // num_rows
    stratum = tf.cast(tf.floor(ratio * _uniforms(noise)), tf.int32)
    index = ratio * tf.range(num_rows) + tf.minimum(stratum, ratio - 1)
    offset = _flat(parts, noise.shape.rank - 1) - expansion.centre
    control = _taylor((tf.gather(x, index) for x in expansion.rows), offset[..., tf.newaxis, :])
    differences = log_prob_fn(_take(data, index), *parts) - control
    value = _taylor(expansion.total, offset) + ratio * tf.reduce_sum(differences, axis=-1)
    if num_rows == 1 or ratio == 1:
        return value
    squares = tf.square(differences - tf.reduce_mean(differences, axis=-1, keepdims=True))
    variance = tf.reduce_sum(squares, axis=-1) / (num_rows - 1)
    return value - ratio * (ratio - 1) * num_rows * variance / 2


def _published(log_prob_fn, data, total, num_rows, noise, *parts):
    """One row of each stratum, at a place that the sorted noise chooses."""
    place = tf.sort(_uniforms(noise), axis=-1) + tf.range(num_rows, dtype=noise.dtype)
    index = tf.cast(tf.math.ceil(place * (total / num_rows)), tf.int32) - 1
    index = tf.clip_by_value(index, 0, total - 1)
    return tf.reduce_sum(log_prob_fn(_take(data, index), *parts), axis=-1)


def _expand(log_prob_fn, data, reference) -> _Expansion:
    """Every row is a batch entry of its own, so that one tape gives the gradients of all."""
    total = tf.nest.flatten(data)[0].shape[0]
    shapes = [part.shape for part in reference]
    sizes = [shape.num_elements() for shape in shapes]
    centre = _flat(reference, 0)
    rows = tf.nest.map_structure(lambda x: x[:, tf.newaxis], data)
    flat = tf.tile(centre[tf.newaxis], [total, 1])
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as outer:
        outer.watch(flat)
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(flat)
            parts = [
                tf.reshape(part, [total, *shape])
                for part, shape in zip(tf.split(flat, sizes, axis=-1), shapes, strict=True)
            ]
            value = log_prob_fn(rows, *parts)[:, 0]
        gradient = inner.gradient(value, flat)
        columns = tf.unstack(gradient, axis=-1)
    zero = tf.UnconnectedGradients.ZERO
    hessian = tf.stack(
        [outer.gradient(column, flat, unconnected_gradients=zero) for column in columns], axis=-1
    )
    coefficients = value, gradient, hessian
    return _Expansion(centre, coefficients, tuple(tf.reduce_sum(x, axis=0) for x in coefficients))


def _taylor(coefficients, offset):
    value, gradient, hessian = coefficients
    slope = gradient + tf.linalg.matvec(hessian, offset) / 2
    return value + tf.reduce_sum(slope * offset, axis=-1)


def _take(data, index):
    return tf.nest.map_structure(lambda x: tf.gather(x, index), data)


def _flat(parts, rank):
    """[*batch, D]."""
    parts = [tf.convert_to_tensor(part) for part in parts]
    return tf.concat(
        [tf.reshape(part, tf.concat([tf.shape(part)[:rank], [-1]], axis=0)) for part in parts],
        axis=-1,
    )


def _uniforms(noise):
    return tf.math.erfc(-noise / math.sqrt(2)) / 2
