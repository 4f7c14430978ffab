"""When the metric is renewed: Stan's windows, or never."""

import numpy as np

from tfp_adaptive.internal import arguments
from tfp_adaptive.tuning.records import Plan, Schedule

_SHORTEST = 20
"""Below this Stan leaves the metric alone."""


def windows(initial: int = 75, first: int = 25, final: int = 50) -> Schedule:
    """Stan's windows: the step size is tuned at every step, the metric at the end of each window.

    The first `initial` steps find the typical set; then come windows of `first`, 2 `first`,
    4 `first`, ... draws, of which the last is as long as fits; the `final` steps tune the step size
    of the last metric. A warm-up too short for all three is split 15 % : 75 % : 10 %, and one of
    fewer than 20 steps leaves the metric alone.

    Args:
      initial: steps before the first window. Default 75.
      first: draws of the first window, positive. Default 25.
      final: steps after the last window. Default 50.

    Returns:
      A `Schedule`.

    Raises:
      ValueError: if a length is no int, or out of its range.

    Reference: Stan reference manual, section "HMC algorithm parameters", automatic parameter
    tuning.

    Example:
      >>> plan = tfpa.tuning.windows().plan(1000)
      >>> np.flatnonzero(plan.ends_window)
      array([ 99, 149, 249, 449, 949])
    """
    initial = arguments.count('initial', initial, 0)
    first = arguments.count('first', first, 1)
    final = arguments.count('final', final, 0)

    def plan(num_steps):
        collects, ends = np.zeros([2, num_steps], bool)
        if num_steps < _SHORTEST:
            return Plan(collects, ends)
        before, size, after = initial, first, final
        if before + size + after > num_steps:
            before, after = int(0.15 * num_steps), int(0.1 * num_steps)
            size = num_steps - before - after
        stop = num_steps - after
        collects[before:stop] = True
        end = before + size
        while end < stop:
            ends[end - 1] = True
            size *= 2
            # a window that the next one would not fit behind takes what is left
            end = stop if end + 3 * size > stop else end + size
        ends[stop - 1] = True
        return Plan(collects, ends)

    return Schedule(plan)


def no_windows() -> Schedule:
    """The metric stays the identity; every step tunes the step size alone.

    For targets that are whitened already, such as those behind a learned bijector.

    Returns:
      A `Schedule`.

    Example:
      >>> kernel = tfpa.WindowedHMC(
      ...     target_log_prob_fn, 3, num_adaptation_steps=200, schedule=tfpa.tuning.no_windows())
    """
    return Schedule(lambda num_steps: Plan(*np.zeros([2, num_steps], bool)))
