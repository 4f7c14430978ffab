"""The initial step size by doubling and halving until acceptance crosses a half."""

import math
from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import arguments
from tfp_adaptive.tuning.records import StepSizeRule
from tfp_adaptive.typing import Tensor


class SearchState(NamedTuple):
    """The search, and the rule that follows it."""

    direction: Tensor
    """1 for doubling, -1 for halving, 0 before the first step; a scalar."""
    num_left: Tensor
    """Most steps the search may still take; 0 once it is over. A scalar."""
    rule: object
    """State of the rule that follows, which while searching starts anew at each step size."""


def initial_step_search(rule: StepSizeRule, *, max_doublings: int = 50) -> StepSizeRule:
    """Doubles or halves the step size until acceptance crosses a half; then `rule` goes on.

    Hoffman & Gelman try their doublings on one leapfrog step from where the chain stands. Here each
    try is a step of the chains themselves, of the length they will have, and the mean over chains
    decides: the search takes no gradient of its own and pools like every other rule.

    Args:
      rule: what follows, such as `dual_averaging()`.
      max_doublings: where no step size is too large, as on a flat target, the search ends there.
        Default 50.

    Returns:
      A `StepSizeRule`.

    Raises:
      TypeError: if `rule` is no `StepSizeRule`.
      ValueError: if `max_doublings` is not an int of at least 1.

    Reference: M. Hoffman, A. Gelman. The No-U-Turn Sampler. JMLR 2014. Algorithm 4.

    Example:
      >>> rule = tfpa.tuning.initial_step_search(tfpa.tuning.dual_averaging())
      >>> state = rule.update(rule.init(tf.math.log(1.0)), tf.constant(0.01))
      >>> float(tf.exp(rule.current(state)))
      0.5
    """
    if not isinstance(rule, StepSizeRule):
        raise TypeError(f'`rule` must be a StepSizeRule such as dual_averaging(); got {rule!r}.')
    max_doublings = arguments.count('max_doublings', max_doublings, 1)

    def init(log_step_size):
        zero = tf.zeros_like(log_step_size)
        return SearchState(zero, zero + max_doublings, rule.init(log_step_size))

    def update(state, accept_prob):
        is_searching = state.num_left > 0
        wanted = tf.where(accept_prob > 0.5, tf.ones_like(accept_prob), -tf.ones_like(accept_prob))
        goes_on = is_searching & ((state.direction == 0) | (state.direction == wanted))
        log_step_size = rule.current(state.rule)
        tried = rule.init(log_step_size + math.log(2.0) * wanted)
        # where acceptance crosses, the rule is new at this very step size and learns from its step
        followed = rule.update(state.rule, accept_prob)
        inner = tf.nest.map_structure(lambda a, b: tf.where(goes_on, a, b), tried, followed)
        num_left = tf.where(goes_on, state.num_left - 1, tf.zeros_like(state.num_left))
        return SearchState(tf.where(is_searching, wanted, state.direction), num_left, inner)

    def learned(state):
        # a doubling that no step has tried yet is not kept
        is_untried = (state.num_left > 0) & (state.direction > 0)
        tried = rule.current(state.rule) - math.log(2.0)
        return tf.where(is_untried, tried, rule.learned(state.rule))

    return StepSizeRule(
        init=init,
        update=update,
        current=lambda state: rule.current(state.rule),
        learned=learned,
    )
