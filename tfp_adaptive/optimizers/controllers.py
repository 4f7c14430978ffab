"""Feedback controllers of the two scalar weights in the objective."""

import math

import tensorflow as tf

from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.typing import Controller


def acceptance_controller(
    target_accept_prob: float = 0.67,
    rate: float = 0.1,
    initial: float = 1.0,
    bounds: tuple[float, float] = (1e-2, 1e2),
    signal: str = 'probability',
) -> Controller:
    """Entropy weight: beta <- clip(beta (1 + rate (mean acceptance - target)), bounds).

    Args:
      target_accept_prob: alpha* in (0, 1). The weight rises, and with it the moves get bolder,
        while chains accept more often than this.
      rate: relative gain per step and unit of acceptance, not negative.
      initial: weight at the start, within `bounds`.
      bounds: (lower, upper), both positive; `math.inf` for no ceiling.
      signal: 'probability' (default) feeds back min(1, exp(-Delta)), 'indicator' the accept/reject
        outcome, which has the same mean and more noise (Titsias & Dellaportas 2019).

    Returns:
      A `Controller` fed with the mean of the signal over chains.

    Raises:
      TypeError: if a value is no number, or `bounds` no pair.
      ValueError: if a value is out of its range.

    Reference: Hirt, Titsias & Dellaportas (2021), Algorithm 1.

    Example:
      >>> controller = tfpa.optimizers.acceptance_controller(target_accept_prob=0.8)
    """
    check_number('target_accept_prob', target_accept_prob)
    if not 0 < target_accept_prob < 1:
        raise ValueError(
            f'`target_accept_prob` must lie strictly between 0 and 1; got {target_accept_prob}.'
        )
    _check(rate, initial, bounds)
    signals = {'probability': _probability, 'indicator': _indicator}
    if signal not in signals:
        raise ValueError(f'`signal` must be one of {sorted(signals)}; got {signal!r}.')

    def update(weight, accept_prob):
        # a ceiling that is no number would make the weight of an entry without slope NaN
        lower, upper = (tf.constant(min(bound, weight.dtype.max), weight.dtype) for bound in bounds)
        moved = weight * (1 + rate * (accept_prob - target_accept_prob))
        return tf.clip_by_value(moved, lower, upper)

    return Controller(initial, update, signals[signal])


def penalty_controller(
    rate: float = 0.1, initial: float = 1e3, bounds: tuple[float, float] = (1e3, 1e5)
) -> Controller:
    """Penalty weight: gamma <- clip(gamma + rate * mean penalty, bounds), a dual ascent.

    The paper starts at 1e4, ten times as high: where the curvature varies and the spectral radius
    crosses the threshold again and again, that outweighs what is learned in between.

    Args:
      rate: gain, not negative.
      initial: weight at the start, within `bounds`.
      bounds: (lower, upper), both positive.

    Returns:
      A `Controller` fed with the mean spectral penalty.

    Raises:
      TypeError: if a value is no number, or `bounds` no pair.
      ValueError: if a value is out of its range.

    Reference: Hirt, Titsias & Dellaportas (2021), Algorithm 1.

    Example:
      >>> controller = tfpa.optimizers.penalty_controller(initial=1e4)
    """
    _check(rate, initial, bounds)

    def update(weight, penalty):
        return tf.clip_by_value(weight + rate * penalty, *bounds)

    return Controller(initial, update)


def fixed_weight(weight: float) -> Controller:
    """A weight that stays where it is; 0 switches its term off.

    Args:
      weight: not negative.

    Returns:
      A `Controller` that ignores what it is fed.

    Raises:
      ValueError: if `weight` is negative.

    Example:
      >>> controller = tfpa.optimizers.fixed_weight(1.0)
    """
    if not 0 <= weight < math.inf:
        raise ValueError(f'`weight` must not be negative; got {weight}.')
    return Controller(weight, lambda current, signal: current, _probability)


def _probability(transition):
    return tf.exp(tf.minimum(transition.log_accept_ratio, 0))


def _indicator(transition):
    return tf.cast(transition.is_accepted, transition.log_accept_ratio.dtype)


def _check(rate, initial, bounds):
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise TypeError(f'`bounds` must be a pair (lower, upper); got {bounds!r:.60}.')
    lower, upper = bounds
    for name, value in (('rate', rate), ('initial', initial), ('bounds', lower), ('bounds', upper)):
        check_number(name, value)
    if not 0 <= rate < math.inf:
        raise ValueError(f'`rate` must not be negative; got {rate}.')
    if not 0 < lower <= initial <= upper:
        raise ValueError(
            f'`initial` must lie within positive `bounds`; got {initial} and {bounds}.'
        )
