"""The defaults table: many targets, several seeds, no argument tuned."""

import pathlib

import numpy as np

from experiments import samplers, targets
from experiments.config import Config
from experiments.jobs.outcome import Outcome, as_run
from experiments.tables import Table, rhat
from tfp_adaptive.sampling.programs.kernel_choice import MANY_DIMENSIONS, default_kernel


def defaults(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Minimum ESS per gradient of every target and seed, with the other kernel beside it."""
    del folder
    seeds = config.settings['seeds']
    rows, runs = [], []
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        is_short = target.event_size < MANY_DIMENSIONS
        lengths = (1, 2) if is_short else (2, 1)
        kept = default_kernel(target.event_size).keywords['momentum_refreshment']
        default, other = [], []
        for seed in seeds:
            settings = {**config.settings, 'seed': seed, 'num_leapfrog_steps': lengths[1]}
            default.append(samplers.run_default(target, settings, progress)[1])
            other.append(
                samplers.run_adaptive(
                    'other', target, settings, progress, momentum_refreshment=kept
                )[1]
            )
        for performances in (default, other):
            runs += [
                as_run(p, target=label, seed=s) for p, s in zip(performances, seeds, strict=True)
            ]
        rows.append(
            [label, target.event_size, *_row(lengths[0], default), *_row(lengths[1], other)]
        )
    figures = ['L', *(f'seed {seed}' for seed in seeds)]
    figures += ['median', 'max R-hat', 'acceptance', 'warm-up gradients']
    table = Table(
        title='Defaults: minimum ESS per gradient',
        columns=['target', 'd', *figures, 'other L', *figures[1:]],
        rows=rows,
        note=(
            'ESS: smallest over all coordinates of q and of q^2, all chains together; gradients: '
            'those of sampling, of every chain. Warm-up gradients are per chain, and count a '
            'Hessian-vector product as two. L: leapfrog steps; the default takes one below '
            f'{MANY_DIMENSIONS} dimensions and two from there on, and draws six tenths of the '
            "velocity's variance anew at each step, as the other kernel does."
        ),
    )
    return Outcome([table], runs)


def _row(length, performances):
    ratios = [p.ess_per_gradient for p in performances]
    first = performances[0]
    return [
        length,
        *ratios,
        float(np.median(ratios)),
        rhat(max(p.max_rhat for p in performances)),
        float(np.mean([p.accept_prob for p in performances])),
        first.num_warmup_gradients + 2 * first.num_warmup_hessian_vector_products,
    ]
