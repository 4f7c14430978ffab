"""sampling.running.thinning: how many steps a draw takes, by the figures of the draws before."""

import math

import numpy as np
import pytest
import scipy.signal

from tfp_adaptive.sampling.figures import diagnose
from tfp_adaptive.sampling.running.thinning import are_stuck, shortfall, steps_per_draw

NUM_CHAINS = 10


def missing(ess, rhat, ess_of_squares=1e4, num_draws=2000):
    figures = {'a': np.array([1e4, ess])}, {'a': np.array([ess_of_squares, 1e4])}, {'a': [rhat, 1]}
    return shortfall(figures, num_draws * NUM_CHAINS, NUM_CHAINS)


@pytest.mark.parametrize(
    ('ess', 'rhat', 'expected'),
    [
        (401, 1.009, 1),  # good
        (401, 1.02, 2),  # by R-hat
        (300, 1.0, 4 / 3),
        (100, 1.0, 4),
        (100, 1.1, 10),  # by R-hat
        (1, 1.5, 400),
        (1, 2.5, 400),
        (1, 10.5, 1),  # chains that never meet
        (np.nan, 1.0, 1),
        (100, np.nan, 4),  # a constant has none
    ],
)
def test_what_is_missing(ess, rhat, expected):
    assert missing(ess, rhat) == pytest.approx(expected)


def test_squares_count():
    assert missing(1e4, 1.0, ess_of_squares=100) == 4


def test_short_runs_of_chains_that_mix_are_left_alone():
    """Ten chains of 50 draws cannot have 400 effective ones; 25 are 5 % of them."""
    assert missing(25, 1.2, num_draws=50) == 1
    assert missing(24, 1.2, num_draws=50) == pytest.approx(20)


def test_chains_apart_are_not_left_alone():
    """As where a coordinate has a long tail: a twentieth of the draws is effective, or more."""
    assert missing(1001, 1.01) == 1
    assert missing(1001, 1.03) == pytest.approx(3)
    assert missing(399, 1.03, num_draws=400) == 1
    assert missing(300, 1.2, num_draws=400) == pytest.approx(20)


@pytest.mark.parametrize(
    ('num_draws', 'num_chains', 'persistence'), [(1000, 10, 0.8), (100, 100, 0.5), (100, 300, 0.3)]
)
def test_chains_that_mix_are_left_alone(num_draws, num_chains, persistence, rng):
    """Stationary ones, whose R-hat is above 1.01 by their number alone."""
    noise = rng.normal(size=[num_draws, num_chains, 5]) * np.sqrt(1 - persistence**2)
    noise[0] /= np.sqrt(1 - persistence**2)
    draws = scipy.signal.lfilter([1], [1, -persistence], noise, axis=0)
    figures = diagnose(draws, 1)
    assert 400 < figures[0].min() < 0.6 * num_draws * num_chains
    assert shortfall(figures, num_draws * num_chains, num_chains) == 1


def test_chains_in_places_of_their_own_may_be_given_more():
    figures = {'a': np.array([1.0])}, {'a': np.array([1.0])}, {'a': np.array([12.0])}
    assert shortfall(figures, 20_000, NUM_CHAINS) == 1
    assert shortfall(figures, 20_000, NUM_CHAINS, math.inf) == pytest.approx(1100)


def test_a_long_stay(rng):
    """Of one chain of three, in all coordinates."""
    draws = {'a': rng.normal(size=[200, 3]), 'b': rng.normal(size=[200, 3, 2])}
    assert not are_stuck(draws, 1)
    draws['a'][100:160, 1] = draws['a'][100, 1]
    assert not are_stuck(draws, 1)
    draws['b'][100:149, 1] = draws['b'][100, 1]
    assert not are_stuck(draws, 1)
    draws['b'][100:150, 1] = draws['b'][100, 1]
    assert are_stuck(draws, 1)


@pytest.mark.parametrize(
    ('num_steps', 'short', 'before', 'expected'),
    [
        (1, 1.0, math.inf, 1),
        (1, 1.1, math.inf, 2),  # with a reserve of a half
        (1, 4.0, math.inf, 8),
        (1, 400.0, math.inf, 8),  # the most at once
        (64, 2.0, 100.0, 256),
        (64, 100.0, 400.0, 256),  # the most, not eight times as many
        (256, 2.0, 100.0, 256),
        (64, 51.0, 100.0, 64),  # more steps did not help
        (64, 10.0, 10.0, 256),  # but chains that meet take more
        (64, 10.1, 20.0, 64),
        (8, 1.0, 4.0, 8),
    ],
)
def test_steps(num_steps, short, before, expected):
    assert steps_per_draw(num_steps, short, before) == expected
