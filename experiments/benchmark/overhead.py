"""Section: seconds of a step beyond its gradients."""

import functools
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import programs, targets
from experiments.benchmark import fresh_process, kernels, stepping
from experiments.benchmark.section import Section
from experiments.config import Config
from experiments.tables import Table, goal, spread

_NUM_STEPS_TO_SETTLE = 300
_JUDGED = ('overhead', 'adaptive')


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for label, options in config.chosen_targets():
        for num_threads in config.settings['threads']:
            case = {'settings': config.settings, 'options': options, 'num_threads': num_threads}
            yield _key(label, num_threads), functools.partial(_in_fresh_processes, label, case)


def _key(label, num_threads) -> str:
    return f'{label}, threads: {num_threads or "all"}'


def _in_fresh_processes(label, case) -> dict[str, Any]:
    """What the processes found, in the middle; of the ratios that have goals also the range.

    TensorFlow takes a number of threads only before it has computed anything, and where a process
    happens to lie in memory, and its threads on cores, makes more of a difference than a turn.
    """
    num_processes = case['settings']['processes']
    runs = [fresh_process.run(__spec__.name, case, label) for _ in range(num_processes)]
    return {
        'num_threads': runs[0]['num_threads'],
        'event_size': runs[0]['event_size'],
        'seconds': _medians([run['seconds'] for run in runs]),
        'kernels': {
            kernel: _of_kernel([run['kernels'][kernel] for run in runs])
            for kernel in runs[0]['kernels']
        },
    }


def _medians(runs) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _of_kernel(runs) -> dict[str, Any]:
    ranges = {
        f'{name}_range': [least(run[name] for run in runs) for least in (min, max)]
        for name in _JUDGED
    }
    return _medians(runs) | ranges


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
    draws = {}
    for label in settings['kernels']:
        kernel = kernels.make(target.log_prob, 2**30, label, preconditioner)
        of_kernel, draws[label] = _step_loops(kernel, label, target, position, settings)
        loops |= of_kernel
    times = stepping.interleave(loops, settings['repetitions'], settings['seconds'])
    return {
        'event_size': target.event_size,
        'seconds': {name: float(np.median(each)) for name, each in times.items()},
        'kernels': {
            label: {**_ratios(times, label), 'draw_seconds': _draw_seconds(draws[label], settings)}
            for label in settings['kernels']
        },
    }


def _draw_seconds(sample, settings) -> float:
    """Of `tfpa.sample` a draw of all chains, which it also stores; median of three runs."""
    num_draws = settings['num_draws']
    return float(np.median([sample(num_draws).timings.sampling for _ in range(3)])) / num_draws


def _step_loops(kernel, label, target, position, settings) -> tuple[dict[str, Callable], Callable]:
    """The kernel in its stationary state, still adapting and frozen; and what draws with it."""
    seed = settings['seed']
    adaptive = stepping.step_loop(kernel)
    state, results = adaptive(
        position, kernel.bootstrap_results(position), seed, _NUM_STEPS_TO_SETTLE
    )
    frozen_kernel = kernel.frozen(results)
    frozen = stepping.step_loop(frozen_kernel)
    start = frozen_kernel.bootstrap_results(state)

    def sample(num_draws):
        return tfpa.sample(
            target.log_prob,
            num_draws,
            0,
            initial_state=state,
            kernel=frozen_kernel,
            num_steps_between_results=0,
            seed=seed,
            progress=False,
            jit_compile=programs.JIT_COMPILE,
        )

    loops: dict[str, Callable] = {
        f'{label}, adaptive': functools.partial(adaptive, state, results, seed),
        f'{label}, frozen': functools.partial(frozen, state, start, seed),
    }
    return loops, sample


def _ratios(times, label) -> dict[str, float]:
    """Medians over repetitions of ratios within each of them."""
    num_gradients = kernels.arguments_of(label)['num_leapfrog_steps']
    frozen, adaptive = times[f'{label}, frozen'], times[f'{label}, adaptive']
    needed = times['value and gradient'] + (num_gradients - 1) * times['gradient']
    ratios = {
        'overhead': frozen / (num_gradients * times['value and gradient']),
        'overhead_over_needs': frozen / needed,
        'adaptive': adaptive / frozen,
    }
    return {name: float(np.median(ratio)) for name, ratio in ratios.items()}


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    settings = config.settings
    aims = {options['label']: options['goal'] for options in config.targets}
    rows = []
    for key, found in results.items():
        target = next(t for t in aims if key == _key(t, found['num_threads']))
        for label in found['kernels']:
            goals: list[Any] = [aims[target], settings['adaptive_goal']]
            if label != settings['goal_kernel']:
                goals = [None, None]
            rows.append([target, *_cells(found, label, *goals)])
    return [Table('Overhead', _COLUMNS, rows, _note(settings))]


_COLUMNS = [
    'target',
    'd',
    'threads',
    'kernel',
    'gradient, us',
    'with value, us',
    'normal numbers, us',
    '`sample`, us a draw',
    'frozen step, us',
    'adaptive step, us',
    'overhead',
    'range',
    'goal: at most',
    'with one value',
    'adaptive / frozen',
    'range',
    'goal: at most',
]


def _cells(found, label, overhead_goal, adaptive_goal) -> list[Any]:
    """Of a row, but for the target; goals are `None` for kernels that have none."""
    seconds, ratios = found['seconds'], found['kernels'][label]

    def judged(name, limit):
        value = ratios[name]
        return [spread(ratios[f'{name}_range']), None if limit is None else goal(limit, value)]

    return [
        found['event_size'],
        found['num_threads'] or 'all',
        label,
        1e6 * seconds['gradient'],
        1e6 * seconds['value and gradient'],
        1e6 * seconds['noise'],
        1e6 * ratios['draw_seconds'],
        1e6 * seconds[f'{label}, frozen'],
        1e6 * seconds[f'{label}, adaptive'],
        ratios['overhead'],
        *judged('overhead', overhead_goal),
        ratios['overhead_over_needs'],
        ratios['adaptive'],
        *judged('adaptive', adaptive_goal),
    ]


def _note(settings) -> str:
    return (
        f'Overhead: seconds of a frozen step over L times those of the log-density with '
        f'its gradient, the pair that a step ends with; goals are for '
        f'{settings["goal_kernel"]}. With one value: over one log-density with its gradient and '
        f'L - 1 gradients alone, a harder measure where the value is the dearer half. Gradients '
        f'alone would be no measure where five of them cost less than the random numbers of a '
        f'step, as in the last rows. Ratios below '
        f'1 are possible: the first measure charges a step for log-densities that it does not '
        f'compute, and the compiler may do better on the whole of a step than on a gradient '
        f'alone. Normal numbers: those of a step, one for every coordinate of '
        f'every chain, drawn alone. `sample`: of {settings["num_draws"]:,} draws of all '
        f"chains, which are stored, as the loops' are not; median of three runs. "
        f'Threads: those TensorFlow computes an operation with, `all` for one on every '
        f'core. XLA loops on the same {settings["num_chains"]} chains, in turns, '
        f'{settings["repetitions"]} times about {settings["seconds"]} s each, in each of '
        f'{settings["processes"]} processes: seconds are medians over the turns, ratios medians '
        f'of those within a turn, which a busy machine moves less than the seconds; then the '
        f'median over processes, and for ratios the range of processes. A goal within that '
        f'range is neither met nor missed for certain.'
    )


SECTION = Section('overhead', _units, _tables)


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
