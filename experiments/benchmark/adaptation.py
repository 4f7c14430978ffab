"""Section: gradients a chain spends until its proposal is as good as it gets."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from experiments import effective_size, programs, targets
from experiments.benchmark import kernels
from experiments.benchmark.section import Section
from experiments.config import Config
from experiments.tables import Table, goal


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for label, options in config.chosen_targets():
        for kernel in config.settings['kernels']:
            yield (
                f'{label}: {kernel}',
                functools.partial(_measure, config.settings, label, options, kernel),
            )


def _measure(settings, label, options, kernel_label) -> dict[str, Any]:
    """Every length of the warm-up with every seed; each length has its own schedule."""
    target = targets.make(**options)

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def warm_up(state, num_steps, seed):
        kernel = kernels.make(target.log_prob, num_steps, kernel_label)

        def body(step, state, results):
            step_seed = tf.random.experimental.stateless_fold_in(seed, step)
            return step + 1, *kernel.one_step(state, results, seed=step_seed)

        start = 0, state, kernel.bootstrap_results(state)
        return tf.while_loop(lambda step, *_: step < num_steps, body, start)[1:]

    sample = programs.sampling_program(
        kernels.make(target.log_prob, 0, kernel_label), settings['num_results']
    )
    runs = [
        _run(warm_up, sample, target, settings, num_steps, seed)
        for num_steps in settings['lengths']
        for seed in settings['seeds']
    ]
    return {'target': label, 'kernel': kernel_label, 'runs': runs}


def _run(warm_up, sample, target, settings, num_steps, seed) -> dict[str, Any]:
    state = target.initial_state(settings['num_chains'], (seed, 0))
    state, warm = warm_up(state, tf.constant(num_steps), tf.constant([seed, 1]))
    draws, accepted, results = sample(state, programs.proposal_of(warm), tf.constant([seed, 2]))
    discarded = len(draws) // 10
    min_ess, _ = effective_size.smallest(draws.numpy()[discarded:])
    num_gradients = int(results.info.num_gradients) * (1 - discarded / len(draws))
    return {
        'num_steps': num_steps,
        'seed': seed,
        'cost': int(warm.info.num_gradients) + 2 * int(warm.info.num_hessian_vector_products),
        # a chain that never moves has no effective size
        'ess_per_gradient': np.nan_to_num(min_ess) / (settings['num_chains'] * num_gradients),
        'accept_rate': float(np.mean(accepted)),
    }


def summarise(runs: list[dict[str, Any]], tolerance: float) -> dict[str, Any]:
    """When the efficiency is within `tolerance` of its final value, for good.

    Args:
      runs: as measured.
      tolerance: relative.

    Returns:
      lengths, and for each the mean cost and efficiency over seeds; `final`, the mean of the
      longest; `num_steps` and `cost` of the first length from which on every mean is good enough;
      `worst_cost` likewise if every seed has to be. `None` where only the longest is, which is
      measured against itself.
    """
    lengths = sorted({run['num_steps'] for run in runs})
    by_length = [[run for run in runs if run['num_steps'] == n] for n in lengths]
    costs = [float(np.mean([run['cost'] for run in group])) for group in by_length]
    found = [[run['ess_per_gradient'] for run in group] for group in by_length]
    means = [float(np.mean(group)) for group in found]
    final = means[-1]
    threshold = (1 - tolerance) * final
    index = _first_for_good([mean >= threshold for mean in means])
    worst = _first_for_good([min(group) >= threshold for group in found])
    return {
        'lengths': lengths,
        'costs': costs,
        'means': means,
        'final': final,
        'error': float(np.std(found[-1]) / np.sqrt(len(found[-1])) / final),
        'num_steps': None if index is None else lengths[index],
        'cost': None if index is None else costs[index],
        'worst_cost': None if worst is None else costs[worst],
    }


def _first_for_good(is_good: list[bool]) -> int | None:
    """Index from which all are good; the last alone proves nothing."""
    index = len(is_good)
    while index and is_good[index - 1]:
        index -= 1
    return index if index < len(is_good) - 1 else None


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    settings = config.settings
    lengths = [str(length) for length in settings['lengths']]
    costs, curves = [], []
    for found in results.values():
        summary = summarise(found['runs'], settings['tolerance'])
        costs.append(
            [
                found['target'],
                found['kernel'],
                summary['final'],
                f'{100 * summary["error"]:.1f} %',
                summary['num_steps'],
                _cost(summary, 'cost'),
                _cost(summary, 'worst_cost'),
                goal(settings['goal'], summary['cost'] or math.inf),
            ]
        )
        curves.append(
            [
                found['target'],
                found['kernel'],
                *(mean / summary['final'] for mean in summary['means']),
            ]
        )
    return [
        Table(
            title='Adaptation cost',
            columns=[
                'target',
                'kernel',
                'final min ESS / gradient',
                's.e.',
                'warm-up steps',
                'gradients per chain',
                'worst seed',
                'goal: at most',
            ],
            rows=costs,
            note=(
                f'Until the mean over {len(settings["seeds"])} seeds of the frozen minimum ESS per '
                f'gradient stays within {100 * settings["tolerance"]:.0f} % of that after '
                f'{settings["lengths"][-1]:,} steps; worst seed: until every seed does, which '
                f'they may not at any length, for the ESS itself is an estimate. A '
                f'Hessian-vector product counts as two gradients. {settings["num_chains"]} chains; '
                f'every length is a warm-up of its own, with its own schedule.'
            ),
        ),
        Table(
            title='Efficiency by length of the warm-up, relative to the longest',
            columns=['target', 'kernel', *lengths],
            rows=curves,
        ),
    ]


def _cost(summary, name):
    if summary[name] is not None:
        return round(summary[name])
    return f'above {summary["costs"][-2]:,.0f}' if len(summary['costs']) > 1 else None


SECTION = Section('adaptation', _units, _tables)
