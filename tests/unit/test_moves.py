"""sampling.programs.moves: one leapfrog step or more, by how fast chains mix."""

import numpy as np
import pytest
import scipy.signal

from tfp_adaptive.sampling.programs.moves import LEARNED, LONGER, Moves, are_slow


def chains(rng, persistence, shape):
    """Autoregressions [200, *shape], of (1 - persistence) / (1 + persistence) effective draws."""
    noise = rng.normal(size=[500, *shape])
    return scipy.signal.lfilter([1], [1, -persistence], noise, axis=0)[300:]


@pytest.mark.parametrize(
    ('shape', 'batch_rank'),
    [([10, 60], 1), ([200, 60], 1), ([2, 5, 60], 2), ([10, 6, 10], 1), ([60], 0)],
)
@pytest.mark.parametrize(
    ('persistence', 'expected'), [(0.0, False), (0.5, False), (0.95, True), (0.99, True)]
)
def test_chains_that_mix_slowly(rng, shape, batch_rank, persistence, expected):
    """Of two parts; of many chains it is the same as of ten."""
    fast, slow = chains(rng, 0.0, shape), chains(rng, persistence, shape)
    assert are_slow([fast, slow], batch_rank) is expected


def test_steps_that_are_not_kept_count(rng):
    draws = [chains(rng, 0.0, [10, 60])]
    assert not are_slow(draws, 1, steps_per_draw=10)
    assert are_slow(draws, 1, steps_per_draw=30)


def test_draws_without_figures_are_not_slow():
    assert not are_slow([np.ones([200, 10, 60])], 1)


def test_what_moves_are_made_of():
    delayed = Moves(True, True)
    assert LEARNED.step_share == 1
    assert LONGER.step_share == delayed.step_share == 0.75
    assert LEARNED.proposal(0.6).stable_fraction == 1 / 2
    assert LONGER.proposal(0.6).stable_fraction == 1 / 3
    assert all(moves.proposal(0.6).uses_velocity for moves in (LEARNED, LONGER, delayed))
    assert str(LEARNED) == LEARNED.label == ''
    assert LONGER.label == '-longer'
    assert delayed.label == '-longer-delayed'
    assert str(delayed) == ', two leapfrog steps a move with delayed rejection'
