"""RMSProp as Titsias & Dellaportas (2019) published it."""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.typing import Optimizer, Tensor

_MAX_JUMP = 1e4


class RMSPropState(NamedTuple):
    """Moving average of the squared gradient, shaped like it, and the number of updates."""

    square: Any
    count: Tensor


def rmsprop(learning_rate: float, decay: float = 0.9, offset: float = 1.0) -> Optimizer:
    """Step -rate * g / (offset + sqrt(V)), V <- decay V + (1 - decay) g^2, V = g^2 at first.

    V is updated before its use. With the published offset of 1 small gradients are not blown up,
    so the method is not invariant to the scale of the objective: leave the entropy weight and the
    learning rate as published together (1.5e-4 for MALA, 5e-5 for the random walk).

    Slopes above half the root of the largest number, whose squares would overflow, are cut there;
    and after the first step those above 1e4 (offset + sqrt(V)), so that V forgets one that is far
    out of line within two hundred steps.

    Args:
      learning_rate: positive, constant.
      decay: of V, in [0, 1).
      offset: positive number added to the root.

    Returns:
      An `Optimizer`.

    Raises:
      ValueError: if an argument is out of its range.

    Reference: Titsias & Dellaportas (2019), section 3.3, and the authors' settings.

    Example:
      >>> optimizer = tfpa.optimizers.rmsprop(learning_rate=1.5e-4)
    """
    for name, value in (('learning_rate', learning_rate), ('offset', offset)):
        check_number(name, value)
        if not 0 < value < math.inf:
            raise ValueError(f'`{name}` must be positive; got {value}.')
    if not 0 <= decay < 1:
        raise ValueError(f'`decay` must lie in [0, 1); got {decay}.')

    def init(zeros):
        return RMSPropState(zeros, tf.constant(0))

    def update(gradient, state, progress):
        del progress
        is_first = tf.equal(state.count, 0)

        def cut(g, old):
            most = _MAX_JUMP * (offset + tf.sqrt(old))
            return tf.where(is_first, g, tf.clip_by_value(g, -most, most))

        def average(old, g):
            return tf.where(is_first, tf.square(g), decay * old + (1 - decay) * tf.square(g))

        gradient = tf.nest.map_structure(cut, gradient, state.square)
        square = tf.nest.map_structure(average, state.square, gradient)
        step = tf.nest.map_structure(
            lambda g, v: -learning_rate * g / (offset + tf.sqrt(v)), gradient, square
        )
        return step, RMSPropState(square, state.count + 1)

    return Optimizer(init, update, _of_finite_square)


def _of_finite_square(slope, entropy_weight):
    """The slope, where its square is a number; NaN stays NaN, and kernels take no such step."""
    del entropy_weight
    most = float(slope.dtype.max) ** 0.5 / 2
    return tf.where(tf.math.is_nan(slope), slope, tf.clip_by_value(slope, -most, most))
