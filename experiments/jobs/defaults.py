"""The defaults table: many targets, several seeds, no argument tuned."""

import pathlib

import numpy as np

from experiments import samplers, targets
from experiments.config import Config
from experiments.jobs.outcome import Outcome, as_run
from experiments.tables import Table


def defaults(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Minimum ESS per gradient of every target and seed, with the longer trajectory beside it."""
    del folder
    seeds = config.settings['seeds']
    rows, runs = [], []
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        default, longer = [], []
        for seed in seeds:
            settings = {**config.settings, 'seed': seed}
            default.append(samplers.run_default(target, settings, progress)[1])
            longer.append(samplers.run_adaptive('longer', target, settings, progress)[1])
        for performances in (default, longer):
            runs += [
                as_run(p, target=label, seed=s) for p, s in zip(performances, seeds, strict=True)
            ]
        rows.append(_row(label, target.event_size, default, longer))
    length = config.settings['num_leapfrog_steps']
    table = Table(
        title='Defaults: minimum ESS per gradient',
        columns=[
            *('target', 'd'),
            *(f'seed {seed}' for seed in seeds),
            *('median', 'max R-hat', 'acceptance', 'warm-up gradients'),
            *(f'L = {length}: median', 'max R-hat', 'warm-up gradients'),
        ],
        rows=rows,
        note=(
            'ESS: smallest over all coordinates of q and of q^2, all chains together; gradients: '
            'those of sampling, of every chain. Warm-up gradients are per chain, and count a '
            f'Hessian-vector product as two. L = {length}: EntropyAdaptiveHMC with '
            f'{length} leapfrog steps and a fresh velocity at every step.'
        ),
    )
    return Outcome([table], runs)


def _row(label, event_size, default, longer):
    ratios = [p.ess_per_gradient for p in default]
    return [
        label,
        event_size,
        *ratios,
        float(np.median(ratios)),
        f'{max(p.max_rhat for p in default):.3f}',
        float(np.mean([p.accept_prob for p in default])),
        _warmup_cost(default[0]),
        float(np.median([p.ess_per_gradient for p in longer])),
        f'{max(p.max_rhat for p in longer):.3f}',
        _warmup_cost(longer[0]),
    ]


def _warmup_cost(performance):
    return performance.num_warmup_gradients + 2 * performance.num_warmup_hessian_vector_products
