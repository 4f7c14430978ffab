"""How many steps a draw takes where chains mix slowly."""

import math
from typing import Any

from tfp_adaptive.sampling.figures import MAX_RHAT, MIN_ESS, extremes, longest_stays, moves

MAX_STEPS_PER_DRAW = 256
MAX_DELAYED_STEPS_PER_DRAW = 128
_MAX_RATIO = 8
"""At a time. Chains that have hardly mixed do not tell how much is missing, and too many steps
would cost more than all before; on the way to 256 the smaller rounds are an eighth more."""
_LEAST_SHARE = 0.05
_RESERVE = 1.5
"""Effective sizes of chains that mix slowly are uncertain, and rather too large."""
APART = 10.0
"""An R-hat of chains in places of their own. In a horseshoe it begins at 5.3 and comes down."""
_NEAR = 10.0
"""Missing at most, of chains that meet: an R-hat below 1.1 and 40 effective draws. These go on,
however little the steps before have helped: the first draws of a long tail hardly know it."""
_STUCK = 50
"""Draws in a row. With moves of the learned acceptance, 0.67, it is a chance of 1e-24; 17 is the
longest stay on regressions, and 230 to 2,000 that in funnels."""


def are_stuck(states: Any, batch_rank: int) -> bool:
    """Whether a chain stayed at one point for so long that one step does not suit all places.

    Args:
      states: draws, structure of [num_results, *batch, *event].
      batch_rank: number of chain dimensions.
    """
    return bool(longest_stays(moves(states, batch_rank)).max() >= _STUCK)


def shortfall(
    figures: tuple[Any, Any, Any], num_draws: int, num_chains: int, max_rhat: float = APART
) -> float:
    """How many times longer chains must run for R-hat below 1.01 and 400 effective draws.

    The effective size, and one over the distance of R-hat from one, grow in proportion to the
    number of steps.

    Args:
      figures: of `diagnose`: effective sizes of q and q^2, and R-hat.
      num_draws: of all chains together.
      num_chains: C.
      max_rhat: above it the chains sit in places of their own, and longer ones would, too.

    Returns:
      A number above 1; or 1 if the draws are good, if more than 5 % of them are effective and R-hat
      is no larger than so many chains have by chance, if there are no figures, or if the chains are
      so far apart that longer ones would be of no use.
    """
    smallest, largest = extremes(figures)
    if not (math.isfinite(smallest) and math.isfinite(largest) and largest <= max_rhat):
        return 1.0
    # of 2 C halves of chains that mix, R-hat is 1 + C / ESS in the mean
    by_chance = max(MAX_RHAT, 1 + 2 * num_chains / smallest)
    if smallest >= _LEAST_SHARE * num_draws and largest <= by_chance:
        return 1.0
    return max(MIN_ESS / smallest, (largest - 1) / (MAX_RHAT - 1), 1.0)


def steps_per_draw(
    num_steps: int, missing: float, before: float = math.inf, most: int = MAX_STEPS_PER_DRAW
) -> int:
    """How many steps a draw is to take, so that as many draws as now are enough.

    NUTS decides as much for every single draw, by the length of its trajectory; this is decided
    from all draws so far.

    Args:
      num_steps: that each of these draws took.
      missing: their `shortfall`.
      before: that of the draws with fewer steps, if there were any.
      most: steps of a draw.

    Returns:
      `num_steps` if nothing is missing, or much, and no less than half of what was missing before,
      as where chains sit in different modes; else more, a power of two, at most eight times as
      many.
    """
    if missing <= 1 or missing > max(before / 2, _NEAR):
        return num_steps
    ratio = min(2 ** math.ceil(math.log2(max(_RESERVE * missing, 2.0))), _MAX_RATIO)
    return max(min(num_steps * ratio, most), num_steps)
