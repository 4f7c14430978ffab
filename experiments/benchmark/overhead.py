"""Section: seconds of a step beyond its gradients."""

import functools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from experiments import targets
from experiments.benchmark import fresh_process, kernels, stepping
from experiments.benchmark.section import Section
from experiments.config import Config
from experiments.tables import Table, goal

_NUM_STEPS_TO_SETTLE = 300


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for label, options in config.chosen_targets():
        for num_threads in config.settings['threads']:
            case = {'settings': config.settings, 'options': options, 'num_threads': num_threads}
            yield _key(label, num_threads), functools.partial(_in_fresh_process, label, case)


def _key(label, num_threads) -> str:
    return f'{label}, threads: {num_threads or "all"}'


def _in_fresh_process(label, case):
    """TensorFlow takes a number of threads only before it has computed anything."""
    return fresh_process.run(__spec__.name, case, label)


def measure(settings: dict[str, Any], options: dict[str, Any], num_threads: int) -> dict[str, Any]:
    """Seconds of gradients and of steps, and their ratios, on one target.

    Args:
      settings: of the section.
      options: of the target.
      num_threads: that share an operation; 0 for one on every core.
    """
    if num_threads:
        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    found = tf.config.threading.get_intra_op_parallelism_threads()
    return {'num_threads': found, **_measure(settings, options)}


def _measure(settings: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    options = {k: v for k, v in options.items() if k != 'goal'}
    preconditioner = options.pop('preconditioner')
    target = targets.make(**options)
    position = target.initial_state(settings['num_chains'], (settings['seed'], 0))
    loops: dict[str, Callable] = {
        name: functools.partial(stepping.gradient_loop(target.log_prob, with_value), position)
        for name, with_value in (('gradient', False), ('value and gradient', True))
    }
    loops['noise'] = stepping.noise_loop(tuple(position.shape), settings['seed'])
    for label in settings['kernels']:
        kernel = kernels.make(target.log_prob, 2**30, label, preconditioner)
        loops |= _step_loops(kernel, label, position, settings['seed'])
    times = stepping.interleave(loops, settings['repetitions'], settings['seconds'])
    return {
        'event_size': target.event_size,
        'seconds': {name: float(np.median(each)) for name, each in times.items()},
        'kernels': {label: _ratios(times, label) for label in settings['kernels']},
    }


def _step_loops(kernel, label, position, seed) -> dict[str, Callable]:
    """The kernel in its stationary state, still adapting and frozen."""
    adaptive = stepping.step_loop(kernel)
    state, results = adaptive(
        position, kernel.bootstrap_results(position), seed, _NUM_STEPS_TO_SETTLE
    )
    frozen_kernel = kernel.frozen(results)
    frozen = stepping.step_loop(frozen_kernel)
    start = frozen_kernel.bootstrap_results(state)
    return {
        f'{label}, adaptive': functools.partial(adaptive, state, results, seed),
        f'{label}, frozen': functools.partial(frozen, state, start, seed),
    }


def _ratios(times, label) -> dict[str, float]:
    """Medians over repetitions of ratios within each of them."""
    num_gradients = kernels.arguments_of(label)['num_leapfrog_steps']
    frozen, adaptive = times[f'{label}, frozen'], times[f'{label}, adaptive']
    needed = times['value and gradient'] + (num_gradients - 1) * times['gradient']

    def median(numerator, denominator):
        return float(np.median(numerator / denominator))

    return {
        'overhead': median(frozen, num_gradients * times['value and gradient']),
        'overhead_over_needs': median(frozen, needed),
        'adaptive': median(adaptive, frozen),
    }


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    settings = config.settings
    aims = {options['label']: options for options in config.targets}
    rows = []
    for key, found in results.items():
        target = next(t for t in aims if key == _key(t, found['num_threads']))
        for label, ratios in found['kernels'].items():
            seconds, aim = found['seconds'], aims[target]
            rows.append(
                [
                    target,
                    found['event_size'],
                    found['num_threads'] or 'all',
                    label,
                    1e6 * seconds['gradient'],
                    1e6 * seconds['value and gradient'],
                    1e6 * seconds['noise'],
                    1e6 * seconds[f'{label}, frozen'],
                    1e6 * seconds[f'{label}, adaptive'],
                    ratios['overhead'],
                    goal(aim['goal'], ratios['overhead']),
                    ratios['overhead_over_needs'],
                    ratios['adaptive'],
                    goal(settings['adaptive_goal'], ratios['adaptive'])
                    if label == settings['adaptive_kernel']
                    else None,
                ]
            )
    return [
        Table(
            title='Overhead',
            columns=[
                'target',
                'd',
                'threads',
                'kernel',
                'gradient, us',
                'with value, us',
                'normal numbers, us',
                'frozen step, us',
                'adaptive step, us',
                'overhead',
                'goal: at most',
                'over what it needs',
                'adaptive / frozen',
                'goal: at most',
            ],
            rows=rows,
            note=(
                f'Overhead: seconds of a frozen step over L times those of the log-density with '
                f'its gradient; the goals are of this measure. Over what it needs: over one '
                f'log-density with its gradient and L - 1 gradients alone, a harder measure where '
                f'the value is the dearer half. Normal numbers: those of a step, one for every '
                f'coordinate of every chain, drawn alone. Threads: those TensorFlow computes an '
                f'operation with, `all` for one on every core. XLA loops on the same '
                f'{settings["num_chains"]} chains; medians of {settings["repetitions"]} '
                f'interleaved repetitions of about {settings["seconds"]} s.'
            ),
        )
    ]


SECTION = Section('overhead', _units, _tables)


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
