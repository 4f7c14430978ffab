"""Section: time, memory and efficiency as dimensions and chains grow."""

import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from experiments import figures
from experiments.benchmark import fresh_process
from experiments.benchmark.section import Section
from experiments.config import Config
from experiments.tables import Table, rhat

FIGURE = 'scaling.png'

_PROCESS = 'experiments.benchmark.scaling_process'
_MAX_RHAT = 1.05


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    settings = config.settings
    cases = [
        (preconditioner, num_dims, settings['num_chains'])
        for preconditioner in ('diagonal', 'banded', 'cholesky')
        for num_dims in settings[f'{preconditioner}_dims']
    ]
    cases += [
        (settings['chains_preconditioner'], settings['chains_dims'], num_chains)
        for num_chains in settings['chains']
    ]
    for preconditioner, num_dims, num_chains in dict.fromkeys(cases):
        case = {
            'preconditioner': preconditioner,
            'num_dims': num_dims,
            'num_chains': num_chains,
            'settings': settings,
        }
        key = f'{preconditioner}, d = {num_dims}, {num_chains} chains'
        yield key, functools.partial(in_fresh_process, case)


def in_fresh_process(case: dict[str, Any]) -> dict[str, Any]:
    """Measures one case in a process of its own, whose peak memory is then its own.

    Raises:
      ExperimentError: if the process fails.
    """
    return fresh_process.run(_PROCESS, case, case['preconditioner'])


def slope(sizes: list[float], values: list[float]) -> float | None:
    """Exponent p of values ~ sizes^p by least squares in logarithms; `None` below two points.

    Values of zero, such as memory too little to be seen, do not count.
    """
    points = [(size, value) for size, value in zip(sizes, values, strict=True) if value > 0]
    if len(points) < 2:
        return None
    log_sizes, log_values = np.log(points).T
    return float(np.polyfit(log_sizes, log_values, 1)[0])


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    settings = config.settings
    found = list(results.values())
    by_size = [case for case in found if case['num_chains'] == settings['num_chains']]
    return [
        _case_table(
            f'Scaling in the dimension, {settings["num_chains"]} chains', by_size, settings
        ),
        _slope_table(by_size, settings),
        _case_table(
            f'Scaling in the chains, d = {settings["chains_dims"]}', _by_chains(found, settings)
        ),
    ]


def _by_chains(found, settings):
    wanted = settings['chains_preconditioner'], settings['chains_dims']
    cases = [case for case in found if (case['preconditioner'], case['num_dims']) == wanted]
    return sorted(cases, key=lambda case: case['num_chains'])


def _case_table(title, cases, settings=None) -> Table:
    note = ''
    if settings:
        note = (
            f'Autoregressive Gaussian, phi = {settings["phi"]}; {settings["kernel"]}; '
            f'{settings["num_warmup_steps"]} steps of warm-up. Peak memory: of a fresh process, '
            f'above what it needs for a program of one number, mostly to compile; the largest '
            f'tensor of a step is counted above, with its evaluations. ESS: smallest '
            f'over q and q^2 of {settings["num_watched"]} coordinates spread over the path, '
            f'sampling alone.'
        )
    return Table(
        title=title,
        columns=[
            'preconditioner',
            'd',
            'chains',
            'gradient, us',
            'frozen step, us',
            'adaptive step, us',
            'peak memory, MB',
            'min ESS / gradient',
            'min ESS / s',
            'max R-hat',
        ],
        rows=[
            [
                case['preconditioner'],
                case['num_dims'],
                case['num_chains'],
                1e6 * case['gradient_seconds'],
                1e6 * case['frozen_seconds'],
                1e6 * case['adaptive_seconds'],
                case['peak_bytes'] / 2**20,
                case['ess_per_gradient'],
                case['ess_per_second'],
                rhat(case['max_rhat'], _MAX_RHAT),
            ]
            for case in cases
        ],
        note=note,
    )


def _slope_table(cases, settings) -> Table:
    rows = []
    for preconditioner in dict.fromkeys(case['preconditioner'] for case in cases):
        own = [case for case in cases if case['preconditioner'] == preconditioner]
        least = settings['dense_from' if preconditioner == 'cholesky' else 'sparse_from']
        large = [case for case in own if case['num_dims'] >= least]
        sizes = [case['num_dims'] for case in large]
        slopes = [
            slope(sizes, [case[name] for case in large])
            for name in ('frozen_seconds', 'adaptive_seconds')
        ]
        rows.append([preconditioner, f'd >= {least}', *slopes, *_memory(own)])
    return Table(
        title='Exponents: time grows as d^p',
        columns=[
            'preconditioner',
            'fit to',
            'p, frozen step',
            'p, adaptive step',
            'largest d: bytes / (chains d)',
            'bytes / (d d)',
        ],
        rows=rows,
        note='Bytes: peak memory at the largest d less that at the smallest.',
    )


def _memory(cases) -> list[float]:
    """Bytes that the largest case takes beyond the smallest, by chains x d and by d x d."""
    ordered = sorted(cases, key=lambda case: case['num_dims'])
    num_bytes = ordered[-1]['peak_bytes'] - ordered[0]['peak_bytes']
    size, num_chains = ordered[-1]['num_dims'], ordered[-1]['num_chains']
    return [num_bytes / (num_chains * size), num_bytes / size**2]


def _draw(config: Config, results: dict[str, Any], folder: pathlib.Path) -> list[str]:
    settings = config.settings
    found = list(results.values())
    by_size = [case for case in found if case['num_chains'] == settings['num_chains']]
    by_chains = _by_chains(found, settings)
    if not by_size or not by_chains:
        return []
    figures.scaling(by_size, by_chains, folder / FIGURE)
    return [FIGURE]


SECTION = Section('scaling', _units, _tables, _draw)
