"""How many steps a draw takes where chains mix slowly."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

MAX_STEPS_PER_DRAW = 64
_LEAST_SHARE = 0.05
_MIN_ESS, _MAX_RHAT = 400.0, 1.01
_RESERVE = 1.5
"""Effective sizes of chains that mix slowly are uncertain, and rather too large."""
_APART = 2.0
"""R-hat above this: chains sit in places of their own, and longer ones would, too."""


def steps_per_draw(figures: tuple[Any, Any, Any], num_draws: int) -> int:
    """A power of two: how many steps a draw must take for R-hat below 1.01 and 400 effective draws.

    NUTS decides as much for every single draw, by the length of its trajectory; this is decided
    once, from draws that took a step each. The effective size, and one over the distance of R-hat
    from one, grow in proportion to the number of steps.

    Args:
      figures: of `diagnose`: effective sizes of q and q^2, and R-hat.
      num_draws: of all chains together.

    Returns:
      1 if the draws are good or more than 5 % of them effective, if there are no figures, or if
      the chains are so far apart that longer ones would be of no use; at most 64.
    """
    ess, ess_of_squares, rhat = ([np.ravel(x) for x in tf.nest.flatten(part)] for part in figures)
    # coordinates that are constant have no figures
    smallest = float(np.nanmin(np.concatenate([*ess, *ess_of_squares, [np.inf]])))
    largest = float(np.nanmax(np.concatenate([*rhat, [-np.inf]])))
    if not (math.isfinite(smallest) and math.isfinite(largest) and largest <= _APART):
        return 1
    is_good = smallest >= _MIN_ESS and largest <= _MAX_RHAT
    if is_good or smallest >= _LEAST_SHARE * num_draws:
        return 1
    needed = _RESERVE * max(_MIN_ESS / smallest, (largest - 1) / (_MAX_RHAT - 1))
    return min(2 ** math.ceil(math.log2(max(needed, 2.0))), MAX_STEPS_PER_DRAW)
