"""R-hat while a run goes on, from moments of blocks of draws: cheap, and for the eye alone."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tfp_adaptive.sampling.coordinates import as_matrix

_MAX_BLOCKS = 32
_MIN_BLOCKS = 4
_MAX_COORDINATES = 2**13
_MAX_ENTRIES = 2**15
_BLOCK_ROWS = 2**8


class _Block(NamedTuple):
    """Some rows of each coordinate of each chain: how many, their mean, and their squares."""

    num_rows: int
    mean: np.ndarray
    squares: np.ndarray
    """Sum of squared deviations from the mean."""


def rhat_figures(
    num_parts: int, batch_rank: int, before: list | None = None
) -> Callable[[list], dict[str, float]]:
    """A function that takes the rows of one chunk after the other and shows R-hat so far.

    Args:
      num_parts: leading leaves of a row that are parts of the state.
      batch_rank: number of chain dimensions.
      before: leaves of the rows that were there before. Default `None`: there were none.

    Returns:
      (leaves, each [rows, *batch, ...]) -> {'R-hat': value}, empty before there is one.
    """
    running = RunningRhat(batch_rank)
    for first in range(0, len(before[0]) if before else 0, _BLOCK_ROWS):
        running.update([leaf[first : first + _BLOCK_ROWS] for leaf in (before or [])[:num_parts]])

    def figures(leaves):
        running.update(leaves[:num_parts])
        value = running.value()
        return {} if value is None else {'R-hat': value}

    return figures


class RunningRhat:
    """The largest split R-hat of the draws it was given, without ranks and without the draws.

    Rows go into at most 32 blocks of equal length, which double in length when they are too many,
    so that the draws so far can be cut in the middle at any time. To cost less than a millisecond a
    chunk it looks at no more than 8192 coordinates over all chains, evenly spaced, and at no more
    than about 32,768 numbers of a chunk.
    """

    def __init__(self, batch_rank: int):
        """Initializes this statistic with no draws.

        Args:
          batch_rank: number of chain dimensions of the draws.
        """
        self._batch_rank = batch_rank
        self._length = 1
        self._blocks: list[_Block] = []
        self._open: list[_Block] = []
        self._num_open = 0

    def update(self, parts: list[np.ndarray]) -> None:
        """Takes in more draws.

        Args:
          parts: each [rows, *batch, *event].
        """
        rows = self._coordinates(parts)
        while len(self._blocks) + len(rows) / self._length > _MAX_BLOCKS:
            self._double()
        stride = 1 + rows.size // _MAX_ENTRIES
        first = 0
        while first < len(rows):
            last = min(first + self._length - self._num_open, len(rows))
            self._open.append(_moments(rows[first:last:stride]))
            self._num_open += last - first
            first = last
            if self._num_open == self._length:
                self._blocks.append(_merged(self._open))
                self._open, self._num_open = [], 0

    def value(self) -> float | None:
        """The largest R-hat over coordinates that have moved; `None` before there is one."""
        count = len(self._blocks) // 2
        if 2 * count < _MIN_BLOCKS:
            return None
        blocks = self._blocks[-2 * count :]
        halves = [_merged(blocks[:count]), _merged(blocks[count:])]
        means = np.concatenate([half.mean for half in halves])
        num_draws = min(half.num_rows for half in halves)
        within = np.mean(
            [half.squares.mean(axis=0) / (half.num_rows - 1) for half in halves], axis=0
        )
        has_moved = within > 0
        if num_draws < 2 or not has_moved.any():
            return None
        between = means.var(axis=0, ddof=1)[has_moved] / within[has_moved]
        return float(np.sqrt((num_draws - 1) / num_draws + between.max()))

    def _coordinates(self, parts):
        """[rows, C, D'] of the coordinates it looks at."""
        matrices = [as_matrix(part, self._batch_rank) for part in parts]
        stride = 1 + sum(matrix[:1].size for matrix in matrices) // _MAX_COORDINATES
        return np.concatenate([matrix[..., ::stride] for matrix in matrices], axis=-1)

    def _double(self):
        """Joins the blocks two by two; one that is left over opens the next block."""
        if len(self._blocks) % 2:
            self._open.insert(0, self._blocks.pop())
            self._num_open += self._length
        pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
        self._blocks = [_merged(pair) for pair in pairs]
        self._length *= 2


def _moments(rows):
    mean = rows.mean(axis=0, dtype=np.float64)
    return _Block(len(rows), mean, np.square(rows - mean).sum(axis=0))


def _merged(blocks):
    """The moments of all rows of some blocks."""
    counts = np.array([block.num_rows for block in blocks], np.float64)
    means = np.stack([block.mean for block in blocks])
    mean = np.tensordot(counts, means, axes=1) / counts.sum()
    between = np.tensordot(counts, np.square(means - mean), axes=1)
    squares = np.sum([block.squares for block in blocks], axis=0) + between
    return _Block(int(counts.sum()), mean, squares)
