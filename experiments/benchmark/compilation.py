"""Section: what the first call costs, and that later ones compile nothing."""

import functools
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import programs, targets
from experiments.benchmark import counting, fresh_process, kernels, stepping
from experiments.benchmark.section import Section
from experiments.config import Config
from experiments.tables import Table, goal, spread

LATER = ('another seed', 'another number of draws', 'another length of the warm-up')


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for label in config.settings['kernels']:
        case = {'settings': config.settings, 'options': config.target, 'label': label}
        yield label, functools.partial(_in_fresh_processes, label, case)


def _in_fresh_processes(label, case) -> dict[str, Any]:
    """A process that has compiled before is faster at it."""
    num_processes = case['settings']['processes']
    runs = [fresh_process.run(__spec__.name, case, label) for _ in range(num_processes)]
    return {
        'seconds': {name: [run['seconds'][name] for run in runs] for name in runs[0]['seconds']},
        'sample': {
            call: {
                'seconds': statistics.median(run['sample'][call]['seconds'] for run in runs),
                'copies': max(run['sample'][call]['copies'] for run in runs),
            }
            for call in runs[0]['sample']
        },
    }


def measure(settings: dict[str, Any], options: dict[str, Any], label: str) -> dict[str, Any]:
    """Seconds of the programs of one kernel, and what `sample` compiles.

    Args:
      settings: of the section.
      options: of the target.
      label: of `kernels`.
    """
    target = targets.make(**options)
    state = target.initial_state(settings['num_chains'], (settings['seed'], 0))
    # the first program of a process pays for starting the compiler
    tf.function(lambda x: x + 1, jit_compile=True)(state)
    return {
        'seconds': _compile_programs(target, state, settings, label),
        'sample': _compile_sample(target, state, settings, label),
    }


def _compile_programs(target, state, settings, label) -> dict[str, float]:
    """Seconds of the first call less those of the second, of both programs."""
    num_steps = settings['num_steps']
    kernel = kernels.make(target.log_prob, num_steps, label)
    warm_up = programs.warm_up_program(kernel, num_steps)
    first = stepping.seconds_of(warm_up, state, tf.constant([0, 1]))
    second = stepping.seconds_of(warm_up, state, tf.constant([0, 2]))
    state, results = warm_up(state, tf.constant([0, 3]))
    learned = programs.proposal_of(results)
    sample = programs.sampling_program(kernel, num_steps)
    first_draws = stepping.seconds_of(sample, state, learned, tf.constant([0, 4]))
    second_draws = stepping.seconds_of(sample, state, learned, tf.constant([0, 5]))
    return {'warm-up': first - second, 'sampling': first_draws - second_draws}


def _compile_sample(target, state, settings, label) -> dict[str, Any]:
    """Compile seconds and copies of the target of a first `tfpa.sample`, and of later ones."""
    counter = counting.TraceCounter(target.log_prob)
    num_steps, found = settings['num_steps'], {}
    for name, seed, num_results, num_warmup_steps in (
        ('first', 1, num_steps, num_steps),
        (LATER[0], 2, num_steps, num_steps),
        (LATER[1], 2, 2 * num_steps, num_steps),
        (LATER[2], 2, num_steps, 2 * num_steps),
    ):
        before = counter.num_traced
        run = tfpa.sample(
            counter,
            num_results,
            num_warmup_steps,
            initial_state=state,
            kernel=_maker(label, num_warmup_steps),
            num_steps_between_results=0,
            seed=(seed, 0),
            progress=False,
        )
        found[name] = {
            'seconds': run.timings.compile,
            'copies': counter.num_traced - before,
        }
    return found


def _maker(label, num_adaptation_steps):
    return lambda log_prob: kernels.make(log_prob, num_adaptation_steps, label)


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    rows = []
    for label, found in results.items():
        first, *later = (found['sample'][name] for name in ('first', *LATER))
        seconds = [found['seconds'][name] for name in ('warm-up', 'sampling')]
        rows.append(
            [
                label,
                *(cell for each in seconds for cell in (statistics.median(each), spread(each))),
                goal(config.settings['goal'], *map(statistics.median, seconds)),
                first['seconds'],
                first['copies'],
                *(f'{each["copies"]} ({each["seconds"]:.2g} s)' for each in later),
            ]
        )
    return [
        Table(
            title='Compile time',
            columns=[
                'kernel',
                'warm-up program, s',
                'range',
                'sampling program, s',
                'range',
                'goal: each at most',
                '`sample`, both, s',
                'copies of the target',
                *(f'compiled for {name}' for name in LATER),
            ],
            rows=rows,
            note=(
                f'Target: {config.target["data"]}. Programs of `tfp.mcmc.sample_chain`: first call '
                f'less second, medians and ranges of {config.settings["processes"]} processes, '
                'each of which has compiled nothing of the kind before. `sample`: compilation '
                'alone, without tracing the start and the checks of the target; how often it then '
                'traces the target again, and the seconds it spends.'
            ),
        )
    ]


SECTION = Section('compilation', _units, _tables)


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
