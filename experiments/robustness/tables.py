"""What the experiment robustness shows of its runs."""

import collections
import itertools
from typing import Any

import numpy as np

from experiments.robustness.measure import MAX_ERROR, MAX_RHAT, MAX_Z
from experiments.tables import Table, rhat


def summary(records: list[dict[str, Any]]) -> Table:
    """How many runs pass, and whether those that fail say so."""
    rows = []
    for width, sampler in sorted({(one['width'], one['sampler']) for one in records}):
        own = [one for one in records if (one['width'], one['sampler']) == (width, sampler)]
        passed = sum(one['verdict'] == 'pass' for one in own)
        judged = sum(one['verdict'] != 'no reference' for one in own)
        failed = [one for one in own if one['verdict'] == 'fail']
        silent = sum(one['is_warned'] is False for one in failed)
        can_warn = any(one['is_warned'] is not None for one in own)
        rows.append([f'{width:g}', sampler, f'{passed} of {judged}', silent if can_warn else None])
    columns = ['starts within', 'sampler', 'runs that pass', 'runs that fail without a warning']
    return Table('Runs that pass', columns, rows)


def side_by_side(records: list[dict[str, Any]], settings: dict[str, Any]) -> Table:
    """The first sampler beside each of the others, on the same starts."""
    runs = {
        (one['width'], one['sampler'], one['target'], one['seed']): one
        for one in records
        if one['verdict'] != 'no reference'
    }
    first, *others = settings['samplers']
    rows = []
    for width, other in itertools.product(settings['widths'], others):
        pairs = [
            (own, runs[(w, other, target, seed)])
            for (w, sampler, target, seed), own in runs.items()
            if (w, sampler) == (width, first) and (w, other, target, seed) in runs
        ]
        passes = collections.Counter(
            tuple(one['verdict'] == 'pass' for one in pair) for pair in pairs
        )
        both = [pair for pair in pairs if all(one['verdict'] == 'pass' for one in pair)]
        ratios = []
        for figure in ('ess_per_gradient', 'ess_per_second'):
            times = [own[figure] / one[figure] for own, one in both]
            ratios += [float(np.median(times)), min(times)] if times else [None, None]
        outcomes = ((True, True), (True, False), (False, True), (False, False))
        rows.append([f'{width:g}', other, *(passes[outcome] for outcome in outcomes), *ratios])
    return Table(
        title=f'{first} beside the others',
        columns=[
            *('starts within', 'other', 'both pass', f'only {first}', 'only the other', 'neither'),
            *('x / gradient', 'least x / gradient', 'x / s', 'least x / s'),
        ],
        rows=rows,
        note=(
            f'Runs that have a verdict with both. x: min ESS of {first} relative to that of the '
            'other, median and least over the runs that both pass.'
        ),
    )


def posteriors(records: list[dict[str, Any]]) -> Table:
    """One row of all seeds."""
    keys = ('target', 'd', 'width', 'sampler')
    groups = itertools.groupby(records, key=lambda one: tuple(one[key] for key in keys))
    rows = [_row(list(found)) for _, found in groups]
    return Table(
        title='Posteriors with nothing tuned',
        columns=[
            *('posterior', 'd', 'starts within', 'sampler', 'verdict', 'warned', 'max R-hat'),
            *('largest error / sd', 'largest z', 'min ESS', 'min ESS / gradient', 'min ESS / s'),
        ],
        rows=rows,
        note=(
            f'A run passes if R-hat is below {MAX_RHAT} and every mean within {MAX_ERROR} '
            f'standard deviations and {MAX_Z:g} standard errors of the reference (z, of the draws '
            'and the reference together), all of the unconstrained coordinates. Starts '
            'are uniform on (-w, w). Gradients and seconds hold the warm-up, seconds without '
            'compilation, of ours with the arrival. Medians over seeds. '
            'No end: not within the minutes of the settings.'
        ),
    )


def _row(found) -> list[Any]:
    def middle(key):
        values = [one[key] for one in found if one.get(key) is not None]
        return float(np.median(values)) if values else None

    first = found[0]
    max_rhat, error, z = middle('max_rhat'), middle('largest_error'), middle('largest_z')
    return [
        first['target'],
        first['d'],
        f'{first["width"]:g}',
        first['sampler'],
        ', '.join(one['verdict'] for one in found),
        _count_of_warned(found),
        None if max_rhat is None else rhat(max_rhat),
        None if error is None else f'{error:.3f}' if error < 100 else f'{error:,.0f}',
        None if z is None else f'{z:.1f}',
        middle('min_ess'),
        middle('ess_per_gradient'),
        middle('ess_per_second'),
    ]


def _count_of_warned(found) -> str | None:
    """Of runs that may warn; `None` for a sampler that never does."""
    said = [one['is_warned'] for one in found if one['is_warned'] is not None]
    return f'{sum(said)} of {len(found)}' if said else None
