"""sampling.findings.tails: shapes of known tails, and which runs are warned of."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.sampling.findings import tails

NUM_RESULTS, NUM_CHAINS = 1000, 10


@pytest.mark.parametrize('shape', [-0.2, 0.3, 1.0])
def test_shape_of_a_pareto_tail(shape, rng):
    """By inversion of its distribution function; the mean of 100 estimates, in standard errors."""
    size = 1000
    uniform = np.sort(rng.uniform(size=[100, size]), axis=-1)
    found = [tails.pareto_shape(((1 - u) ** -shape - 1) / shape) for u in uniform]
    # of maximum likelihood, which the posterior mean comes near to; its bias is of order 1 / size
    error = (1 + shape) / np.sqrt(size)
    assert abs(np.mean(found) - shape) < 4 * error / 10 + 3 / size
    assert np.std(found) < 1.3 * error


def warning_of(states, **fields):
    run = runs.run_of_draws(states, **fields)
    return [sentence for sentence in run.warnings if 'power law' in sentence]


def test_heavy_tails_of_one_coordinate_are_told(rng):
    states = rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 5])
    states[..., 3] = 100 + 7 * rng.standard_t(3, size=[NUM_RESULTS, NUM_CHAINS])
    (sentence,) = warning_of(states)
    shape = float(sentence.split('shape ')[1].split()[0])
    error = float(sentence.split('standard error ')[1].split(')')[0])
    assert abs(shape - 1 / 3) < 4 * error


@pytest.mark.parametrize('name', ['normal', 'laplace', 'gumbel', 'uniform', 'logistic'])
@pytest.mark.parametrize('num_results', [200, NUM_RESULTS])
def test_light_tails_are_not(name, num_results, rng):
    """Forty runs of each; under two false alarms in a hundred is what is asked."""
    draw = getattr(rng, name)
    alarms = 0
    for _ in range(40):
        found = tails.heaviest_tail([draw(size=[num_results, NUM_CHAINS, 5])], 1)
        alarms += found is not None and found[0] > tails._LIGHT_SHAPE + tails._Z * found[1]
    assert alarms == 0


def test_the_tail_of_a_square_only_seems_heavy(rng):
    """As on a banana; one false alarm in twenty runs is what chance alone makes of its far tail."""
    alarms = 0
    for _ in range(20):
        first = rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
        second = rng.normal(size=first.shape) + 1 - first**2
        alarms += bool(warning_of(np.stack([first, second], axis=-1)))
    assert alarms <= 3


def test_blocks_change_nothing(rng, monkeypatch):
    draws = [rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 7]), rng.normal(size=[NUM_RESULTS, 10])]
    whole = tails.heaviest_tail(draws, 1)
    monkeypatch.setattr(tails, '_BLOCK_BYTES', 2 * 8 * NUM_RESULTS * NUM_CHAINS)
    np.testing.assert_allclose(tails.heaviest_tail(draws, 1), whole, rtol=1e-6)


def test_too_few_draws_tell_nothing(rng):
    assert tails.heaviest_tail([rng.normal(size=[100, 10, 2])], 1) is None
    assert tails.heaviest_tail([rng.normal(size=[3, 10, 2])], 1) is None
    assert tails.heaviest_tail([np.ones([500, 10, 2])], 1) is None


def test_a_log_density_that_has_not_mixed(rng):
    good = runs.run_of_draws(rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 2]))
    assert not list(tails.log_density_concerns(good))
    log_prob = rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
    statistics = good.statistics._replace(log_prob=log_prob)
    assert not dataclasses.replace(good, statistics=statistics).warnings
    statistics = good.statistics._replace(log_prob=log_prob + np.arange(NUM_CHAINS) / 5)
    (sentence,) = dataclasses.replace(good, statistics=statistics).warnings
    assert sentence.startswith('The log-density has not mixed (R-hat 1.')


def warnings_of_energy(states, log_prob):
    """With the log-densities [num_results, num_chains] that belong to the draws."""
    run = runs.run_of_draws(states)
    run = dataclasses.replace(run, statistics=run.statistics._replace(log_prob=log_prob))
    return [sentence for sentence in run.warnings if 'E-BFMI' in sentence]


def test_a_funnel_is_told_by_its_log_density(rng):
    """Independent draws of Neal's: a variance of (9 / 2)^2 9 + 9 / 2 + 1 / 2 in ten dimensions."""
    axis = 3 * rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
    others = np.exp(axis / 2)[..., np.newaxis] * rng.normal(size=[*axis.shape, 9])
    terms = (others**2).sum(axis=-1) * np.exp(-axis)
    log_prob = -(axis**2) / 18 - terms / 2 - 9 * axis / 2
    states = np.concatenate([axis[..., np.newaxis], others], axis=-1)
    (sentence,) = warnings_of_energy(states, log_prob)
    variance = float(sentence.split('log-density is ')[1].split(',')[0])
    expected = 81 / 4 * 9 + 9 / 2 + 1 / 2
    # of a variance from so many draws, by the kurtosis of the axis, which is nearly all of it
    assert abs(variance / expected - 1) < 5 * np.sqrt(2 / axis.size)
    assert f'E-BFMI of {10 / (expected + 5):.2f}' in sentence


@pytest.mark.parametrize('num_dims', [1, 10])
def test_log_concave_densities_are_not_funnels(num_dims, rng):
    """Those of the exponential distribution have the largest variance of all: one a dimension."""
    states = rng.exponential(size=[NUM_RESULTS, NUM_CHAINS, num_dims])
    assert not warnings_of_energy(states, -states.sum(axis=-1))


def test_modes_of_unlike_heights_are_not_funnels(rng):
    states = rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 2])
    heights = np.where(np.arange(NUM_CHAINS) < 5, 0.0, 20.0)
    assert not warnings_of_energy(states, heights - (states**2).sum(axis=-1) / 2)


def test_the_noise_of_estimates_is_no_funnel(rng):
    """Where a likelihood is estimated, the log-density varies by more than the target does."""
    noise = 10 * rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
    run = runs.run_of_draws(rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 2]))
    run = dataclasses.replace(run, statistics=run.statistics._replace(log_prob=noise))
    assert list(tails.energy_concerns(run))
    estimator = tfpa.estimators.Estimator(
        1, lambda noise, *parts: tf.zeros_like(noise[..., 0]), num_particles=1
    )
    kernel = tfpa.PseudoMarginal(estimator, lambda x: -tf.reduce_sum(x**2, axis=-1) / 2, 0)
    assert not list(tails.energy_concerns(dataclasses.replace(run, frozen_kernel=kernel)))


def test_chains_on_their_way_are_no_funnel(rng):
    """Their log-densities are not those of the posterior, and another warning says so."""
    log_prob = -rng.exponential(size=[NUM_RESULTS, NUM_CHAINS])
    log_prob[:20] -= 1000
    assert not warnings_of_energy(rng.normal(size=[*log_prob.shape, 2]), log_prob)


@pytest.mark.parametrize(('variance', 'is_told'), [(2.7, False), (2.9, True)])
def test_how_much_a_log_density_may_vary(variance, is_told, rng):
    """2.83 for every dimension: with half of one for the velocities, the E-BFMI is 0.3."""
    states = rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 4])
    log_prob = rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
    log_prob *= np.sqrt(4 * variance) / log_prob.std(axis=0)
    assert bool(warnings_of_energy(states, log_prob)) == is_told
