"""Tables as data, and as Markdown."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """A titled table; `note` is printed below it."""

    title: str
    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)
    note: str = ''


def to_markdown(table: Table, level: int = 2) -> str:
    """The table under a heading of `level`, columns padded to line up."""
    cells = [table.columns, *([show(cell) for cell in row] for row in table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]

    def line(row):
        return '| ' + ' | '.join(map(str.ljust, row, widths)) + ' |'

    rule = '|' + '|'.join('-' * (width + 2) for width in widths) + '|'
    lines = [f'{"#" * level} {table.title}', '', line(cells[0]), rule, *map(line, cells[1:])]
    return '\n'.join([*lines, *(['', table.note] if table.note else [])]) + '\n'


def spread(values: Iterable[float]) -> str:
    """The smallest and the largest."""
    values = list(values)
    return f'{show(min(values))} to {show(max(values))}'


def goal(limit: float, *values: float) -> str:
    """A cell of the largest value wanted, which says so where one of `values` is above it."""
    return show(limit) + (': missed' if max(values) > limit else '')


def rhat(value: float, bound: float = math.inf) -> str:
    """A cell of an R-hat, which says so where it is above the `bound` for chains that agree."""
    text = f'{value:.3f}' if value < 100 else f'{value:.3g}'  # chains that never moved: 1e14
    return text + ('' if value <= bound else f': above {bound}, not converged')


def show(cell: Cell) -> str:
    """Three significant digits for floats, thousands separated for ints, '-' for nothing."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return '-'
    if isinstance(cell, int):
        return f'{cell:,}'
    if isinstance(cell, float):
        return f'{cell:,.0f}' if abs(cell) >= 1000 else f'{cell:.3g}'
    return str(cell)
