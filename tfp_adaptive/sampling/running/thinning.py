"""How many steps a draw takes where chains mix slowly."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

MAX_STEPS_PER_DRAW = 256
_MAX_RATIO = 64
_LEAST_SHARE = 0.05
_MIN_ESS, _MAX_RHAT = 400.0, 1.01
_RESERVE = 1.5
"""Effective sizes of chains that mix slowly are uncertain, and rather too large."""
_APART = 2.0
"""R-hat above this: chains sit in places of their own, and longer ones would, too."""


def shortfall(figures: tuple[Any, Any, Any], num_draws: int) -> float:
    """How many times longer chains must run for R-hat below 1.01 and 400 effective draws.

    The effective size, and one over the distance of R-hat from one, grow in proportion to the
    number of steps.

    Args:
      figures: of `diagnose`: effective sizes of q and q^2, and R-hat.
      num_draws: of all chains together.

    Returns:
      A number above 1; or 1 if the draws are good or more than 5 % of them effective, if there are
      no figures, or if the chains are so far apart that longer ones would be of no use.
    """
    ess, ess_of_squares, rhat = ([np.ravel(x) for x in tf.nest.flatten(part)] for part in figures)
    # coordinates that are constant have no figures
    smallest = float(np.nanmin(np.concatenate([*ess, *ess_of_squares, [np.inf]])))
    largest = float(np.nanmax(np.concatenate([*rhat, [-np.inf]])))
    if not (math.isfinite(smallest) and math.isfinite(largest) and largest <= _APART):
        return 1.0
    if smallest >= _LEAST_SHARE * num_draws:
        return 1.0
    return max(_MIN_ESS / smallest, (largest - 1) / (_MAX_RHAT - 1), 1.0)


def steps_per_draw(num_steps: int, missing: float, before: float = math.inf) -> int:
    """How many steps a draw is to take, so that as many draws as now are enough.

    NUTS decides as much for every single draw, by the length of its trajectory; this is decided
    from all draws so far.

    Args:
      num_steps: that each of these draws took.
      missing: their `shortfall`.
      before: that of the draws with fewer steps, if there were any.

    Returns:
      `num_steps` if nothing is missing, or no less than half of what was missing before, as where
      chains sit in different modes; else more, a power of two, at most 64 times as many, and at
      most 256.
    """
    if missing <= 1 or missing > before / 2:
        return num_steps
    ratio = min(2 ** math.ceil(math.log2(max(_RESERVE * missing, 2.0))), _MAX_RATIO)
    return max(min(num_steps * ratio, MAX_STEPS_PER_DRAW), num_steps)
