"""The chains: where each went, and whether all of them went to the same places."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import arguments
from tfp_adaptive.plots import checks, style
from tfp_adaptive.sampling import coordinates as labelling
from tfp_adaptive.sampling.figures import effective_sizes_of_chains

_CONFIDENCE = 0.95


def traces(
    run: Any,
    coordinates: str | Sequence[str] | None = None,
    *,
    max_coordinates: int = 6,
    figure: Any = None,
) -> Any:
    """Traces of all chains, and how the ranks of each chain's draws are spread.

    Left, the draws of each chain in order. Right, for each chain the share of its draws below each
    rank of the pooled draws, minus what it would be if all chains agreed. A curve that slopes up at
    the left and down at the right is a chain that stays at small values; an arch over both halves
    is a chain too wide or too narrow. The band is where all curves of chains that agree lie with
    probability 0.95, at the effective sample size of each chain by itself.

    Args:
      run: `SampleRun`.
      coordinates: one label, such as 'w[3]', or a sequence of them. Default `None`: those with the
        largest R-hat.
      max_coordinates: how many of these, at least 1. Default 6.
      figure: matplotlib figure or subfigure to draw into. Default `None`: a new one.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      TypeError: if `run` is no `SampleRun`, or `figure` no figure.
      ValueError: for a coordinate that does not exist, none at all, or too few draws.

    Example:
      >>> figure = tfpa.plots.traces(run, ['x[0]', 'x[2]'])
      >>> len(figure.axes)
      4
    """
    style.check_run(run)
    if len(run.statistics.log_prob) < 2:
        raise ValueError('`run` must hold at least two draws a chain.')
    arguments.count('max_coordinates', max_coordinates, least=1)
    found = _labels(run)
    chosen = checks.names(
        _worst(run, found, max_coordinates) if coordinates is None else coordinates
    )
    unknown = [label for label in chosen if label not in found]
    if unknown or not chosen:
        raise ValueError(
            f'`coordinates` must be labels of the draws, such as {next(iter(found))!r}; '
            f'got {unknown or chosen}.'
        )
    figure, axes = style.make_axes(
        figure, len(chosen), 2, (9, 1.6 * len(chosen) + 0.5), sharex='col', width_ratios=[2, 1]
    )
    for (left, right), label in zip(axes, chosen, strict=True):
        draws, rhat = found[label]()
        _trace(left, draws, f'{label}\n$\\hat{{R}}$ {rhat:.3f}')
        rank_difference(right, draws)
    axes[0, 0].set_title('draws', fontsize=10, loc='left', color='0.3')
    axes[0, 1].set_title('difference of rank ECDF', fontsize=10, loc='left', color='0.3')
    axes[-1, 0].set_xlabel('draw')
    axes[-1, 1].set_xlabel('rank, as a share of all draws')
    return figure


def _labels(run) -> dict:
    """{label: function that returns its draws [num_results, C] and its R-hat}."""
    found = {}
    parts = [tf.nest.flatten(structure) for structure in (run.states, run.diagnostics.rhat)]
    for name, part, rhat in zip(run.part_names, *parts, strict=True):
        matrix = labelling.as_matrix(part, len(run.batch_shape))
        for i, label in enumerate(labelling.labels(name, np.shape(rhat))):

            def read(matrix=matrix, i=i, rhat=rhat):
                return matrix[..., i], np.ravel(rhat)[i]

            found[label] = read
    return found


def _worst(run, found, count) -> list[str]:
    rhat = np.concatenate([np.ravel(part) for part in tf.nest.flatten(run.diagnostics.rhat)])
    order = np.argsort(-rhat, kind='stable')[:count]
    labels = list(found)
    return [labels[i] for i in sorted(order)]


def _trace(ax, draws, label):
    colours = style.chain_colours(draws.shape[1])
    width = max(0.3, min(1.0, 300 / len(draws)))
    for chain, colour in zip(draws.T, colours, strict=True):
        ax.plot(chain, color=colour, linewidth=width, alpha=0.8)
    ax.set_ylabel(label, rotation=0, ha='right', va='center')
    ax.set_xlim(0, len(draws) - 1)


def rank_difference(ax: Any, draws: np.ndarray) -> None:
    """Draws the rank curves of one coordinate and their band.

    Args:
      ax: matplotlib axes.
      draws: [num_results, C].
    """
    num_draws, num_chains = draws.shape
    grid = np.linspace(0, 1, min(num_draws, 200) + 1)
    pooled = np.sort(draws, axis=None)
    thresholds = pooled[np.ceil(grid[1:] * pooled.size).astype(int) - 1]
    below_all = np.searchsorted(pooled, thresholds, side='right') / pooled.size
    half = _band(draws)
    if np.isfinite(half):
        ax.axhspan(-half, half, color='0.9', linewidth=0)
    ax.axhline(0, color=style.GREY, linewidth=0.8)
    for chain, colour in zip(draws.T, style.chain_colours(num_chains), strict=True):
        below = np.searchsorted(np.sort(chain), thresholds, side='right') / num_draws
        ax.plot(grid, np.concatenate([[0], below - below_all]), color=colour, linewidth=1)
    ax.set_xlim(0, 1)
    widest = max(np.abs(ax.get_ylim()).max(), 1.25 * half if np.isfinite(half) else 0)
    ax.set_ylim(-widest, widest)


def _band(draws) -> float:
    """Half the width of the band: the Kolmogorov bound for all chains together; NaN if unknown.

    A chain of n independent draws differs from the pool of C such chains by a Brownian bridge of
    variance (1 - 1/C) / n.
    """
    num_draws, num_chains = draws.shape
    sizes = effective_sizes_of_chains(draws)
    sizes = np.minimum(sizes[np.isfinite(sizes)], num_draws)
    if not sizes.size:
        return math.nan
    quantile = math.sqrt(math.log(2 * num_chains / (1 - _CONFIDENCE)) / 2)
    return quantile * math.sqrt((1 - 1 / num_chains) / sizes.mean())
