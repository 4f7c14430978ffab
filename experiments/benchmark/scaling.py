"""Section: time, memory and efficiency as dimensions, chains and rows of data grow."""

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
_PEER_PROCESS = 'experiments.benchmark.scaling_peer'
PEER = 'ChEES-HMC'
"""Of BlackJAX, with a diagonal metric: the fastest of the peers on many independent coordinates."""
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
    of_rows = [
        ('cholesky', settings['rows_dims'], settings['num_chains'], num_rows)
        for num_rows in settings['rows']
    ]
    for preconditioner, num_dims, num_chains, num_rows in (
        *((*case, None) for case in dict.fromkeys(cases)),
        *of_rows,
    ):
        case = {
            'num_dims': num_dims,
            'num_chains': num_chains,
            'num_rows': num_rows,
            'settings': settings,
        }
        size = f'd = {num_dims}, {num_chains} chains' + (f', {num_rows} rows' if num_rows else '')
        own = case | {'preconditioner': preconditioner}
        yield f'{preconditioner}, {size}', functools.partial(in_fresh_process, own)
        if settings['peer'] and num_chains > 1:
            # whatever ours learns, the peer learns a diagonal
            yield f'{PEER}, {size}', functools.partial(peer_in_fresh_process, case)


def in_fresh_process(case: dict[str, Any]) -> dict[str, Any]:
    """Measures one case in a process of its own, whose peak memory is then its own.

    Raises:
      ExperimentError: if the process fails.
    """
    return fresh_process.run(_PROCESS, case, case['preconditioner'])


def peer_in_fresh_process(case: dict[str, Any]) -> dict[str, Any]:
    """Measures the peer on one case.

    Raises:
      ExperimentError: if the process fails.
    """
    found = fresh_process.run(_PEER_PROCESS, case, PEER)
    return {key: case[key] for key in ('num_dims', 'num_chains', 'num_rows')} | found


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
    found, peers = _split(results)
    by_size, of_rows = _by_size(found, settings), [case for case in found if case['num_rows']]
    tables = [
        _case_table(
            f'Scaling in the dimension, {settings["num_chains"]} chains', by_size, peers, settings
        ),
        _slope_table(by_size, settings),
        _case_table(
            f'Scaling in the chains, d = {settings["chains_dims"]}',
            _by_chains(found, settings),
            peers,
        ),
    ]
    if of_rows:
        tables.append(_rows_table(of_rows, peers, settings))
    return tables


def _split(results):
    """(our cases, {(d, chains, rows): case of the peer})."""
    found = list(results.values())
    peers = [case for case in found if 'preconditioner' not in case]
    return [case for case in found if 'preconditioner' in case], {_size(c): c for c in peers}


def _size(case):
    return case['num_dims'], case['num_chains'], case['num_rows']


def _by_size(found, settings):
    count = settings['num_chains']
    return [case for case in found if case['num_chains'] == count and not case['num_rows']]


def _by_chains(found, settings):
    wanted = settings['chains_preconditioner'], settings['chains_dims']
    cases = [
        case
        for case in found
        if (case['preconditioner'], case['num_dims']) == wanted and not case['num_rows']
    ]
    return sorted(cases, key=lambda case: case['num_chains'])


_PEER_COLUMNS = (f'{PEER}: ESS / gradient', 'ESS / s', 'R-hat')


def _peer_cells(case, peers):
    peer = peers.get(_size(case))
    if peer is None:
        return [None, None, None]
    rates = [peer['ess_per_gradient'], peer['ess_per_second']]
    return [*rates, rhat(peer['max_rhat'], _MAX_RHAT)]


def _rows_table(cases, peers, settings) -> Table:
    sizes = [case['num_rows'] for case in cases]
    exponent = slope(sizes, [case['frozen_seconds'] for case in cases])
    grows = '' if exponent is None else f' A frozen step grows as rows^{exponent:.2f}.'
    return Table(
        title=f'Scaling in the rows of data, d = {cases[0]["num_dims"]}',
        columns=[
            *('rows', 'gradient, ms', 'frozen step, ms', 'adaptive step, ms', 'peak memory, MB'),
            *('min ESS / gradient', 'min ESS / s', 'max R-hat', *_PEER_COLUMNS),
        ],
        rows=[
            [
                case['num_rows'],
                *(1e3 * case[f'{name}_seconds'] for name in ('gradient', 'frozen', 'adaptive')),
                case['peak_bytes'] / 2**20,
                case['ess_per_gradient'],
                case['ess_per_second'],
                rhat(case['max_rhat'], _MAX_RHAT),
                *_peer_cells(case, peers),
            ]
            for case in cases
        ],
        note=(
            f'Logistic regression on standard normal covariates, {cases[0]["num_chains"]} chains; '
            f'{settings["rows_kernel"]}, {settings["rows_steps"]} steps of warm-up and as many '
            f'draws, of {PEER} as well.{grows}'
        ),
    )


def _case_table(title, cases, peers, settings=None) -> Table:
    note = ''
    if settings:
        note = (
            f'Autoregressive Gaussian, phi = {settings["phi"]}; {settings["kernel"]}; '
            f'{settings["num_warmup_steps"]} steps of warm-up. Peak memory: of a fresh process, '
            f'above what it needs for a program of one number, mostly to compile; the largest '
            f'tensor of a step is counted above, with its evaluations. ESS: smallest '
            f'over q and q^2 of {settings["num_watched"]} coordinates spread over the path, '
            f'sampling alone. {PEER}: of BlackJAX, with a diagonal metric and as many chains, '
            f'steps of warm-up and draws, on the density of TensorFlow.'
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
            *_PEER_COLUMNS,
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
                *_peer_cells(case, peers),
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
    found, _ = _split(results)
    by_size, by_chains = _by_size(found, settings), _by_chains(found, settings)
    if not by_size or not by_chains:
        return []
    figures.scaling(by_size, by_chains, folder / FIGURE)
    return [FIGURE]


SECTION = Section('scaling', _units, _tables, _draw)
