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
            rows.append(
                [
                    *pseudo_marginal.cells(correlation, name, own),
                    pseudo_marginal.middle(own, 'ess_per_estimate'),
                    *pseudo_marginal.speed(own),
                ]
            )
    return Table(
        title=f'Random effects, {settings["num_observations"]} observations',
        columns=[
            *(*pseudo_marginal.COLUMNS, 'min ESS / estimate', *pseudo_marginal.SPEED_COLUMNS),
        ],
        rows=rows,
        note=(
            f'{pseudo_marginal.NOTE} z: errors of the means beside quadrature, in standard errors, '
            'the largest of all seeds. Every seed has data of its own.'
        ),
    )


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
