"""Learning-rate schedules: functions of (number of updates so far, progress in [0, 1])."""

import math
from collections.abc import Callable

import tensorflow as tf


def constant(rate: float) -> Callable:
    """Always `rate`: the paper's choice.

    Args:
      rate: positive.

    Returns:
      A schedule (count, progress) -> rate, scalars.

    Raises:
      ValueError: if `rate` is not positive.

    Example:
      >>> optimizer = tfpa.optimizers.adam(tfpa.optimizers.constant(1e-3))
    """
    _check(rate)
    return lambda count, progress: tf.constant(rate, count.dtype)


def linear_decay(rate: float) -> Callable:
    """Starts at `rate` and falls linearly to 0 at `num_adaptation_steps`.

    The noise that an optimizer leaves in the proposal is proportional to its final rates, so the
    proposal that is frozen is nearly noise-free.

    Args:
      rate: positive.

    Returns:
      A schedule (count, progress) -> rate, scalars.

    Raises:
      ValueError: if `rate` is not positive.

    Example:
      >>> optimizer = tfpa.optimizers.adam(tfpa.optimizers.linear_decay(0.05))
    """
    _check(rate)
    return lambda count, progress: rate * tf.maximum(1 - progress, 0)


def inverse_sqrt(rate: float, decay: float = 0.01) -> Callable:
    """Falls as rate / sqrt(1 + decay * count); does not need to know when adaptation ends.

    Args:
      rate: positive.
      decay: positive, per update.

    Returns:
      A schedule (count, progress) -> rate, scalars.

    Raises:
      ValueError: if `rate` or `decay` is not positive.

    Example:
      >>> optimizer = tfpa.optimizers.adam(tfpa.optimizers.inverse_sqrt(0.03, decay=0.01))
    """
    _check(rate)
    _check(decay, 'decay')
    return lambda count, progress: rate * tf.math.rsqrt(1 + decay * count)


def _check(value, name='rate'):
    if not 0 < value < math.inf:
        raise ValueError(f'`{name}` must be positive; got {value}.')
