"""The second experiment of Dahlin, Wills & Ninness (2018): a regression on some of its rows."""

import json
import pathlib
import sys
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import pseudo_marginal
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table
from experiments.targets import higgs

_ALL = 'all rows'
_METHODS = ('bfgs', 'sr1', 'ls')


def pmmh_higgs(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every proposal on either estimate, and all rows, for every seed.

    Raises:
      ConfigError: for an unknown proposal, estimate or data set, draws that are not whole rounds of
        the lanes, or rows that do not divide those there are.
    """
    settings = config.settings
    pseudo_marginal.check(settings)
    if settings['data'] not in ('stand-in', 'higgs'):
        raise ConfigError(f'data={settings["data"]}: there are stand-in, higgs.')
    for mode in settings['estimates']:
        if mode not in _num_rows(settings):
            raise ConfigError(f'estimates={mode}: there are {", ".join(_num_rows(settings))}.')
        if settings['num_observations'] % _num_rows(settings)[mode]:
            raise ConfigError(
                f'{_num_rows(settings)[mode]} rows must divide '
                f'num_observations={settings["num_observations"]}.'
            )
    runs = pseudo_marginal.every_seed(__spec__.name, settings, folder, progress)
    return Outcome([_chains_table(runs, settings), _hessians_table(runs, settings)], runs)


def measure(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """`runs`: of all rows, then of every estimate, with one seed."""
    model = higgs.many_rows(settings['data'], settings['num_observations'], seed)
    measures, reference = _all_rows(model, seed, settings)
    runs = [_row(_ALL, 'tfpa.sample', 0.0, measures, reference, reference)]
    for mode in settings['estimates']:
        estimator = _estimator(model, mode, settings)
        for name in settings['proposals']:
            measures, lanes = _chains(name, model, estimator, seed, settings)
            runs.append(_row(mode, name, settings['correlation'], measures, lanes, reference))
        runs[-1]['hessians'] = _hessians(model, mode, estimator, seed, settings)
    return {'runs': runs}


def _num_rows(settings) -> dict[str, int]:
    return {'as_published': settings['published_rows'], 'difference': settings['num_rows']}


def _estimator(model, mode, settings):
    return tfpa.estimators.subsampling(
        model.by_row,
        model.rows,
        _num_rows(settings)[mode],
        reference=tf.constant(model.mode, tf.float32),
        mode=mode,
    )


def _chains(name, model, estimator, seed, settings):
    _, measures, lanes = pseudo_marginal.chains(
        *(name, settings['correlation'], seed, model, estimator, tuple(model.mode), settings)
    )
    return measures, lanes


def _all_rows(model, seed, settings):
    """(measures, draws) of `sample`, with nothing tuned."""
    num_chains = settings['reference_chains']
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', tfpa.sampling.SamplingWarning)
        run = tfpa.sample(
            model.log_prob,
            *(settings['reference_results'], settings['reference_warmup_steps']),
            num_chains=num_chains,
            initial_state=tf.constant(model.mode, tf.float32),
            num_steps_between_results=0,
            seed=(seed, 3),
            progress=False,
        )
    states = np.asarray(run.states, np.float64)
    gradients = run.diagnostics.num_sampling_gradients * num_chains
    measures = {
        'acceptance': run.diagnostics.accept_prob,
        **pseudo_marginal.efficiency(states, gradients, run.timings.sampling),
        'published_inefficiency': pseudo_marginal.published_inefficiency(states),
        'variance': 0.0,
        'seconds_per_step': run.timings.sampling / len(states),
    }
    return measures, states


def _row(estimate, name, correlation, measures, lanes, reference) -> dict[str, Any]:
    own = {'estimate': estimate, 'proposal': name, 'correlation': correlation, 'max_z': None}
    mean, sd = reference.mean(axis=(0, 1)), reference.std(axis=(0, 1))
    if estimate != _ALL:
        own['max_z'] = pseudo_marginal.distance(lanes, reference)
    return {
        **own,
        **measures,
        'max_error': float(np.max(np.abs(lanes.mean(axis=(0, 1)) - mean) / sd)),
        'relative_sd': float(np.mean(lanes.std(axis=(0, 1)) / sd)),
    }


def _hessians(model, mode, estimator, seed, settings) -> dict[str, list[float]]:
    """Errors of quasi-Newton matrices, one for each memory, by what they start from and method.

    The states of a memory are independent draws of the Gaussian approximation to the law of a
    chain, each with noise of its own: what lanes are once they have forgotten their start.
    """
    ratio = 1.0
    if mode == 'as_published':
        ratio = settings['num_observations'] / _num_rows(settings)[mode]
    covariance = ratio * np.linalg.inv(model.precision)
    num, size = settings['num_matrices'], len(covariance)
    most = max(settings['memories'])
    rng = np.random.default_rng([seed, 6])
    noise = rng.standard_normal([num, most, estimator.noise_size]).astype(np.float32)
    steps = rng.standard_normal([num, most, size]) @ np.linalg.cholesky(covariance).T
    thetas = (model.mode + steps).astype(np.float32)
    values, scores = map(np.stack, zip(*map(_score(model, estimator), thetas, noise), strict=True))
    exact = _inverse_hessians(model, estimator, thetas[:, -1], noise[:, -1])
    firsts = {
        'isotropic': np.trace(covariance) / size * np.eye(size),
        'at the mode': covariance,
    }
    errors = {'at the mode': [_error(covariance, exact)] * len(settings['memories'])}
    for start, first in firsts.items():
        for method in _METHODS:
            errors[f'{method}, {start}'] = [
                _error(_matrices(method, memory, thetas, scores, values, first), exact)
                for memory in settings['memories']
            ]
    return errors


def _score(model, estimator):
    """A function (states [m, D], noise [m, K]) -> (log-estimates [m], scores [m, D])."""

    @tf.function(jit_compile=True)
    def compiled(theta, noise):
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = estimator.log_likelihood(noise, theta) + model.log_prior(theta)
        return value, tape.gradient(value, theta)

    return lambda theta, noise: [x.numpy() for x in compiled(tf.constant(theta), noise)]


def _inverse_hessians(model, estimator, theta, noise) -> np.ndarray:
    """Of minus the log-estimate, [num, D, D]."""

    @tf.function
    def hessian(theta, noise):
        with tf.GradientTape() as outer:
            outer.watch(theta)
            with tf.GradientTape() as inner:
                inner.watch(theta)
                value = estimator.log_likelihood(noise, theta) + model.log_prior(theta)
            score = inner.gradient(value, theta)
        return outer.batch_jacobian(score, theta, experimental_use_pfor=False)

    rows = [hessian(theta[i : i + 1], noise[i : i + 1]).numpy()[0] for i in range(len(theta))]
    return np.linalg.inv(-np.array(rows, np.float64))


def _matrices(method, memory, thetas, scores, values, first) -> np.ndarray:
    """H from the memory - 1 states before the last, in double precision, [num, D, D]."""
    matrix = tfpa.proposals.quasi_newton(method, memory).matrix
    assert matrix is not None
    last = slice(-memory, -1)
    states = (tf.constant(x[:, last], tf.float64) for x in (thetas, scores, values))
    return matrix(*states, tf.constant(first)).value.numpy()


def _error(matrices, exact) -> float:
    """Median of the relative error in Frobenius' norm."""
    distances = np.linalg.norm(matrices - exact, axis=(-2, -1))
    return float(np.median(distances / np.linalg.norm(exact, axis=(-2, -1))))


def _chains_table(runs, settings) -> Table:
    kinds = [(_ALL, 'tfpa.sample')]
    kinds += [(mode, name) for mode in settings['estimates'] for name in settings['proposals']]
    rows = []
    for estimate, name in kinds:
        own = [run for run in runs if (run['estimate'], run['proposal']) == (estimate, name)]
        num_rows = _num_rows(settings).get(estimate, settings['num_observations'])
        rows.append(
            [
                *(
                    f'{estimate}, {num_rows}',
                    *pseudo_marginal.cells(own[0]['correlation'], name, own),
                ),
                *(pseudo_marginal.middle(own, key) for key in ('max_error', 'relative_sd')),
                1 / pseudo_marginal.middle(own, 'ess_per_estimate'),
                *pseudo_marginal.speed(own),
            ]
        )
    return Table(
        title=f'Regression on {settings["num_observations"]} rows, {settings["data"]}',
        columns=[
            *('rows', *pseudo_marginal.COLUMNS, 'largest error / sd', 'sd / exact'),
            *('estimates / ESS', *pseudo_marginal.SPEED_COLUMNS),
        ],
        rows=rows,
        note=(
            f'{pseudo_marginal.NOTE} z: distances of the means from those of all rows, in standard '
            'errors of the difference, the largest of all coordinates and seeds. Error / sd: of '
            'the means, in standard deviations of the posterior of all rows. sd / exact: standard '
            'deviations beside theirs, mean over coordinates. All rows: `tfpa.sample` '
            'with nothing tuned but one step a draw, on the exact density; a gradient counts as an '
            'estimate.'
        ),
    )


def _hessians_table(runs, settings) -> Table:
    found: dict[str, list] = {mode: [] for mode in settings['estimates']}
    for run in runs:
        if 'hessians' in run:
            found[run['estimate']].append(run['hessians'])
    rows = [
        [mode, memory, *(float(np.median([own[key][i] for own in all_own])) for key in all_own[0])]
        for mode, all_own in found.items()
        for i, memory in enumerate(settings['memories'])
    ]
    names = list(next(iter(found.values()))[0])
    return Table(
        title='Errors of quasi-Newton matrices beside the inverse Hessian',
        columns=['rows', 'memory', *names],
        rows=rows,
        note=(
            'Relative errors in the Frobenius norm, medians over states, then over seeds. Beside '
            'minus the inverse Hessian of the same estimate at the next state. Isotropic, at the '
            'mode: the matrix that a method starts from or shrinks to; `at the mode` alone is the '
            'inverse Hessian there. States are independent draws of the Gaussian approximation.'
        ),
    )


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
