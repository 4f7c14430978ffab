"""The third experiment of Dahlin, Wills & Ninness (2018): volatility with leverage."""

import functools
import json
import math
import pathlib
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import pseudo_marginal
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.pmmh_peers import PEERS
from experiments.tables import Table, spread
from experiments.targets import leverage

_EXACT = 'exact density'
_WALK = 'pmMH0'
_NUM_ESTIMATES = 32
"""For the noise of a peer's estimate."""


def pmmh_volatility(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every proposal with every correlation of the noise for every seed.

    Raises:
      ConfigError: for an unknown proposal, series or peer, draws that are not whole rounds of the
        lanes, or peers without the random walk whose scale they take.
    """
    settings = config.settings
    pseudo_marginal.check(settings)
    if settings['data'] not in ('simulated', 'sp500'):
        raise ConfigError(f'data={settings["data"]}: there are simulated, sp500.')
    unknown = set(settings['peers']) - set(PEERS)
    if unknown:
        raise ConfigError(f'peers={",".join(sorted(unknown))}: there are {", ".join(PEERS)}.')
    if len(settings['peers']) != len(settings['peer_results']):
        raise ConfigError('peer_results must have a number for each of peers.')
    if settings['peers'] and _WALK not in settings['proposals']:
        raise ConfigError(f'peers take the scale of {_WALK}, which proposals lacks.')
    runs = pseudo_marginal.every_seed(__spec__.name, settings, folder, progress)
    return Outcome([_table(runs, settings)], runs)


def measure(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """`runs`: on the exact density, of every peer, and of every proposal and correlation."""
    size = settings['num_observations']
    is_simulated = settings['data'] == 'simulated'
    data = leverage.simulated(size, seed) if is_simulated else leverage.observed(size)
    row = functools.partial(_row, seed=seed)
    measures, reference = _exact(data, seed, settings)
    runs = [row(_EXACT, None, measures, reference, None)]
    factor = None
    for correlation in settings['correlations']:
        model = leverage.leverage(
            data, settings['num_particles'], settings['lag'], sort=correlation > 0
        )
        for name in settings['proposals']:
            run, measures, lanes = pseudo_marginal.chains(
                name,
                correlation,
                seed,
                model,
                model.estimator,
                leverage.TRUTH,
                settings,
                # XLA does not compile the second derivative of a loop
                is_compiled=name != 'pmMH2',
            )
            runs.append(row(name, correlation, measures, lanes, reference))
            if name == _WALK and factor is None:
                learned = run.warmup_kernel_results.adaptation.preconditioner
                factor = np.asarray(learned.step_size * learned.factor)
    for name, num_results in zip(settings['peers'], settings['peer_results'], strict=True):
        measures, states = _peer(name, data, factor, num_results, seed, settings)
        runs.append(row(name, 0.0, measures, states, reference))
    return {'runs': runs}


def _row(name, correlation, measures, lanes, reference, seed):
    own = {'proposal': name, 'correlation': correlation, 'seed': seed}
    max_z = None if reference is None else pseudo_marginal.distance(lanes, reference)
    summary = {'mean': lanes.mean(axis=(0, 1)).tolist(), 'sd': lanes.std(axis=(0, 1)).tolist()}
    return {**own, **measures, 'max_z': max_z, **summary}


def _exact(data, seed, settings):
    """(measures, draws of theta) by `sample` on the path and the parameters, nothing estimated.

    The proposal is that of the tutorial on volatility: banded along the path, bordered by theta.
    """
    num_warmup_steps, num_results = settings['exact_warmup_steps'], settings['exact_results']

    def make_kernel(log_prob):
        return tfpa.EntropyAdaptiveHMC(
            log_prob,
            num_leapfrog_steps=5,
            num_adaptation_steps=num_warmup_steps,
            preconditioner=tfpa.preconditioners.banded(
                bandwidth=1, border_size=len(leverage.NAMES)
            ),
            momentum_refreshment=0.5,
        )

    start = np.concatenate([np.full(data.size, leverage.TRUTH[0]), leverage.TRUTH])
    run = tfpa.sample(
        functools.partial(leverage.joint_log_prob, data),
        num_results,
        num_warmup_steps,
        settings['num_chains'],
        initial_state=tf.constant(start, tf.float32),
        kernel=make_kernel,
        num_steps_between_results=4,
        seed=(seed, 6),
        progress=False,
    )
    states = np.asarray(run.states, np.float64)[..., data.size :]
    gradients = run.diagnostics.num_sampling_gradients * settings['num_chains']
    return {
        'acceptance': run.diagnostics.accept_prob,
        **pseudo_marginal.efficiency(states, gradients, run.timings.sampling),
        'published_inefficiency': math.nan,
        'variance': math.nan,
        'seconds_per_step': run.timings.sampling / num_results,
    }, states


def _peer(name, data, factor, num_results, seed, settings):
    """(measures, draws) of a random walk on the filter of another library."""
    peer = PEERS[name](data, settings['num_particles'])
    start = np.tile(leverage.TRUTH, [settings['num_chains'], 1])
    # compiles, and is the warm-up
    start = peer.random_walk(start, factor, num_results, seed).states[-1]
    begin = time.perf_counter()
    walk = peer.random_walk(start, factor, num_results, seed + 1000)
    seconds = time.perf_counter() - begin
    states = walk.states.astype(np.float64)
    values = [peer.log_likelihood(states[-1], own) for own in range(_NUM_ESTIMATES)]
    measures = {
        'acceptance': float(np.mean(walk.is_accepted)),
        **pseudo_marginal.efficiency(states, num_results * settings['num_chains'], seconds),
        'published_inefficiency': pseudo_marginal.published_inefficiency(states),
        'variance': float(np.mean(np.var(values, axis=0, ddof=1))),
        'seconds_per_step': seconds / num_results,
    }
    return measures, states


def _table(runs, settings) -> Table:
    kinds: list[tuple[float | None, str]] = [(None, _EXACT)]
    kinds += [(0.0, name) for name in settings['peers']]
    kinds += [(c, name) for c in settings['correlations'] for name in settings['proposals']]
    rows = []
    for correlation, name in kinds:
        own = [run for run in runs if (run['correlation'], run['proposal']) == (correlation, name)]
        rows.append(
            [
                *pseudo_marginal.cells(correlation, name, own),
                1 / pseudo_marginal.middle(own, 'ess_per_estimate'),
                1e3 * pseudo_marginal.middle(own, 'seconds_per_step'),
                pseudo_marginal.middle(own, 'ess_per_second'),
                spread(run['ess_per_second'] for run in own),
            ]
        )
    series = {'simulated': 'simulated', 'sp500': 'S&P 500'}[settings['data']]
    return Table(
        title=f'Volatility with leverage, {settings["num_observations"]} returns, {series}',
        columns=[
            *(*pseudo_marginal.COLUMNS, 'estimates / ESS', 'ms / step'),
            *('ESS / s', 'least to most'),
        ],
        rows=rows,
        note=(
            f'{pseudo_marginal.NOTE} z: distances of the means from those of {_EXACT}, in standard '
            'errors of the difference, the largest of all coordinates and seeds. Least to most: '
            f'ESS / s over seeds. {_EXACT}: `sample` on the path and the parameters, whose '
            f'estimates are gradients. {", ".join(settings["peers"])}: a random walk by hand on a '
            f'bootstrap filter of this library, with the scale that {_WALK} learned.'
        ),
    )


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
