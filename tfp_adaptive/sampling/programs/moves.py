"""What moves the default kernel takes once it has learned: with one leapfrog step, or with more.

The slowest direction turns by an angle in a move, in proportion to its leapfrog steps. While that
angle is small the effective draws grow with the square of it, and those per gradient with the
number of steps; where it comes to about one, further steps are lost. Effective draws per gradient,
with 0.7 of the learned step size (seed 63), and in brackets those of a step in the trial:

    target                      1       2       3    2 or 3  2 to 4   trial
    item response 2, d = 91     0.050   0.077   0.090   0.079   0.082   (0.045)
    iid Gaussian, d = 300       0.056   0.086   0.082   0.096   0.081   (0.035)
    Caravan, d = 86             0.0083  0.012   0.016   0.017   0.017   (0.011)
    rotated, 1e6, d = 100       0.12    0.14    0.11    0.11    0.086   (0.058)

A length drawn at random costs nothing there, and breaks resonances: with eight tenths of the step
size, three steps have 0.025 on the item response model, and two or three 0.089.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from tfp_adaptive.proposals import delayed_rejection, leapfrog
from tfp_adaptive.sampling.figures import diagnose, extremes
from tfp_adaptive.typing import Proposal

LEAST_WARMUP_STEPS = 500
"""With fewer, chains may mix slowly because they have not learned enough."""
NUM_TRIAL_STEPS = 200
"""The first of the draws. They are kept where chains mix fast."""
_MIXES_FAST = 0.05
"""Effective draws a step."""
_NUM_CHAINS = 10
"""That are looked at. Their draws are so few that the smallest effective size of hundreds of
coordinates is about half of what a long run has; with more chains it would be larger."""
_LENGTHS = (2, 3)
_STEP_SHARE = 0.75
"""Longer moves accept 0.71 to 0.80 with it on the targets above, where one step accepts 0.67."""


class Moves(NamedTuple):
    """How a frozen kernel moves. Only the default one takes others than it has learned with.

    Attributes:
      are_long: whether they are of two or three leapfrog steps, at random, instead of one; of two
        if they are tried once more.
      are_delayed: whether those that are rejected are tried once more.
    """

    are_long: bool = False
    are_delayed: bool = False

    @property
    def step_share(self) -> float:
        """The step size, relative to the learned one."""
        return _STEP_SHARE if self.are_long else 1.0

    def proposal(self, momentum_refreshment: float) -> Proposal:
        """What makes such moves.

        Args:
          momentum_refreshment: of the kernel that has learned.
        """
        lengths = _LENGTHS if self.are_long else (1,)
        if self.are_delayed:
            return delayed_rejection(lengths[0])
        return leapfrog(lengths, momentum_refreshment)

    @property
    def label(self) -> str:
        """What tells the rows of such moves in a checkpoint from others."""
        return '-longer' * self.are_long + '-delayed' * self.are_delayed

    def __str__(self) -> str:
        """For the reason why a run has ended; empty for moves as learned."""
        lengths = 'two' if self.are_delayed else 'two or three'
        length = f', {lengths} leapfrog steps a move' if self.are_long else ''
        return length + (' with delayed rejection' if self.are_delayed else '')


LEARNED = Moves()
LONGER = Moves(are_long=True)


def are_slow(parts: Any, batch_rank: int, steps_per_draw: int = 1) -> bool:
    """Whether chains mix so slowly, with the moves that they have learned, that longer ones pay.

    Args:
      parts: list of unconstrained draws [n, *batch, *event]; those of ten chains are looked at.
      batch_rank: number of chain dimensions.
      steps_per_draw: steps that each of them took.

    Returns:
      `False` where there are no figures.
    """
    first = [
        np.reshape(part, [len(part), -1, *part.shape[1 + batch_rank :]])[:, :_NUM_CHAINS]
        for part in parts
    ]
    smallest, _ = extremes(diagnose(first, 1))
    num_steps = first[0].shape[0] * first[0].shape[1] * steps_per_draw
    return math.isfinite(smallest) and smallest < _MIXES_FAST * num_steps
