"""sampling.running.thinning: how many steps a draw takes, by the figures of the first draws."""

import numpy as np
import pytest

from tfp_adaptive.sampling.running.thinning import steps_per_draw

NUM_CHAINS = 10


def steps(ess, rhat, ess_of_squares=1e4, num_draws=2000):
    figures = {'a': np.array([1e4, ess])}, {'a': np.array([ess_of_squares, 1e4])}, {'a': [rhat, 1]}
    return steps_per_draw(figures, num_draws * NUM_CHAINS)


@pytest.mark.parametrize(
    ('ess', 'rhat', 'expected'),
    [
        (401, 1.009, 1),  # good
        (401, 1.02, 4),  # 1.5 x 2 by R-hat
        (300, 1.0, 2),  # 1.5 x 4 / 3
        (100, 1.0, 8),  # 1.5 x 4
        (100, 1.1, 16),  # 1.5 x 10 by R-hat
        (10, 1.0, 64),
        (1, 1.5, 64),  # the most
        (1, 2.5, 1),  # chains that never meet
        (np.nan, 1.0, 1),
        (100, np.nan, 8),  # a constant has none
    ],
)
def test_steps_follow_from_what_is_missing(ess, rhat, expected):
    assert steps(ess, rhat) == expected


def test_squares_count():
    assert steps(1e4, 1.0, ess_of_squares=100) == 8


def test_short_runs_of_chains_that_mix_are_left_alone():
    """Ten chains of 50 draws cannot have 400 effective ones; 25 are 5 % of them."""
    assert steps(25, 1.2, num_draws=50) == 1
    assert steps(24, 1.2, num_draws=50) == 32
