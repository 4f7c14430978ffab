"""The posterior as a table: means, spreads, and how well they are known."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import arguments
from tfp_adaptive.sampling import coordinates

_COUNTS = ('ess', 'ess_sq')


@dataclass(frozen=True)
class Summary:
    """A table with a row for every coordinate; prints as text, and as HTML in notebooks.

    A table of more than `max_rows` coordinates prints the worst of them, by R-hat and then by
    effective sample size. `pandas.DataFrame(summary.columns, index=summary.names)` is all of it.

    Attributes:
      names: D labels, such as 'w[3]'.
      columns: {heading: [D]}: mean, mcse (the Monte Carlo standard error of the mean), sd,
        quantiles, ess, ess_sq (of squared deviations) and rhat, as in `Diagnostics`.
      title: what the run was.
      notes: sentences printed below the table.
      max_rows: most rows to print.

    Example:
      >>> summary = run.summary()
      >>> float(summary.columns['rhat'].max()) < 1.5
      True
    """

    names: tuple[str, ...]
    columns: dict[str, np.ndarray]
    title: str
    notes: tuple[str, ...] = ()
    max_rows: int = 25

    def __str__(self) -> str:
        rows = self._cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            '  '.join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in rows
        ]
        return '\n'.join([self.title, '', *lines, *self._footer()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        cells = ''.join(f'<th>{html.escape(cell)}</th>' for cell in head)
        rows = ''.join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            + ''.join(f'<td style="text-align:right">{cell.strip()}</td>' for cell in row)
            + '</tr>'
            for name, *row in body
        )
        notes = ''.join(f'<p>{html.escape(line)}</p>' for line in self._footer() if line)
        return (
            f'<p>{html.escape(self.title)}</p><table><thead><tr>{cells}</tr></thead>'
            f'<tbody>{rows}</tbody></table>{notes}'
        )

    def _cells(self) -> list[list[str]]:
        """Header and rows; numbers of a column have their decimal points below one another."""
        shown = self._shown()
        table = [[''] + [self.names[i] for i in shown]]
        decimals = [_decimals(self.columns['mcse'][i], self.columns['sd'][i]) for i in shown]
        for heading, values in self.columns.items():
            if heading in _COUNTS:
                cells = [_fixed(values[i], 0) for i in shown]
            elif heading == 'rhat':
                cells = [_fixed(values[i], 3) for i in shown]
            else:
                cells = [_fixed(values[i], d) for i, d in zip(shown, decimals, strict=True)]
            table.append([heading, *_align(cells)])
        return [list(row) for row in zip(*table, strict=True)]

    def _shown(self) -> np.ndarray:
        if len(self.names) <= self.max_rows:
            return np.arange(len(self.names))
        least = np.fmin(self.columns['ess'], self.columns['ess_sq'])
        return np.lexsort([least, -np.round(self.columns['rhat'], 3)])[: self.max_rows]

    def _footer(self) -> list[str]:
        lines = []
        if len(self.names) > self.max_rows:
            lines.append(
                f'The {self.max_rows} of {len(self.names):,} coordinates with the largest R-hat; '
                'all are in `columns`.'
            )
        return ['', *lines, *self.notes] if lines or self.notes else []


def summarise(
    run: Any, title: str, parts: Sequence[str] | None, quantiles: Sequence[float], max_rows: int
) -> Summary:
    """A `Summary` of a run.

    Args:
      run: a `SampleRun`.
      title: what it was, in a line.
      parts: names of the parts of its state to show, or `None` for all.
      quantiles: probabilities in [0, 1].
      max_rows: most rows to print.

    Raises:
      ValueError: for a part that does not exist, a quantile outside [0, 1], or no rows.
    """
    arguments.count('max_rows', max_rows, least=1)
    levels = np.asarray(quantiles)
    is_real = levels.ndim == 1 and levels.dtype.kind in 'if'
    if not is_real or not np.all((levels >= 0) & (levels <= 1)):
        raise ValueError(f'`quantiles` must be a list of numbers in [0, 1]; got {quantiles!r}.')
    names = [parts] if isinstance(parts, str) else run.part_names if parts is None else list(parts)
    if not names or any(name not in run.part_names for name in names):
        raise ValueError(
            f'`parts` must name parts of the state, which are {", ".join(run.part_names)}; got '
            f'{names}.'
        )

    def chosen(structure):
        by_name = dict(zip(run.part_names, tf.nest.flatten(structure), strict=True))
        return [by_name[name] for name in names]

    draws, batch_rank = chosen(run.states), len(run.batch_shape)
    labels: list[str] = []
    for name, part in zip(names, draws, strict=True):
        labels += coordinates.labels(name, np.shape(part)[1 + batch_rank :])
    moments = [_moments(part, batch_rank, quantiles) for part in draws]
    mean, sd, *of_levels = np.concatenate(moments, axis=1)
    diagnostics = run.diagnostics
    ess, ess_of_squares, rhat = (
        np.concatenate([np.ravel(part) for part in chosen(figure)])
        for figure in (diagnostics.ess, diagnostics.ess_of_squares, diagnostics.rhat)
    )
    with np.errstate(divide='ignore', invalid='ignore'):
        columns = {'mean': mean, 'mcse': sd / np.sqrt(ess), 'sd': sd}
    columns |= {f'{100 * q:g}%': level for q, level in zip(quantiles, of_levels, strict=True)}
    columns |= {'ess': ess, 'ess_sq': ess_of_squares, 'rhat': rhat}
    notes = tuple(f'Warning: {sentence}' for sentence in run.warnings)
    return Summary(tuple(labels), columns, title, notes, max_rows)


def _moments(part, batch_rank, quantiles) -> np.ndarray:
    """[2 + number of quantiles, D]: means, standard deviations, quantiles."""
    draws = coordinates.as_matrix(part, batch_rank)
    blocks = []
    for columns in coordinates.column_blocks(draws, num_copies=2):
        block = np.asarray(columns, np.float64)
        block = block.reshape([-1, block.shape[-1]])
        sd = block.std(axis=0, ddof=1) if len(block) > 1 else np.full(block.shape[1], np.nan)
        blocks.append([block.mean(axis=0), sd, *np.quantile(block, quantiles, axis=0)])
    return np.concatenate([np.array(block) for block in blocks], axis=1)


def _decimals(mcse: float, sd: float) -> int | None:
    """Decimals that show two digits of the standard error; `None` for powers of ten."""
    error = mcse if np.isfinite(mcse) and mcse > 0 else sd / 100
    if not (np.isfinite(error) and error > 0):
        return 3
    decimals = 1 - math.floor(math.log10(error))
    return None if decimals > 7 or decimals < -4 else max(decimals, 0)


def _fixed(value: float, decimals: int | None) -> str:
    if not np.isfinite(value):
        return '-' if np.isnan(value) else str(value)
    return f'{value:.3e}' if decimals is None else f'{value:.{decimals}f}'


def _align(cells: list[str]) -> list[str]:
    """Pads on the right, so that right-justified numbers have their points below one another."""
    tails = [len(cell) - cell.find('.') if '.' in cell else 0 for cell in cells]
    return [cell + ' ' * (max(tails) - tail) for cell, tail in zip(cells, tails, strict=True)]
