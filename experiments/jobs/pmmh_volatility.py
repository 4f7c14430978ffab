"""The third experiment of Dahlin, Wills & Ninness (2018): volatility with leverage."""

import json
import pathlib
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf

from experiments import pseudo_marginal, tfp_filter
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table, spread
from experiments.targets import leverage

_PEER = 'TFP filter'
_WALK = 'pmMH0'


def pmmh_volatility(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every proposal with every correlation of the noise for every seed.

    Raises:
      ConfigError: for an unknown proposal or series, draws that are not whole rounds of the lanes,
        or a peer without the random walk whose scale it takes.
    """
    settings = config.settings
    pseudo_marginal.check(settings)
    if settings['data'] not in ('simulated', 'sp500'):
        raise ConfigError(f'data={settings["data"]}: there are simulated, sp500.')
    if settings['peer'] and _WALK not in settings['proposals']:
        raise ConfigError(f'peer=true takes the scale of {_WALK}, which proposals lacks.')
    runs = pseudo_marginal.every_seed(__spec__.name, settings, folder, progress)
    return Outcome([_table(runs, settings)], runs)


def measure(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """`runs`: of every proposal and correlation, and of the peer, with one seed."""
    size = settings['num_observations']
    is_simulated = settings['data'] == 'simulated'
    data = leverage.simulated(size, seed) if is_simulated else leverage.observed(size)
    model = leverage.leverage(data, settings['num_particles'], settings['lag'])
    runs, lanes_of = [], []
    factor = None
    for correlation in settings['correlations']:
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
            runs.append(_row(name, correlation, seed, measures, lanes))
            lanes_of.append(lanes)
            if name == _WALK and factor is None:
                learned = run.warmup_kernel_results.adaptation.preconditioner
                factor = np.asarray(learned.step_size * learned.factor)
    if settings['peer']:
        measures, reference = _peer(model, factor, seed, settings)
        for run, lanes in zip(runs, lanes_of, strict=True):
            run['max_z'] = pseudo_marginal.distance(lanes, reference)
        runs.insert(0, _row(_PEER, 0.0, seed, measures, reference))
    return {'runs': runs}


def _row(name, correlation, seed, measures, lanes):
    mean, _ = pseudo_marginal.moments(lanes)
    own = {'proposal': name, 'correlation': correlation, 'seed': seed, 'max_z': None}
    return {**own, **measures, 'mean': mean.tolist(), 'sd': lanes.std(axis=(0, 1)).tolist()}


def _peer(model, factor, seed, settings):
    """(measures, draws) of the random walk by hand on TFP's filter."""
    num_chains, num_results = settings['num_chains'], settings['num_results']
    chain = tfp_filter.random_walk(
        model.data, settings['num_particles'], factor, settings['num_warmup_steps'], num_results
    )
    start = tf.constant(np.tile(np.array(leverage.TRUTH, np.float32), [num_chains, 1]))
    start = chain(start, tf.constant([seed, 3])).states[-1]  # compiles
    begin = time.perf_counter()
    states, is_accepted = (np.asarray(x) for x in chain(start, tf.constant([seed, 4])))
    # its warm-up is timed with it
    seconds = time.perf_counter() - begin
    seconds *= num_results / (num_results + settings['num_warmup_steps'])
    states = states.astype(np.float64)
    seeds = tf.random.stateless_uniform([32, 2], [seed, 5], 0, 2**30, tf.int32)
    estimate = tf.function(
        lambda own: tfp_filter.log_likelihood(
            model.data, tf.constant(states[-1].astype(np.float32)), settings['num_particles'], own
        )
    )
    values = np.stack([estimate(own) for own in seeds])
    measures = {
        'acceptance': float(np.mean(is_accepted)),
        **pseudo_marginal.efficiency(states, num_results * num_chains, seconds),
        'published_inefficiency': pseudo_marginal.published_inefficiency(states),
        'variance': float(np.mean(np.var(values, axis=0, ddof=1))),
        'seconds_per_step': seconds / num_results,
    }
    return measures, states


def _table(runs, settings) -> Table:
    kinds = [(c, name) for c in settings['correlations'] for name in settings['proposals']]
    if settings['peer']:
        kinds.insert(0, (0.0, _PEER))
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
            f'{pseudo_marginal.NOTE} z: distances of the means from those of {_PEER}, in standard '
            'errors of the difference, the largest of all coordinates and seeds. Least to most: '
            f"ESS / s over seeds. {_PEER}: TFP's own particle filter in a random walk written by "
            f'hand, with the scale that {_WALK} learned.'
        ),
    )


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
