"""Likelihoods of many independent rows, from a few of them.

Notation (N rows, n of them drawn, D parameters, r = N / n):
    l_i(theta)   log-likelihood of row i
    q_i(theta)   its Taylor polynomial of second order about a reference theta*
    d_i          l_i - q_i, the control variate taken away
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfp_adaptive.estimators.records import Estimator
from tfp_adaptive.internal import arguments, packing

_MODES = ('difference', 'as_published')


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

    with one row i_j from each of n strata of r rows. The sum is unbiased for the log-likelihood, by
    the difference estimator; V / 2 corrects the exponential of its noise. What is left of the bias
    is that of an estimated V and of noise that is not Gaussian: the chain has the posterior of a
    likelihood with a relative error of O(n^-1) times powers of r sqrt(n) d, which is small where
    the log-estimate has little noise: `kernel.log_estimate_variance(state, seed)` well below 1.
    With n = N it is exact.

    'as_published' is the plain sum over n rows: neither scaled to N rows nor corrected, and since
    the noise is sorted first nearly the same rows are drawn again and again. Its chain has the
    posterior of about n rows, wider by sqrt(r), as its law.

    Cost: the n rows that are drawn at theta, and at theta* with two derivatives along theta -
    theta*. Memory: D^2 numbers, and n D of each chain while it is estimated.

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
        reference, or a single row of several.

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
    if num_rows == 1 < total:
        raise ValueError(
            "`num_rows` must be at least 2 for mode 'difference', whose correction needs the "
            'variance over rows; got 1.'
        )
    if reference is None:
        raise ValueError(
            "`reference` must be a point near the mode of the posterior for mode 'difference'; "
            'got None.'
        )
    order = tf.random.experimental.stateless_shuffle(tf.range(total), seed=[0, seed])
    data = tf.nest.map_structure(lambda x: tf.gather(x, order), data)
    centre = packing.to_parts(reference)
    polynomial = _polynomial_of_all_rows(log_prob_fn, data, centre)
    estimate = functools.partial(_difference, log_prob_fn, data, centre, polynomial, num_rows)
    return Estimator(num_rows, estimate, num_rows)


def _difference(log_prob_fn, data, centre, polynomial, num_rows, noise, *parts):
    ratio = tf.nest.flatten(data)[0].shape[0] // num_rows
    stratum = tf.cast(tf.floor(ratio * _uniforms(noise)), tf.int32)
    index = ratio * tf.range(num_rows) + tf.minimum(stratum, ratio - 1)
    rows = _take(data, index)
    offsets = [part - own for part, own in zip(parts, centre, strict=True)]
    control = _polynomials(log_prob_fn, rows, index, centre, offsets)
    differences = log_prob_fn(rows, *parts) - control
    offset = _flat(offsets, noise.shape.rank - 1)
    value = polynomial(offset) + ratio * tf.reduce_sum(differences, axis=-1)
    if ratio == 1:
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


def _polynomials(log_prob_fn, rows, index, centre, offsets):
    """q_i of the rows of `index`, [*batch, n], by derivatives along the offset.

    Every row is a batch entry with a place of its own on the line from the reference, so that one
    gradient has the derivatives of all rows.
    """
    axis = index.shape.rank
    rows = tf.nest.map_structure(lambda x: tf.expand_dims(x, axis), rows)
    place = tf.zeros(tf.shape(index), centre[0].dtype)
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(place)
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(place)
            line = [
                own
                + place[(..., *[tf.newaxis] * own.shape.rank)] * tf.expand_dims(offset, axis - 1)
                for own, offset in zip(centre, offsets, strict=True)
            ]
            value = log_prob_fn(rows, *line)[..., 0]
        slope = inner.gradient(value, place, unconnected_gradients='zero')
    return value + slope + outer.gradient(slope, place, unconnected_gradients='zero') / 2


def _polynomial_of_all_rows(log_prob_fn, data, centre):
    """The sum of the polynomials of all rows: a function of the offset, [*batch, D] -> [*batch]."""
    shapes = [part.shape for part in centre]
    sizes = [shape.num_elements() for shape in shapes]
    flat = _flat(centre, 0)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as outer:
        outer.watch(flat)
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(flat)
            parts = [
                tf.reshape(part, shape)
                for part, shape in zip(tf.split(flat, sizes), shapes, strict=True)
            ]
            value = tf.reduce_sum(log_prob_fn(data, *parts))
        gradient = inner.gradient(value, flat)
        slopes = tf.unstack(gradient)
    zero = tf.UnconnectedGradients.ZERO
    hessian = tf.stack([outer.gradient(x, flat, unconnected_gradients=zero) for x in slopes])

    def polynomial(offset):
        slope = gradient + tf.linalg.matvec(hessian, offset) / 2
        return value + tf.reduce_sum(slope * offset, axis=-1)

    return polynomial


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
