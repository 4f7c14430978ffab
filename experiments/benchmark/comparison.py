"""Tables of samplers side by side: one for every target, and where we stand in all of them."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.benchmark import ours
from experiments.config import Config
from experiments.tables import Table, rhat

_RESPECTS = {
    'ess_per_gradient': 'minimum ESS per gradient',
    'ess_per_second': 'minimum ESS per second',
    'ess_per_second_in_all': 'minimum ESS per second with warm-up',
}
_STANDINGS_NOTE = (
    'The best row of ours against the best of the peers in each respect, of those that converged: '
    'numbers of leapfrog steps and of chains, and the metrics of peers, have rows of their own, '
    'below. Below 1 the peer is first. `of any R-hat`: the ratio to the best peer, converged or '
    'not. WindowedNUTS and WindowedHMC are baselines of our own, which have rows below and are no '
    'part of this. `default`: that of what `sample` does by default, with ten chains; nothing '
    'where the preconditioner was chosen for the target (diagonal for anisotropic-1000; the kernel '
    'of its experiment for the volatility). SNAPER-HMC and ChEES-HMC run ten and 64 chains, MEADS '
    '64, the others ten. GIST takes the step size and the metric of BlackJAX NUTS, and one '
    'leapfrog step where it chooses the step size. '
    'Ours draw ten times as often as a peer with ten chains, on caravan fifty times, as a draw of '
    'ours costs far fewer gradients; a bound on R-hat is easier to meet with more draws, and the '
    'smallest of many estimates lies less below what it estimates. nutpie and '
    "BlackJAX's low-rank NUTS compute in float64, all others in float32. "
    'Seconds of samplers of TFP, whose warm-up and sampling are one '
    'program, are divided by their leapfrog steps, and so are those of a run of nutpie that takes '
    'more than five minutes. Of a shorter one the warm-up is timed by itself; those that take '
    'seconds are repeated up to five times, and the least counts. Warm-ups hold all there is '
    'before the first draw, of ours also the checks of the target; compilation, which tables show '
    'apart, also holds tracing.'
)


@dataclasses.dataclass(frozen=True)
class Row:
    """A sampler on a target, medians over seeds.

    Attributes:
      sampler: label.
      is_ours: or a peer's.
      unavailable: why there are no figures, or ''.
      ess_per_gradient: minimum ESS by all gradients of all chains while sampling.
      ess_per_second: minimum ESS by seconds of sampling.
      ess_per_second_in_all: the same rate for a wanted minimum ESS, seconds of warm-up included.
      warmup_gradients: per chain.
      max_rhat: worst seed.
      is_converged: whether the chains of every seed agree.
      shape: chains x draws.
      compile_seconds: largest.
      num_seeds: of which the figures are medians.
      is_baseline: whether it is ours, and has no part in the standings.
    """

    sampler: str
    is_ours: bool
    unavailable: str = ''
    ess_per_gradient: float = math.nan
    ess_per_second: float = math.nan
    ess_per_second_in_all: float = math.nan
    warmup_gradients: float = math.nan
    max_rhat: float = math.nan
    is_converged: bool = False
    shape: str = ''
    compile_seconds: float = math.nan
    num_seeds: int = 1
    is_baseline: bool = False


def summarise(runs: list[dict[str, Any]], wanted_ess: float, max_rhat: float) -> Row:
    """The row of one sampler on one target.

    Args:
      runs: results of its units, one a seed.
      wanted_ess: for which the warm-up is paid.
      max_rhat: of chains that agree.
    """
    first = runs[0]
    for run in runs:
        if 'unavailable' in run:
            return Row(first['sampler'], first['is_ours'], run['unavailable'])
    # chains that never move have no effective size and no R-hat
    sizes = np.array([run['min_ess'] or 0.0 for run in runs])
    rhats = [math.inf if run['max_rhat'] is None else run['max_rhat'] for run in runs]

    def column(name):
        return np.array([run[name] for run in runs])

    gradients = column('num_chains') * column('num_gradients')
    rates = sizes / column('sampling_seconds')
    with np.errstate(divide='ignore'):
        rates_in_all = wanted_ess / (column('warmup_seconds') + wanted_ess / rates)
    return Row(
        sampler=first['sampler'],
        is_ours=first['is_ours'],
        ess_per_gradient=float(np.median(sizes / gradients)),
        ess_per_second=float(np.median(rates)),
        ess_per_second_in_all=float(np.median(rates_in_all)),
        warmup_gradients=float(np.median(column('num_warmup_gradients'))),
        max_rhat=max(rhats),
        is_converged=max(rhats) <= max_rhat,
        shape=f'{first["num_chains"]} x {first["num_results"]}',
        compile_seconds=float(max(column('compile_seconds'))),
        num_seeds=len(runs),
        is_baseline=first.get('is_baseline', False),
    )


def tables(
    config: Config, results: dict[str, Any], samplers: Mapping[str, Sequence[str]]
) -> list[Table]:
    """All tables of the section.

    Args:
      config: of the section.
      results: of its units.
      samplers: {target: labels of all its samplers}, in the order of the rows; those without
        results are named below the tables.
    """
    settings = config.settings
    by_target: dict[str, dict[str, list]] = {}
    for run in results.values():
        by_target.setdefault(run['target'], {}).setdefault(run['sampler'], []).append(run)
    rows = {
        target: [
            summarise(by_target[target][label], settings['wanted_ess'], settings['max_rhat'])
            for label in labels
            if label in by_target[target]
        ]
        for target, labels in samplers.items()
        if target in by_target
    }
    missing = {
        target: [label for label in labels if label not in by_target.get(target, {})]
        for target, labels in samplers.items()
    }
    sizes = {run['target']: run['event_size'] for run in results.values() if 'event_size' in run}
    with_default = {
        options['label']
        for options in config.targets
        if options['preconditioner'] == ours.DEFAULT_PRECONDITIONER
    }
    standings = [
        Table(
            title=f'Where we stand: {what}',
            columns=[
                'target',
                'd',
                'ours',
                'ESS',
                'best peer',
                'ESS',
                'ratio',
                'of any R-hat',
                'default',
            ],
            rows=[
                _standing(name, t, sizes.get(t), found, has_default=t in with_default)
                for t, found in rows.items()
            ],
        )
        for name, what in _RESPECTS.items()
    ]
    standings[-1] = dataclasses.replace(standings[-1], note=_standings_note(rows, missing))
    each = (_target_table(t, sizes.get(t), r, missing[t], settings) for t, r in rows.items())
    return [*standings, *each]


def _standings_note(rows, missing) -> str:
    absent = [
        target if target not in rows else f'on {target} {", ".join(labels)}'
        for target, labels in missing.items()
        if labels
    ]
    return f'{_STANDINGS_NOTE}{_not_measured(absent, "; ")}'


def _not_measured(names, separator=', ') -> str:
    return f' Not measured: {separator.join(names)}.' if names else ''


def _standing(respect, target, size, rows, has_default) -> list[Any]:
    peers = [row for row in rows if not (row.is_ours or row.unavailable)]
    rows = [row for row in rows if row.is_converged]
    own = _best([row for row in rows if row.is_ours and not row.is_baseline], respect)
    default = next((row for row in rows if has_default and row.sampler == ours.DEFAULT), None)
    peer = _best([row for row in peers if row.is_converged], respect)
    cells: list[Any] = [target, size]
    for row in (own, peer):
        cells += [row.sampler, getattr(row, respect)] if row else [None, None]
    return [
        *cells,
        _ratio(respect, own, peer),
        _ratio(respect, own, _best(peers, respect)),
        _ratio(respect, default, peer),
    ]


def _best(rows: list[Row], name: str) -> Row | None:
    return max(rows, key=lambda row: getattr(row, name), default=None)


def _ratio(respect, row, other) -> float | None:
    return getattr(row, respect) / getattr(other, respect) if row and other else None


def _target_table(target, size, rows, missing, settings) -> Table:
    num_seeds = max(row.num_seeds for row in rows)
    runs = f'medians over {num_seeds} seeds, R-hat the worst of them'
    if num_seeds == 1:
        runs = 'one run each'
    return Table(
        title=f'{target}, d = {size}',
        columns=[
            'sampler',
            'min ESS / gradient',
            'min ESS / s',
            'with warm-up',
            'gradients in warm-up',
            'max R-hat',
            'chains x draws',
            'compile s',
        ],
        rows=[_cells(row, settings['max_rhat']) for row in rows],
        note=(
            f'ESS: smallest over all coordinates of q and q^2, all chains together; {runs}. '
            f'Gradients in warm-up: per chain. With warm-up: until a minimum ESS of '
            f'{settings["wanted_ess"]:,.0f}. Compilation is apart.{_not_measured(missing)}'
        ),
    )


def _cells(row: Row, max_rhat: float) -> list[Any]:
    if row.unavailable:
        return [row.sampler, row.unavailable, *[None] * 6]
    return [
        row.sampler,
        row.ess_per_gradient,
        row.ess_per_second,
        row.ess_per_second_in_all,
        round(row.warmup_gradients),
        rhat(row.max_rhat, max_rhat),
        row.shape,
        row.compile_seconds,
    ]
