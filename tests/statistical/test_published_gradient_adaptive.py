"""The published setting of gradient-adaptive MCMC against the authors' own code.

Acceptance rate, effective sample sizes and final entropy weight of a few runs of one chain, 20,000
steps of burn-in and 20,000 draws, must be a sample from the law of the authors' runs: a two-sample
t test of each against experiments/papers/gradient_adaptive/reference.csv.
"""

import csv
import functools
import os
import pathlib

import numpy as np
import pytest
import scipy.stats

from experiments import data, published, targets
from experiments.programs import run, sampling_program, warm_up_program
from tests.support.statistics import FALSE_ALARM, largest_z, moment_z_scores

pytestmark = pytest.mark.slow

NUM_STEPS = 20_000
NUM_RUNS = {'german': 4, 'neal': 2}
RUNS = [
    ('german', 'exact'),
    *(('neal', 'fast'), ('neal', 'exact'), ('neal', 'random_walk')),
    *(('german', 'fast'), ('german', 'random_walk'), ('ripley', 'random_walk')),
    *(('australian', 'fast'), ('australian', 'exact')),
    *(('australian', 'random_walk'), ('heart', 'fast'), ('heart', 'random_walk')),
    *(('pima', 'fast'), ('pima', 'random_walk'), ('ripley', 'fast')),
]


def _target(name):
    if name == 'neal':
        return targets.make('gaussian', kind='neal', num_dims=100, initial_scale=1.0)
    try:
        return targets.make('logistic_regression', data=name, initial_scale=1.0)
    except data.DataError as error:
        pytest.skip(str(error))


@functools.cache
def _sampling_program(name, is_walk):
    """Both MALAs sample with one program."""
    return sampling_program(_kernel(name, 'random_walk' if is_walk else 'fast'), NUM_STEPS)


def _kernel(name, method):
    target = _target(name)
    return published.make_kernel(method, target.log_prob, target.event_size, NUM_STEPS)


@functools.cache
def _runs(name, method, seed):
    warm_up = warm_up_program(_kernel(name, method), NUM_STEPS)
    sample = _sampling_program(name, method == 'random_walk')
    start = _target(name).initial_state
    seeds = [100 * seed + index for index in range(NUM_RUNS.get(name, 3))]
    return [run(warm_up, sample, start(1, (s, 0)), s) for s in seeds]


def _p_value(found, expected):
    """Of the least likely of all quantities, Bonferroni-corrected."""
    t, degrees = published.t_statistics(found, expected)
    return min(1.0, 2 * t.size * scipy.stats.t.sf(np.max(np.abs(t)), degrees))


def _found(name, method, seed):
    return published.collect([published.measure(run) for run in _runs(name, method, seed)])


@pytest.mark.parametrize(('name', 'method'), RUNS)
def test_as_the_authors_code(name, method, seed):
    assert _p_value(_found(name, method, seed), published.reference(name, method)) > FALSE_ALARM


def test_the_exact_gradient_is_not_taken_for_the_fast_one(seed):
    """The same bound rejects the other variant, which differs least of all from this one."""
    found = _found('german', 'exact', seed)
    assert _p_value(found, published.reference('german', 'fast')) < FALSE_ALARM


@pytest.mark.parametrize('name', ['german', 'heart', 'pima', 'ripley'])
def test_posterior_moments(name, seed):
    """Draws of the published setting against the pooled moments of the authors' runs."""
    folder = os.environ.get(data.FOLDER_VARIABLE, '')
    path = pathlib.Path(folder) / 'reference' / f'gad_moments_{name}.csv'
    if not path.is_file():
        pytest.skip(f'{data.FOLDER_VARIABLE} names no folder with reference/{path.name}')
    with path.open() as file:
        rows = list(csv.DictReader(file))
    mean, sd, error = (
        np.array([float(row[column]) for row in rows])
        for column in ('mean', 'sd', 'se_mean_from_ess')
    )
    draws = np.concatenate([run.states for run in _runs(name, 'fast', seed)], axis=1)
    # for a nearly Gaussian marginal, a variance is known sqrt(2) times its mean's relative error
    z, ess = moment_z_scores(draws, mean, sd**2, error, np.sqrt(2) * sd * error)
    assert ess > 1000
    assert np.max(np.abs(z)) < largest_z(z.size)
