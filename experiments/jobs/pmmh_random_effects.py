"""The first experiment of Dahlin, Wills & Ninness (2018): random effects, with an exact answer."""

import json
import pathlib
import sys
from typing import Any

import numpy as np

import tfp_adaptive as tfpa
from experiments import pseudo_marginal
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.tables import Table
from experiments.targets.random_effects import TRUTH, random_effects


def pmmh_random_effects(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every proposal with every correlation of the noise on the data of every seed.

    Raises:
      ConfigError: for an unknown proposal, or draws that are not whole rounds of the lanes.
    """
    settings = config.settings
    pseudo_marginal.check(settings)
    runs = pseudo_marginal.every_seed(__spec__.name, settings, folder, progress)
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


def _run(name, correlation, seed, model, estimator, settings) -> dict[str, Any]:
    _, measures, lanes = pseudo_marginal.chains(
        name, correlation, seed, model, estimator, TRUTH, settings
    )
    mean, sd = (np.asarray(x) for x in (model.reference.mean, model.reference.sd))
    ess = np.asarray(tfpa.sampling.diagnose(lanes, 1)[0])
    errors = np.abs((lanes.mean(axis=(0, 1)) - mean) / sd * np.sqrt(ess))
    return {**measures, 'max_z': float(np.max(errors))}


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
                    *(
                        middle('ess_per_second'),
                        pseudo_marginal.quartiles(run['ess_per_second'] for run in own),
                    ),
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
            f'paper: by {pseudo_marginal.LAG} autocorrelations of the lanes interleaved. z: errors '
            'of the means beside quadrature, in standard errors, the largest of all seeds. ESS: '
            'smallest over coordinates of q and of q^2; an estimate with its score counts as one. '
            'Medians over seeds, each with data of its own.'
        ),
    )


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
