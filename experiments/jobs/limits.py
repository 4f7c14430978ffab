"""Where the default kernel fails: what it says of q_1 beside the truth, and what it warns of."""

import pathlib
import warnings

import numpy as np

import tfp_adaptive as tfpa
from experiments import figures, samplers, targets
from experiments.config import Config
from experiments.jobs.outcome import Outcome, as_run
from experiments.tables import Table, rhat
from experiments.targets import hard

_FIGURE = 'limits.png'


def limits(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs the default kernel with every seed on targets with known moments."""
    settings = config.settings
    rows, records, draws = [], [], {}
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        runs, performances = zip(
            *[_run(target, settings, seed, progress) for seed in settings['seeds']], strict=True
        )
        draws[label] = _farthest_off(target, runs), hard.first_density(target.name)
        rows.append(_row(label, target, runs, performances))
        records += [
            as_run(p, target=label, seed=seed, warnings=list(run.warnings))
            for p, run, seed in zip(performances, runs, settings['seeds'], strict=True)
        ]
    gaussian = targets.make(
        'gaussian', kind='rotated', num_dims=2, condition_number=settings['condition_number']
    )
    learning, _ = _run(gaussian, settings, settings['seeds'][0], progress)
    figures.limits(learning, draws, folder / _FIGURE)
    return Outcome([_table(settings, rows)], records, [_FIGURE])


def _farthest_off(target, runs):
    """Draws of q_1 of the seed whose mean is worst."""
    mean = target.reference.mean[0]
    return max((run.states[..., 0] for run in runs), key=lambda draws: abs(draws.mean() - mean))


def _run(target, settings, seed, progress):
    with warnings.catch_warnings():
        # they are the result, and go into the table
        warnings.simplefilter('ignore', tfpa.sampling.SamplingWarning)
        return samplers.run_default(target, {**settings, 'seed': seed}, progress)


def _row(label, target, runs, performances):
    first = [run.states[..., 0].astype(np.float64) for run in runs]
    return [
        label,
        target.event_size,
        f'{target.reference.mean[0]:.2f}',
        _range([draws.mean() for draws in first]),
        f'{target.reference.sd[0]:.2f}',
        _range([draws.std() for draws in first]),
        rhat(max(p.max_rhat for p in performances)),
        float(np.median([p.ess_per_gradient for p in performances])),
        float(np.mean([p.accept_prob for p in performances])),
        int(sum(p.num_divergences for p in performances)),
        f'{sum(bool(run.warnings) for run in runs)} of {len(runs)}',
    ]


def _range(values) -> str:
    return f'{min(values):.2f} to {max(values):.2f}'


def _table(settings, rows) -> Table:
    return Table(
        title='Limits of the default kernel',
        columns=[
            *('target', 'd', 'mean of q1', 'estimates', 'sd of q1', 'estimates', 'max R-hat'),
            *('min ESS / gradient', 'acceptance', 'divergences', 'runs that warn'),
        ],
        rows=rows,
        note=(
            f'{settings["num_chains"]} chains, {settings["num_results"]:,} draws each, '
            f'{len(settings["seeds"])} seeds; estimates: least and largest. ESS: smallest over all '
            'coordinates of q and of q^2, all chains together, median over seeds. Divergences of '
            'all seeds.'
        ),
    )
