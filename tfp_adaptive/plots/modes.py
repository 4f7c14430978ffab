"""Chains that settled in different modes, or all in one."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfp_adaptive.plots import density, style

_MARKERS = 'osD^vP'


def modes(
    target_log_prob_fn: Callable,
    draws: Any,
    *,
    diagnosis: str = '',
    margin: float = 0.5,
    figure: Any = None,
) -> Any:
    """Draws in two dimensions over the density, and the first coordinate of each chain over time.

    The density is computed in float64, or in float32 if it takes no other.

    Args:
      target_log_prob_fn: callable of positions [n, 2] -> [n].
      draws: [N, C, 2].
      diagnosis: what diagnostics say, written above the right panel.
      margin: space beyond the draws, as a share of their range, in which there may be modes that no
        chain has found. Default 0.5.
      figure: matplotlib figure or subfigure to draw into. Default `None`: a new one.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      ValueError: if `draws` is not of shape [N, C, 2].

    Example:
      >>> draws = np.random.default_rng(0).normal(size=[50, 2, 2])
      >>> figure = tfpa.plots.modes(lambda x: -tf.reduce_sum(x**2, -1) / 2, draws)
      >>> figure.axes[1].get_xlabel()
      'draw'
    """
    draws = np.asarray(draws, np.float64)
    if draws.ndim != 3 or draws.shape[2] != 2:
        raise ValueError(f'`draws` must have shape [N, C, 2]; got {draws.shape}.')
    figure, axes = style.make_axes(figure, 1, 2, (9, 3.9))
    plane, time = axes[0]
    thinned = draws[:: max(1, len(draws) // 150)]
    colours = style.chain_colours(draws.shape[1])
    for chain, colour in enumerate(colours):
        marker = _MARKERS[chain % len(_MARKERS)]
        plane.plot(
            *thinned[:, chain].T,
            marker,
            color=colour,
            markersize=3,
            alpha=0.6,
            markeredgewidth=0,
            label=f'chain {chain + 1}',
        )
        time.plot(draws[:, chain, 0], color=colour, linewidth=0.6)
        # some are marked, each chain's at places of its own, for those who see no colours
        every = max(1, len(draws) // 10)
        marked = np.arange(chain * every // len(colours), len(draws), every)
        time.plot(
            *(marked, draws[marked, chain, 0], marker),
            color=colour,
            markersize=5,
            markeredgecolor='k',
            markeredgewidth=0.5,
            zorder=3,
        )
    plane.margins(margin)
    density.contours(plane, target_log_prob_fn)
    plane.set(xlabel='$q_1$', ylabel='$q_2$')
    style.legend(plane, loc='upper left', markerscale=2)
    time.set(xlabel='draw', ylabel='$q_1$')
    time.set_title(diagnosis, fontsize=10)
    return figure
