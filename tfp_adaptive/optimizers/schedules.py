"""Learning-rate schedules: functions of (number of updates so far, progress in [0, 1])."""

import tensorflow as tf


def constant(rate: float):
    """Always `rate`: the paper's choice."""
    return lambda count, progress: tf.fill(tf.shape(count), tf.cast(rate, count.dtype))


def linear_decay(rate: float):
    """Starts at `rate` and falls linearly to 0 at `num_adaptation_steps`.

    The noise that an optimizer leaves in the proposal is proportional to its final rates, so the
    proposal that is frozen is nearly noise-free.
    """
    return lambda count, progress: rate * tf.maximum(1 - progress, 0)


def inverse_sqrt(rate: float, decay: float = 0.01):
    """Falls as rate / sqrt(1 + decay * count); does not need to know when adaptation ends."""
    return lambda count, progress: rate * tf.math.rsqrt(1 + decay * count)
