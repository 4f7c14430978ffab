"""Section: from the start of a process to the first effective draws, and the same once more."""

import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from experiments import effective_size, targets
from experiments.benchmark import fresh_process, ours, peers
from experiments.benchmark.sampling import Problem, Sampler
from experiments.benchmark.section import Section
from experiments.config import Config, ConfigError
from experiments.errors import ExperimentError
from experiments.optional import MissingPackageError
from experiments.tables import Table, rhat

OURS = '`sample`'
_PARTS = ('imports', 'compile', 'warmup', 'draws')


def _makers() -> dict[str, Callable[[Problem], Sampler]]:
    default = functools.partial(ours.make, ours.DEFAULT)
    own = {OURS: lambda problem: default(problem.num_chains, problem)}
    return {**own, **peers.BASELINES, **peers.PEERS}


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    settings = config.settings
    if unknown := set(settings['samplers']) - set(_makers()):
        raise ConfigError(
            f'samplers={",".join(sorted(unknown))} names no sampler; there are '
            f'{"; ".join(_makers())}.'
        )
    for target, options in config.chosen_targets():
        for label in settings['samplers']:
            case = {'settings': settings, 'options': options, 'label': label}
            found = {'target': target, 'sampler': label}
            yield f'{target}: {label}', functools.partial(_in_fresh_processes, found, case)


def _in_fresh_processes(found, case) -> dict[str, Any]:
    """Processes that find nothing compiled, then others that find what one has left."""

    def run(environment):
        started = {**case, 'started': time.time()}
        return fresh_process.run(__spec__.name, started, case['label'], environment)

    count = case['settings']['processes']
    try:
        first = [run({}) for _ in range(count)]
    except ExperimentError as error:
        if case['label'] not in peers.PEERS:
            raise
        return {**found, 'unavailable': f'failed: {error}'}
    unavailable = next((one['unavailable'] for one in first if 'unavailable' in one), None)
    if unavailable is not None:
        return {**found, 'unavailable': unavailable}
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            'TF_XLA_FLAGS': f'--tf_xla_persistent_cache_directory={folder}',
            'JAX_COMPILATION_CACHE_DIR': folder,
            'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
        }
        run(environment)
        again = [run(environment) for _ in range(count)]
    return {**found, 'first': first, 'again': again}


def measure(
    settings: dict[str, Any], options: dict[str, Any], label: str, started: float
) -> dict[str, Any]:
    """Seconds of each part of a run in this process.

    Args:
      settings: of the section.
      options: of the target.
      label: of the sampler.
      started: time of day at which the process was started.
    """
    problem = Problem(
        target=targets.make(**options),
        arguments=options,
        preconditioner=ours.DEFAULT_PRECONDITIONER,
        num_chains=settings['num_chains'],
        num_warmup_steps=settings['num_warmup_steps'],
        num_results=settings['num_results'],
        num_short_results=settings['num_results'],
        max_seconds=60 * settings['max_minutes'],
    )
    try:
        sample = _makers()[label](problem)
    except MissingPackageError as error:
        return {'unavailable': str(error)}
    imports = time.time() - started
    draws = sample(settings['seed'])
    min_ess, max_rhat = effective_size.smallest(draws.states.astype('float32'))
    if not min_ess > 0:
        return {'unavailable': 'chains that never moved'}
    return {
        'imports': imports,
        'compile': draws.compile_seconds,
        'warmup': draws.warmup_seconds,
        'draws': draws.sampling_seconds * settings['wanted_ess'] / min_ess,
        'max_rhat': max_rhat,
    }


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    settings = config.settings
    return [
        Table(
            title=f'Seconds until the minimum ESS is {settings["wanted_ess"]:g}',
            columns=[
                *('target', 'sampler', 'imports', 'compilation', 'warm-up', 'draws', 'in all'),
                *('in all, compiled before', 'max R-hat'),
            ],
            rows=[_row(found) for found in results.values()],
            note=(
                f'Fresh processes (medians of {settings["processes"]}), '
                f'{settings["num_chains"]} chains, {settings["num_warmup_steps"]:,} steps of '
                'warm-up. Imports: from the start of the process until the sampler is made. '
                'Compilation: the first call less a second one in the same process, tracing '
                'included. Draws: their seconds at the rate of the run. Compiled before: with a '
                'folder in which an earlier process has left its compiled programs '
                '(`TF_XLA_FLAGS=--tf_xla_persistent_cache_directory`, or '
                '`JAX_COMPILATION_CACHE_DIR`); nutpie keeps none there.'
            ),
        )
    ]


def _row(found) -> list[Any]:
    row = [found['target'], found['sampler']]
    if 'unavailable' in found:
        return [*row, found['unavailable'], *[None] * 6]
    parts = [statistics.median(run[part] for run in found['first']) for part in _PARTS]
    return [
        *(*row, *parts, _in_all(found['first']), _in_all(found['again'])),
        rhat(max(run['max_rhat'] for run in found['first'])),
    ]


def _in_all(runs) -> float:
    return statistics.median(sum(run[part] for part in _PARTS) for run in runs)


SECTION = Section('cold_start', _units, _tables)


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
