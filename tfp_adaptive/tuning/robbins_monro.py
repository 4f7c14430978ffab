"""The step size by stochastic approximation (Robbins & Monro 1951; Andrieu & Thoms 2008)."""

from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive.internal.numbers import check_accept_prob
from tfp_adaptive.tuning.records import StepSizeRule
from tfp_adaptive.typing import Tensor


class RobbinsMonroState(NamedTuple):
    """Both scalars."""

    count: Tensor
    """t, steps so far."""
    log_step_size: Tensor


def robbins_monro(
    target_accept_prob: float = 0.65, *, rate: float = 1.0, decay: float = 0.6
) -> StepSizeRule:
    """Robbins-Monro: log eps <- log eps + rate t^-decay (a - target).

    Args:
      target_accept_prob: in (0, 1). Default 0.65.
      rate: positive gain of the first step. Default 1.
      decay: in (0.5, 1], so that the gains have an infinite sum and a finite sum of squares.
        Default 0.6.

    Returns:
      A `StepSizeRule` that keeps its last iterate.

    Raises:
      ValueError: if a value is out of its range.

    Reference: C. Andrieu, J. Thoms. A tutorial on adaptive MCMC. Statistics and Computing 2008.
    Algorithm 4.

    Example:
      >>> rule = tfpa.tuning.robbins_monro(rate=2.0)
      >>> state = rule.update(rule.init(tf.constant(0.0)), tf.constant(0.15))
      >>> round(float(rule.current(state)), 3)
      -1.0
    """
    check_accept_prob(target_accept_prob)
    if not rate > 0:
        raise ValueError(f'`rate` must be positive; got {rate}.')
    if not 0.5 < decay <= 1:
        raise ValueError(f'`decay` must lie in (0.5, 1]; got {decay}.')

    def update(state, accept_prob):
        count = state.count + 1
        change = rate * count**-decay * (accept_prob - target_accept_prob)
        return RobbinsMonroState(count, state.log_step_size + change)

    return StepSizeRule(
        init=lambda log_step_size: RobbinsMonroState(tf.zeros_like(log_step_size), log_step_size),
        update=update,
        current=lambda state: state.log_step_size,
        learned=lambda state: state.log_step_size,
    )
