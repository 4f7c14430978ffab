"""sampling.programs.moves: one leapfrog step or more, by how fast chains mix."""

import numpy as np
import pytest

from tfp_adaptive.sampling.programs.moves import LEARNED, LONGER, Moves, are_slow


@pytest.mark.parametrize(
    ('ess', 'expected'), [(99, True), (101, False), (0.0, True), (np.nan, False)]
)
def test_chains_that_mix_slowly(ess, expected):
    """Of 2,000 draws a twentieth is a hundred; the smallest of all counts, constants do not."""
    figures = [np.array([500.0, ess])], [np.array([500.0, 400])], [np.array([1.0, np.nan])]
    if np.isnan(ess):
        figures = [np.array([ess])], [np.array([ess])], [np.array([ess])]
    assert are_slow(figures, 2000) is expected


def test_what_moves_are_made_of():
    delayed = Moves(True, True)
    assert LEARNED.step_share == 1
    assert LONGER.step_share == delayed.step_share == 0.75
    assert LEARNED.proposal(0.6).stable_fraction == 1 / 2
    assert LONGER.proposal(0.6).stable_fraction == 1 / 3
    assert all(moves.proposal(0.6).uses_velocity for moves in (LEARNED, LONGER, delayed))
    assert str(LEARNED) == ''
    assert str(delayed) == ', two or three leapfrog steps a move with delayed rejection'
