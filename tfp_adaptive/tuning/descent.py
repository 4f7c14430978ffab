"""Descent of -log pi by limited-memory BFGS, one gradient a step, every chain by itself.

A step either tries another length along the direction (a line search by the weak Wolfe conditions,
with bisection), or takes the trial and turns to a new direction.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains, lbfgs
from tfp_adaptive.typing import Tensor

_DECREASE, _SLOPE_LEFT = 1e-4, 0.9
"""A step is taken if it descends by this share of what its slope promises, and leaves at most that
share of the slope (the weak Wolfe conditions)."""
_GROWTH = 4.0
_MAX_TRIALS = 30


class Descent(NamedTuple):
    """A descent of U under way, every field [C, ...]."""

    position: Tensor
    potential: Tensor
    gradient: Tensor
    """Of U, [C, D]."""
    memory: lbfgs.Memory
    direction: Tensor
    slope: Tensor
    """Derivative of U along the direction; negative."""
    length: Tensor
    """The step along the direction that is tried next."""
    too_short: Tensor
    """The longest step known to leave too much of the slope; 0 before there is one."""
    too_long: Tensor
    """The shortest step known not to descend enough; infinite before there is one."""
    num_trials: Tensor


def begin(position: Tensor, zero: Tensor, num_pairs: int) -> Descent:
    """A step of length zero, which takes the first gradient.

    Args:
      position: [C, D].
      zero: [C] zeros.
      num_pairs: m, how many steps the memory holds.
    """
    still = tf.zeros_like(position)
    return Descent(
        position=position,
        potential=zero + np.inf,
        gradient=still,
        memory=lbfgs.empty(position, zero, num_pairs),
        direction=still,
        slope=zero,
        length=zero,
        too_short=zero,
        too_long=zero + np.inf,
        num_trials=tf.zeros_like(zero, tf.int32),
    )


def advance(
    now: Descent, trial: Tensor, potential: Tensor, gradient: Tensor, noise: Tensor
) -> tuple[Descent, Tensor, Tensor]:
    """One step: what the trial makes of a descent.

    Args:
      now: the descent.
      trial: [C, D], the position at the length that was to be tried.
      potential: U there [C].
      gradient: of U there [C, D].
      noise: how far U may rise by rounding alone [C].

    Returns:
      The descent, whether the trial was taken [C], and whether no step descends any more, not even
      along the gradient [C].
    """
    is_last = now.num_trials >= _MAX_TRIALS
    is_long = ~(potential <= now.potential + _DECREASE * now.length * now.slope + noise)
    is_short = chains.sum_of_row(gradient * now.direction) < _SLOPE_LEFT * now.slope
    is_short &= ~is_long & ~is_last
    is_taken = ~is_long & ~is_short
    after = lbfgs.select(
        is_taken,
        _turn(now, trial, potential, gradient, is_taken),
        _search(now, is_long, is_short),
    )
    # where not even a short step descends, once more along the gradient, and then no more
    fails = is_long & is_last
    has_no_memory = tf.reduce_all(now.memory.curvature <= 0, axis=-1)
    return lbfgs.select(fails, _steepest(now), after), is_taken, fails & has_no_memory


def _turn(now, position, potential, gradient, is_taken):
    """At a new iterate: a pair more, and the direction that it gives."""
    memory = lbfgs.push(now.memory, is_taken, position - now.position, gradient - now.gradient)
    # without a pair the step to try is of length 1 in unconstrained coordinates; where squares of
    # gradients overflow there is none for long
    length = chains.norm(gradient)
    unit = tf.math.reciprocal(tf.where(length > 0, length, tf.ones_like(length)))
    has_pair = tf.reduce_any(memory.curvature > 0, axis=-1)
    memory = memory._replace(scale=tf.where(has_pair, memory.scale, unit))
    direction = -lbfgs.product(memory, gradient)
    one = tf.ones_like(potential)
    return now._replace(
        position=position,
        potential=potential,
        gradient=gradient,
        memory=memory,
        direction=direction,
        slope=chains.sum_of_row(gradient * direction),
        length=one,
        too_short=tf.zeros_like(one),
        too_long=one * np.inf,
        num_trials=tf.zeros_like(now.num_trials),
    )


def _search(now, is_long, is_short):
    """The next length to try: longer, between the two bounds, or much shorter."""
    too_long = tf.where(is_long, now.length, now.too_long)
    too_short = tf.where(is_short, now.length, now.too_short)
    between = (too_short + too_long) / 2
    length = tf.where(tf.math.is_inf(too_long), _GROWTH * too_short, between)
    length = tf.where(too_short > 0, length, too_long / _GROWTH)
    return now._replace(
        length=length, too_short=too_short, too_long=too_long, num_trials=now.num_trials + 1
    )


def _steepest(now):
    """The same place with an empty memory, as at the start."""
    length = chains.norm(now.gradient)
    memory = lbfgs.empty(
        now.position, tf.math.divide_no_nan(now.length, length), now.memory.curvature.shape[-1]
    )
    direction = -memory.scale[:, tf.newaxis] * now.gradient
    one = tf.ones_like(length)
    return now._replace(
        memory=memory,
        direction=direction,
        slope=chains.sum_of_row(now.gradient * direction),
        length=one,
        too_short=tf.zeros_like(one),
        too_long=one * np.inf,
        num_trials=tf.zeros_like(now.num_trials),
    )
