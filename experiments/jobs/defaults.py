"""The defaults tables: many targets, several seeds, no argument tuned; and other kernels beside."""

import pathlib

import numpy as np

from experiments import samplers, targets
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome, as_run
from experiments.tables import Table, rhat
from tfp_adaptive.tuning.first_metric import MANY_DIMENSIONS


def defaults(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Minimum ESS per gradient of every target and seed, with other kernels beside it."""
    del folder
    seeds = config.settings['seeds']
    pairs = config.settings['num_leapfrog_steps'], config.settings['momentum_refreshments']
    if len(pairs[0]) != len(pairs[1]):
        raise ConfigError('num_leapfrog_steps and momentum_refreshments must have as many values.')
    kernels = list(zip(*pairs, strict=True))
    rows, others, runs = [], [], []
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        found = {}
        for kernel in [None, *kernels]:
            found[kernel] = [
                _run(target, config.settings, seed, progress, kernel) for seed in seeds
            ]
            runs += [
                as_run(p, target=label, seed=s) for p, s in zip(found[kernel], seeds, strict=True)
            ]
        rows.append([label, target.event_size, *_row(found[None])])
        medians = {kernel: _median(performances) for kernel, performances in found.items()}
        share = medians[None] / max(medians.values())
        others.append([label, target.event_size, *medians.values(), share])
    main = Table(
        title='Defaults: minimum ESS per gradient',
        columns=[
            *('target', 'd', *(f'seed {seed}' for seed in seeds)),
            *('median', 'max R-hat', 'acceptance', 'warm-up gradients'),
        ],
        rows=rows,
        note=(
            'ESS: smallest over all coordinates of q and of q^2, all chains together; gradients: '
            'those of sampling, of every chain. Warm-up gradients are per chain, and count a '
            'Hessian-vector product as two. The default learns with one leapfrog step, and draws '
            "six tenths of the velocity's variance anew at each; in "
            f'{MANY_DIMENSIONS} dimensions and more it starts from the Hessian, and its draws take '
            'two or three steps if the first 200 say so, whose gradients are counted.'
        ),
    )
    beside = Table(
        title='The default beside other leapfrog steps and velocities',
        columns=['target', 'd', 'default', *map(_name, kernels), 'default / best'],
        rows=others,
        note=(
            'Minimum ESS per gradient of sampling, medians over seeds. Refreshed: share of the '
            "velocity's variance that each step draws anew. Every kernel learns for the whole "
            'warm-up, with its own number of leapfrog steps, and starts as the default does.'
        ),
    )
    return Outcome([main, beside], runs)


def _run(target, settings, seed, progress, kernel):
    """A performance: of the default where there is no `kernel`."""
    settings = {**settings, 'seed': seed}
    if kernel is None:
        return samplers.run_default(target, settings, progress)[1]
    settings['num_leapfrog_steps'], momentum_refreshment = kernel
    return samplers.run_adaptive(
        _name(kernel), target, settings, progress, momentum_refreshment=momentum_refreshment
    )[1]


def _name(kernel):
    return f'L={kernel[0]} refreshed {kernel[1]:g}'


def _median(performances):
    return float(np.median([p.ess_per_gradient for p in performances]))


def _row(performances):
    first = performances[0]
    return [
        *(p.ess_per_gradient for p in performances),
        _median(performances),
        rhat(max(p.max_rhat for p in performances)),
        float(np.mean([p.accept_prob for p in performances])),
        first.num_warmup_gradients + 2 * first.num_warmup_hessian_vector_products,
    ]
