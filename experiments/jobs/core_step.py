"""What each device that makes a step faster saves: a step without it, over a step with all of them.

A device is left out by putting the plain operation in its place while a program is traced. All
programs of a kernel are timed in turns. Beside the wall clock stands the time of the processor,
which a busy machine hardly moves; it does not see a thread that waits for another.
"""

import contextlib
import functools
import importlib
import json
import pathlib
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import targets
from experiments.benchmark import fresh_process, kernels, stepping
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.tables import Table
from tfp_adaptive.internal import chains, log_density, outer_products, random
from tfp_adaptive.kernels import gradient_adaptive

# the module, whose name the package gives to a function of it
_LEAPFROG = importlib.import_module('tfp_adaptive.proposals.leapfrog')
_ALL = 'nothing'
_NUM_STEPS_TO_SETTLE = 300


class _Device(NamedTuple):
    """What to put in the place of a device."""

    places: list[tuple[Any, str, Any]]
    """(module, name in it, plain operation)."""
    is_for_learning: bool = False
    """Whether the programs of frozen kernels are the same without it."""


def core_step(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Times every target in processes of its own."""
    del folder
    runs = []
    for label, options in config.chosen_targets():
        case = {'settings': config.settings, 'options': options}
        for process in range(config.settings['processes']):
            found = fresh_process.run(__spec__.name, case, label)
            runs += [{'target': label, 'process': process, **row} for row in found['rows']]
            if progress:
                print(f'{label}: process {process + 1}', file=sys.stderr, flush=True)
    return Outcome([_table(runs)], runs)


def measure(settings: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """`rows`: seconds of a step of every kernel, by phase, without each device in turn."""
    options = dict(options)
    preconditioner = options.pop('preconditioner')
    target = targets.make(**options)
    rows = []
    for label in settings['kernels']:
        for phase, loops in _programs(target, label, preconditioner, settings).items():
            for device, found in _in_turns(loops, settings).items():
                rows.append({'kernel': label, 'phase': phase, 'without': device, **found})
    return {'rows': rows}


def _programs(target, label, preconditioner, settings) -> dict[str, dict[str, Callable]]:
    """{phase: {device left out: function of the number of steps}}, all from one state."""
    seed = settings['seed']
    position = target.initial_state(settings['num_chains'], (seed, 0))
    make = functools.partial(kernels.make, target.log_prob, 2**30, label, preconditioner)
    learning = stepping.step_loop(make())
    state, results = learning(
        position, make().bootstrap_results(position), seed, _NUM_STEPS_TO_SETTLE
    )
    found: dict[str, dict[str, Callable]] = {'adaptive': {}, 'frozen': {}}
    for device in [_ALL, *(settings['devices'] or DEVICES)]:
        frozen = make().frozen(results)
        with without(device):
            loop = functools.partial(stepping.step_loop(make()), state, results, seed)
            found['adaptive'][device] = loop
            loop(1)
            if device == _ALL or not DEVICES[device].is_for_learning:
                start = frozen.bootstrap_results(state)
                loop = functools.partial(stepping.step_loop(frozen), state, start, seed)
                found['frozen'][device] = loop
                loop(1)
    return found


@contextlib.contextmanager
def without(device: str) -> Iterator[None]:
    """Programs traced in here do without a device; `nothing` leaves all of them in place."""
    with contextlib.ExitStack() as stack:
        for place in DEVICES[device].places if device != _ALL else []:
            stack.enter_context(mock.patch.object(*place))
        yield


def _in_turns(loops, settings) -> dict[str, dict[str, float]]:
    """{device: the least of `_spent` in a turn, a step}."""
    num_steps = settings['num_steps']
    turns: dict[str, list] = {device: [] for device in loops}
    for _ in range(settings['repetitions']):
        for device, loop in loops.items():
            before = _spent()
            tf.nest.map_structure(np.asarray, loop(num_steps))
            turns[device].append(_spent() - before)
    names = 'seconds', 'processor_seconds', 'waits'
    return {
        device: dict(zip(names, (np.min(each, axis=0) / num_steps).tolist(), strict=True))
        for device, each in turns.items()
    }


def _spent():
    """By the clock, of the processor, and how often a thread of this process waited for another."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return np.array([time.perf_counter(), time.process_time(), usage.ru_nvcsw])


def _at_once(first, then, *, since, limit):
    del first, since, limit
    return then


def _split(seed, count):
    return tf.unstack(tfp.random.split_seed(seed, count))


def _normal(shape, seed, dtype):
    return tf.random.stateless_normal(shape, seed, dtype=dtype)


def _uniform(shape, seed, dtype):
    return tf.random.stateless_uniform(shape, seed, minval=1e-7, dtype=dtype)


def _bits(shape, seed, dtype):
    draws = tf.random.stateless_uniform(shape, seed, minval=0, maxval=2, dtype=tf.int32)
    return tf.cast(draws, dtype)


def _sum_of_row(x):
    return tf.reduce_sum(x, axis=-1)


def _diagonal(pairs):
    left, right = outer_products.stack(pairs)
    return tf.reduce_sum(left * right, axis=0)


DEVICES: dict[str, _Device] = {
    'a move after its noise': _Device([(_LEAPFROG, 'in_sequence', _at_once)]),
    'a gradient after its value': _Device([(log_density, 'in_sequence', _at_once)]),
    'entropy after the move': _Device([(gradient_adaptive, 'in_sequence', _at_once)], True),
    'own random numbers': _Device(
        [
            (random, 'split', _split),
            (random, 'normal', _normal),
            (random, 'uniform', _uniform),
            (random, 'bits', _bits),
        ]
    ),
    'row sums by a product': _Device([(chains, 'sum_of_row', _sum_of_row)]),
    'diagonals group by group': _Device([(outer_products, 'diagonal', _diagonal)], True),
}
"""By name; `internal.in_sequence` is three of them, one for each place it is used in."""


def _table(runs) -> Table:
    groups: dict[tuple, list] = {}
    for run in runs:
        key = run['target'], run['kernel'], run['phase']
        groups.setdefault((*key, run['without']), []).append(run)
    rows = []
    for key, group in groups.items():
        whole = groups[(*key[:3], _ALL)]
        cells: list[Any] = []
        for clock in ('seconds', 'processor_seconds'):
            least, reference = (min(run[clock] for run in each) for each in (group, whole))
            cells += [1e6 * least, least / reference]
        rows.append([*key, *cells, min(run['waits'] for run in group)])
    columns = [
        *('target', 'kernel', 'phase', 'without', 'us a step', 'x', 'processor us', 'x', 'waits'),
    ]
    return Table(
        'Devices of the core step',
        columns,
        rows,
        f'Least figures of a turn; x: over those without nothing. TensorFlow {tf.__version__}.',
    )


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
