"""The defaults table: many targets, several seeds, no argument tuned."""

import pathlib

import numpy as np

from experiments import samplers, targets
from experiments.config import Config
from experiments.jobs.outcome import Outcome, as_run
from experiments.tables import Table


def defaults(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Minimum ESS per gradient of every target and seed."""
    del folder
    seeds = config.settings['seeds']
    rows, runs = [], []
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        performances = []
        for seed in seeds:
            settings = {**config.settings, 'seed': seed}
            performances.append(
                samplers.run_adaptive('entropy-adaptive HMC', target, settings, progress)[1]
            )
        runs += [as_run(p, target=label, seed=s) for p, s in zip(performances, seeds, strict=True)]
        rows.append(_row(label, target.event_size, performances))
    table = Table(
        title='Defaults: minimum ESS per gradient',
        columns=[
            *('target', 'd'),
            *(f'seed {seed}' for seed in seeds),
            *('median', 'max R-hat', 'acceptance', 'median ESS / s'),
        ],
        rows=rows,
        note=(
            'ESS: smallest over all coordinates of q and of q^2, all chains together; gradients: '
            'those of sampling, of every chain.'
        ),
    )
    return Outcome([table], runs)


def _row(label, event_size, performances):
    ratios = [p.ess_per_gradient for p in performances]
    return [
        label,
        event_size,
        *ratios,
        float(np.median(ratios)),
        f'{max(p.max_rhat for p in performances):.3f}',
        float(np.mean([p.accept_prob for p in performances])),
        float(np.median([p.ess_per_second for p in performances])),
    ]
