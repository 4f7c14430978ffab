"""The first experiment of Dahlin, Wills & Ninness (2018): random effects, with an exact answer."""

import json
import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import effective_size
from experiments.benchmark import fresh_process
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table
from experiments.targets.random_effects import TRUTH, random_effects

_PROPOSALS: dict[str, Callable[[int], Any]] = {
    'pmMH0': lambda memory: tfpa.proposals.random_walk(),
    'pmMH1': lambda memory: tfpa.proposals.langevin(),
    'pmMH2': lambda memory: tfpa.proposals.newton(),
    'BFGS': lambda memory: tfpa.proposals.quasi_newton('bfgs', memory),
    'SR1': lambda memory: tfpa.proposals.quasi_newton('sr1', memory),
    'LS': lambda memory: tfpa.proposals.quasi_newton('ls', memory),
}
_LAG = 250


def pmmh_random_effects(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every proposal with every correlation of the noise on the data of every seed.

    Raises:
      ConfigError: for an unknown proposal, or draws that are not whole rounds of the lanes.
    """
    del folder
    settings = config.settings
    _check(settings)
    runs = []
    for seed in settings['seeds']:
        # TensorFlow keeps every program for ever, and each data set takes a dozen
        case = {'settings': settings, 'seed': seed}
        runs += fresh_process.run(__spec__.name, case, f'seed {seed}')['runs']
        if progress:
            print(f'seed {seed}: done', flush=True)
    return Outcome([_table(runs, settings)], runs)


def measure(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """`runs`: of every proposal and correlation on the data of one seed."""
    model = random_effects(settings['num_observations'], seed)
    estimator = tfpa.estimators.importance_sampling(
        model.joint,
        model.instrument,
        settings['num_observations'],
        settings['num_particles'],
        score=settings['score'],
        shared_weights=settings['shared_weights'],
    )
    runs = [
        {
            'proposal': name,
            'correlation': correlation,
            'seed': seed,
            **_run(name, correlation, seed, model, estimator, settings),
        }
        for correlation in settings['correlations']
        for name in settings['proposals']
    ]
    return {'runs': runs}


def _check(settings):
    unknown = set(settings['proposals']) - set(_PROPOSALS)
    if unknown:
        raise ConfigError(
            f'proposals={",".join(sorted(unknown))}: there are {", ".join(_PROPOSALS)}.'
        )
    if settings['num_results'] % settings['memory']:
        raise ConfigError(
            f'num_results={settings["num_results"]} must be a multiple of '
            f'memory={settings["memory"]}, for each lane to have as many draws.'
        )


def _run(name, correlation, seed, model, estimator, settings) -> dict[str, Any]:
    proposal = _PROPOSALS[name](settings['memory'])
    kernel = tfpa.PseudoMarginal(
        estimator,
        model.log_prior,
        settings['num_warmup_steps'],
        proposal,
        auxiliary_correlation=correlation,
    )
    start = np.tile(np.array(TRUTH, np.float32), [settings['num_chains'], 1])
    with warnings.catch_warnings():
        # of slow mixing, which the table is about
        warnings.simplefilter('ignore', tfpa.sampling.SamplingWarning)
        run = tfpa.sample(
            model.log_prior,
            settings['num_results'],
            settings['num_warmup_steps'],
            initial_state=tf.constant(start),
            kernel=kernel,
            num_steps_between_results=0,
            seed=(seed, 1),
            progress=False,
        )
    num_lanes = getattr(proposal, 'num_lanes', 1)
    states = np.asarray(run.states, np.float64)
    num_draws = states.shape[0] * states.shape[1]
    lanes = states.reshape(-1, num_lanes * states.shape[1], states.shape[2])
    min_ess, max_rhat = effective_size.smallest(lanes)
    mean, sd = (np.asarray(x) for x in (model.reference.mean, model.reference.sd))
    ess = np.asarray(tfpa.sampling.diagnose(lanes, 1)[0])
    estimates = run.diagnostics.num_sampling_gradients * settings['num_chains']
    last = tf.constant(states[-1].astype(np.float32))
    return {
        'acceptance': run.diagnostics.accept_prob,
        'min_ess': min_ess,
        'inefficiency': num_draws / min_ess,
        'published_inefficiency': published_inefficiency(states),
        'max_rhat': max_rhat,
        'max_z': float(np.max(np.abs((states.mean(axis=(0, 1)) - mean) / sd * np.sqrt(ess)))),
        'variance': float(kernel.log_estimate_variance(last, seed=(seed, 2))),
        'ess_per_estimate': min_ess / estimates,
        'ess_per_second': min_ess / run.timings.sampling,
        'seconds_per_step': run.timings.sampling / settings['num_results'],
    }


def published_inefficiency(states: np.ndarray) -> float:
    """1 + 2 sum of the first 250 autocorrelations of draws in a row, as the paper takes it.

    Lanes that are interleaved look independent by it. Mean over coordinates and chains.

    Args:
      states: [N, C, D].
    """
    centred = states - states.mean(axis=0)
    spectrum = np.abs(np.fft.rfft(centred, 2 * len(states), axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, axis=0)[: _LAG + 1]
    variance = np.where(covariance[0] > 0, covariance[0], np.nan)
    return float(np.nanmean(1 + 2 * np.sum(covariance[1:] / variance, axis=0)))


def _table(runs, settings) -> Table:
    rows = []
    for correlation in settings['correlations']:
        for name in settings['proposals']:
            own = [
                run for run in runs if (run['proposal'], run['correlation']) == (name, correlation)
            ]

            def middle(key, own=own):
                return float(np.median([run[key] for run in own]))

            rows.append(
                [
                    *(f'{correlation:g}', name, middle('acceptance'), middle('variance')),
                    *(middle('inefficiency'), middle('published_inefficiency')),
                    f'{max(run["max_rhat"] for run in own):.3f}',
                    max(run['max_z'] for run in own),
                    *(middle('ess_per_estimate'), 1e3 * middle('seconds_per_step')),
                    *(middle('ess_per_second'), _errors([run['ess_per_second'] for run in own])),
                ]
            )
    return Table(
        title=f'Random effects, {settings["num_observations"]} observations',
        columns=[
            *('rho', 'proposal', 'acceptance', 'noise', 'inefficiency by lane'),
            *('as in the paper', 'max R-hat', 'max |z|', 'min ESS / estimate', 'ms / step'),
            *('min ESS / s', 'quartiles'),
        ],
        rows=rows,
        note=(
            'rho: correlation of the noise before and after a step. Noise: half the variance of '
            'the difference of two log-estimates that follow one another. Inefficiency: draws per '
            'effective draw, each lane of a quasi-Newton proposal counted as a chain; as in the '
            f'paper: by {_LAG} autocorrelations of the lanes interleaved. z: errors of the means '
            'beside quadrature, in standard errors, the largest of all seeds. ESS: smallest over '
            'coordinates of q and of q^2; an estimate with its score counts as one. Medians over '
            'seeds, each with data of its own.'
        ),
    )


def _errors(values) -> str:
    low, high = np.quantile(values, [0.25, 0.75])
    return f'{low:.3g} to {high:.3g}'


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
