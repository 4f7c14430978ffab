"""Adam as a pure state machine over any nest of tensors."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.optimizers import schedules
from tfp_adaptive.typing import Optimizer, Tensor


class AdamState(NamedTuple):
    """Moments of the gradient, shaped like it, and the number of updates."""

    mean: Any
    square: Any
    count: Tensor


def adam(
    learning_rate: float | Callable | None = None,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-8,
) -> Optimizer:
    """Adam (Kingma & Ba 2015, Algorithm 1 with the bias correction folded into the rate).

    It is fed with slopes divided by max(1, beta) and clipped to [-2, 2], entry by entry.

    Args:
      learning_rate: positive number, or a schedule (count, progress) -> rate. In relative
        coordinates 0.03 means that a step changes the proposal by about 3 %. Default `None`:
        `linear_decay(0.03)`, which falls to 0 at the end of adaptation.
      beta_1: decay of the first moment, in [0, 1).
      beta_2: decay of the second moment, in [0, 1).
      epsilon: added to the root of the uncorrected second moment.

    Returns:
      An `Optimizer`.

    Raises:
      ValueError: for a decay outside [0, 1) or a rate or epsilon that is not positive.

    Example:
      >>> optimizer = tfpa.optimizers.adam(learning_rate=0.01)
    """
    for name, value in (('beta_1', beta_1), ('beta_2', beta_2)):
        if not 0 <= value < 1:
            raise ValueError(f'`{name}` must lie in [0, 1); got {value}.')
    if not 0 < epsilon < math.inf:
        raise ValueError(f'`epsilon` must be positive; got {epsilon}.')
    schedule = _as_schedule(learning_rate)

    def init(zeros):
        return AdamState(zeros, zeros, tf.constant(0))

    def update(gradient, state, progress):
        count = tf.cast(state.count, progress.dtype)
        correction = tf.sqrt(1 - beta_2 ** (count + 1))
        rate = schedule(count, progress) * correction / (1 - beta_1 ** (count + 1))

        def average(decay, old, new):
            return tf.nest.map_structure(lambda a, b: decay * a + (1 - decay) * b, old, new)

        mean = average(beta_1, state.mean, gradient)
        square = average(beta_2, state.square, tf.nest.map_structure(tf.square, gradient))
        step = tf.nest.map_structure(lambda m, v: -rate * m / (tf.sqrt(v) + epsilon), mean, square)
        return step, AdamState(mean, square, state.count + 1)

    return Optimizer(init, update, _bounded)


_MAX_SLOPE = 2.0


def _bounded(slope, entropy_weight):
    """Divides by max(1, beta), so that the moments see one scale at any beta, and clips.

    Adam does not mind the division; the clip keeps a single large slope, of a divergent trajectory
    or of a crossing of the spectral threshold, from filling the second moment, and so from freezing
    the entry, for a thousand steps.
    """
    return tf.clip_by_value(slope * (1 / tf.maximum(entropy_weight, 1)), -_MAX_SLOPE, _MAX_SLOPE)


def _as_schedule(learning_rate) -> Callable:
    if learning_rate is None:
        return schedules.linear_decay(0.03)
    if callable(learning_rate):
        return learning_rate
    check_number('learning_rate', learning_rate)
    if not 0 < learning_rate < math.inf:
        raise ValueError(f'`learning_rate` must be positive; got {learning_rate}.')
    return schedules.constant(learning_rate)
