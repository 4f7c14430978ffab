"""Dual averaging of the step size (Nesterov 2009; Hoffman & Gelman 2014), as Stan does it."""

import math
from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive.internal.numbers import check_accept_prob
from tfp_adaptive.tuning.records import StepSizeRule
from tfp_adaptive.typing import Tensor


class DualAveragingState(NamedTuple):
    """All scalars."""

    count: Tensor
    """t, steps so far."""
    shrinkage: Tensor
    """mu, the log step size that iterates are drawn to."""
    error: Tensor
    """s, the weighted mean of target - a."""
    log_step_size: Tensor
    """x, the iterate."""
    log_average: Tensor
    """The weighted mean of the iterates."""


def dual_averaging(
    target_accept_prob: float = 0.65,
    *,
    gamma: float = 0.05,
    t0: float = 10.0,
    kappa: float = 0.75,
) -> StepSizeRule:
    """Dual averaging: large early moves, and an average of the iterates to keep.

    At step t with mean acceptance a, and mu = log(10 eps_0):

        s <- (1 - 1 / (t + t0)) s + (target - a) / (t + t0)
        log eps = mu - sqrt(t) s / gamma
        average <- (1 - t^-kappa) average + t^-kappa log eps

    Differs from `tfp.mcmc.DualAveragingStepSizeAdaptation` in that it is a record: it restarts when
    the metric of a window changes, and pools over replicas with all else that a step learns. TFP's
    class works around every kernel of this package.

    Args:
      target_accept_prob: in (0, 1). Default 0.65, for HMC; NUTS likes 0.8.
      gamma: positive; smaller moves faster. Default 0.05.
      t0: not negative; larger steadies the first steps. Default 10.
      kappa: in (0.5, 1]; larger forgets early iterates more slowly. Default 0.75.

    Returns:
      A `StepSizeRule`.

    Raises:
      ValueError: if a value is out of its range.

    Reference: M. Hoffman, A. Gelman. The No-U-Turn Sampler. JMLR 2014. Equation 6, Algorithm 5.

    Example:
      >>> rule = tfpa.tuning.dual_averaging(0.8)
      >>> state = rule.update(rule.init(tf.math.log(0.1)), tf.constant(0.9))
      >>> bool(rule.current(state) > tf.math.log(0.1))
      True
    """
    check_accept_prob(target_accept_prob)
    for name, value, is_good, wanted in (
        ('gamma', gamma, gamma > 0, 'positive'),
        ('t0', t0, t0 >= 0, 'at least 0'),
        ('kappa', kappa, 0.5 < kappa <= 1, 'in (0.5, 1]'),
    ):
        if not is_good:
            raise ValueError(f'`{name}` must be {wanted}; got {value}.')

    def init(log_step_size):
        zero = tf.zeros_like(log_step_size)
        return DualAveragingState(
            count=zero,
            shrinkage=log_step_size + math.log(10.0),
            error=zero,
            log_step_size=log_step_size,
            log_average=log_step_size,
        )

    def update(state, accept_prob):
        count = state.count + 1
        weight = 1 / (count + t0)
        error = (1 - weight) * state.error + weight * (target_accept_prob - accept_prob)
        log_step_size = state.shrinkage - tf.sqrt(count) / gamma * error
        share = count**-kappa
        average = (1 - share) * state.log_average + share * log_step_size
        return DualAveragingState(count, state.shrinkage, error, log_step_size, average)

    return StepSizeRule(
        init=init,
        update=update,
        current=lambda state: state.log_step_size,
        learned=lambda state: state.log_average,
    )
