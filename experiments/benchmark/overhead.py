"""Section: seconds of a step beyond its gradients."""

import functools
import json
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
from experiments.tables import Table, goal, show

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
            seed=seed,
            progress=False,
            jit_compile=programs.JIT_COMPILE,
        )

    loops: dict[str, Callable] = {
        f'{label}, adaptive': functools.partial(adaptive, state, results, seed),
        f'{label}, frozen': functools.partial(frozen, state, start, seed),
    }
    return loops, sample


def _ratios(times, label) -> dict[str, Any]:
    """Medians over repetitions of ratios within each of them, of two also the quartiles."""
    num_gradients = kernels.arguments_of(label)['num_leapfrog_steps']
    frozen, adaptive = times[f'{label}, frozen'], times[f'{label}, adaptive']
    needed = times['value and gradient'] + (num_gradients - 1) * times['gradient']

    overhead = frozen / (num_gradients * times['value and gradient'])
    return {
        'overhead': float(np.median(overhead)),
        'overhead_quartiles': np.quantile(overhead, [0.25, 0.75]).tolist(),
        'overhead_over_needs': float(np.median(frozen / needed)),
        'adaptive': float(np.median(adaptive / frozen)),
        'adaptive_quartiles': np.quantile(adaptive / frozen, [0.25, 0.75]).tolist(),
    }


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
    'quartiles',
    'goal: at most',
    'with one value',
    'adaptive / frozen',
    'quartiles',
    'goal: at most',
]


def _cells(found, label, overhead_goal, adaptive_goal) -> list[Any]:
    """Of a row, but for the target; goals are `None` for kernels that have none."""
    seconds, ratios = found['seconds'], found['kernels'][label]

    def judged(name, limit):
        value = ratios[name]
        return [_range(ratios[f'{name}_quartiles']), None if limit is None else goal(limit, value)]

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
        f'its gradient; goals are for {settings["goal_kernel"]}, at whose length the published '
        f'code was timed. With one value: over one log-density with its gradient and L - 1 '
        f'gradients alone, a harder measure where the value is the dearer half. Ratios below '
        f'1 are possible: the first measure charges a step for log-densities that it does not '
        f'compute, and the compiler may do better on the whole of a step than on a gradient '
        f'alone. Normal numbers: those of a step, one for every coordinate of '
        f'every chain, drawn alone. `sample`: of {settings["num_draws"]:,} draws of all '
        f"chains, which are stored, as the loops' are not; median of three runs. "
        f'Threads: those TensorFlow computes an operation with, `all` for one on every '
        f'core. XLA loops on the same {settings["num_chains"]} chains, in turns, '
        f'{settings["repetitions"]} times about {settings["seconds"]} s each: seconds '
        f'are medians over the turns, ratios medians of those within a turn, which a '
        f'busy machine moves less than the seconds.'
    )


def _range(ends: list[float]) -> str:
    return ' to '.join(map(show, ends))


SECTION = Section('overhead', _units, _tables)


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
