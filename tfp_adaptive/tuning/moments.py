"""Running means and squares of draws, as sums that chains and replicas may pool (Welford 1962).

Sums are of deviations from the running mean, which all replicas share: nothing cancels where the
mean is far from zero, and pooling needs no pass of its own. Before the first row `moved` takes the
mean to where the chains are.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import Tensor


class Moments(NamedTuple):
    """Of the rows so far."""

    count: Tensor
    """Scalar n."""
    mean: Tensor
    """[D]; without a row, whatever deviations are to be taken from."""
    squares: Tensor
    """Sum of squared deviations from the mean, [D], or of their products, [D, D]."""


class Sums(NamedTuple):
    """Of new rows, about the mean of the old ones."""

    count: Tensor
    first: Tensor
    """[D]."""
    second: Tensor
    """[D] or [D, D]."""


def empty(event_size: int, dtype: Any, *, is_dense: bool) -> Moments:
    """No row yet."""
    shape = [event_size, event_size] if is_dense else [event_size]
    return Moments(tf.zeros([], dtype), tf.zeros([event_size], dtype), tf.zeros(shape, dtype))


def collect(moments: Moments, x: Tensor, is_used: Tensor) -> Sums:
    """Sums of the rows x [C, D] where is_used [C] holds."""
    deviation = chains.keep(is_used, x - moments.mean)
    is_dense = moments.squares.shape.rank == 2
    return Sums(
        count=tf.reduce_sum(tf.cast(is_used, x.dtype)),
        first=tf.reduce_sum(deviation, axis=0),
        second=tf.matmul(deviation, deviation, transpose_a=True)
        if is_dense
        else tf.reduce_sum(tf.square(deviation), axis=0),
    )


def absorb(moments: Moments, sums: Sums) -> Moments:
    """The moments of the old and the new rows."""
    count = moments.count + sums.count
    shift = sums.first / tf.maximum(count, 1)
    correction = sums.first[:, tf.newaxis] if moments.squares.shape.rank == 2 else sums.first
    squares = moments.squares + sums.second - correction * shift
    return Moments(count, moments.mean + shift, squares)


def moved(state: Any, absorbed: Any) -> Any:
    """The state of an estimator without new rows, about the means that it would have with them.

    Moments that hold rows stay as they are.

    Args:
      state: a tuple that holds `Moments`, or one of them.
      absorbed: the same with the rows.
    """
    if isinstance(state, Moments):
        return state._replace(mean=tf.where(state.count > 0, state.mean, absorbed.mean))
    if not isinstance(state, tuple):
        return state
    leaves = [moved(*pair) for pair in zip(state, absorbed, strict=True)]
    return type(state)(*leaves) if hasattr(state, '_fields') else tuple(leaves)


def restart(moments: Moments) -> Moments:
    """Without a row, about the same mean."""
    return Moments(tf.zeros_like(moments.count), moments.mean, tf.zeros_like(moments.squares))


def conditioned(moments: Moments) -> Tensor:
    """The unbiased covariance, with 5e-3 / (n + 5) of its own diagonal added: the same in any unit.

    Returns:
      [D, D]; before the second row, and where an entry is not finite or a variance is not positive,
      the identity.
    """
    count = moments.count
    estimate = moments.squares / tf.maximum(count - 1, 1)
    variances = tf.linalg.diag_part(estimate)
    estimate = tf.linalg.set_diag(estimate, variances * (1 + 5e-3 / (count + 5)))
    is_usable = (count > 1) & tf.reduce_all(tf.math.is_finite(estimate))
    is_usable &= tf.reduce_all(variances > 0)
    return tf.where(is_usable, estimate, tf.linalg.diag(tf.ones_like(variances)))


def shrunk(moments: Moments) -> Tensor:
    """Stan's estimate: n / (n + 5) of the unbiased one and 5 / (n + 5) of 1e-3 times identity.

    Returns:
      [D] or [D, D]; before the second row, and where an entry is not finite or a variance is not
      positive, the identity.
    """
    count, squares = moments.count, moments.squares
    estimate = squares / tf.maximum(count - 1, 1)
    one = tf.ones_like(moments.mean)
    identity = tf.linalg.diag(one) if squares.shape.rank == 2 else one
    shrunk = (count * estimate + 5e-3 * identity) / (count + 5)
    variances = tf.linalg.diag_part(shrunk) if squares.shape.rank == 2 else shrunk
    is_usable = (count > 1) & tf.reduce_all(tf.math.is_finite(shrunk))
    is_usable &= tf.reduce_all(variances > 0)
    return tf.where(is_usable, shrunk, identity)
