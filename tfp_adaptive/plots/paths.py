"""How the learned proposal moves: its trajectories over the density."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.plots import checks, packed, style
from tfp_adaptive.plots.motion import make_paths, make_target

_GRID = 120
_KEPT_MOVES = 8
_FINE_STYLE = {'color': '0.25', 'linewidth': 0.8, 'linestyle': (0, (2, 1.5))}
_MASSES = (0.99, 0.9, 0.7, 0.5, 0.3, 0.1)


def trajectories(
    run: Any,
    coordinates: str | Sequence[str] | None = None,
    *,
    num_trajectories: int = 10,
    num_moves: int | None = None,
    seed: Any = 0,
    ax: Any = None,
) -> Any:
    """Leapfrog paths of the frozen kernel from some of its draws.

    Small dots are the positions after each leapfrog step, large ones the ends of moves, open where
    the move is rejected. The dashed line is the path that ever smaller steps would take: the
    further from it the steps end, the less likely they are accepted. A kernel that keeps part of
    its velocity joins moves into a path; a random walk moves in straight lines.

    Below them, in two dimensions, the density: contours of the regions of highest density that hold
    10, 30, 50, 70, 90 and 99 % of the draws. In more dimensions paths and draws are seen in
    projection. All in the coordinates of the sampler, without the bounds of a model.

    Args:
      run: `SampleRun` in at least two dimensions.
      coordinates: two labels, such as ('x[0]', 'x[3]'). Default `None`: the first two.
      num_trajectories: how many paths. Default 10.
      num_moves: moves of a path, unless one is rejected before. Default `None`: 1, or 8 for a
        kernel that keeps part of its velocity.
      seed: of the starting points and velocities, an int. Default 0.
      ax: matplotlib axes to draw into. Default `None`: those of a new figure.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      TypeError: if `run` is no `SampleRun`.
      ValueError: if the kernel of the run is not one of this package, if there are not two
        coordinates to show, or for less than one trajectory or move.

    Example:
      >>> figure = tfpa.plots.trajectories(run, ('x[0]', 'x[2]'), num_trajectories=3)
      >>> figure.axes[0].get_xlabel()
      'x[0]'
    """
    style.check_run(run)
    labels = packed.labels(run)
    pair = labels[:2] if coordinates is None else checks.names(coordinates)
    if len(pair) != 2:
        raise ValueError(f'`coordinates` must be two labels; got {pair}.')
    for name, count in (('num_trajectories', num_trajectories), ('num_moves', num_moves)):
        if count is not None and count < 1:
            raise ValueError(f'`{name}` must be at least 1; got {count}.')
    chosen = packed.choose(run, pair)
    paths = make_paths(run, num_trajectories, seed, num_moves or _default_moves(run))
    if ax is None:
        _, axes = style.make_axes(None, 1, 1, (6, 5))
        ax = axes[0, 0]
    draws = packed.columns(run, chosen).reshape([2, -1])
    limits = _limits(draws, [path.curve[:, chosen] for path in paths])
    if len(labels) == 2:
        _contours(ax, run, limits, swap=chosen[0] == 1)
    else:
        _cloud(ax, draws, limits)
    for path in paths:
        _draw(ax, path, chosen)
    note = ' (unconstrained)' if packed.are_unconstrained(run) else ''
    ax.set(xlabel=pair[0] + note, ylabel=pair[1] + note, xlim=limits[0], ylim=limits[1])
    _legend(ax)
    return ax.figure


def _default_moves(run) -> int:
    proposal = getattr(run.frozen_kernel, 'parameters', {}).get('proposal')
    return _KEPT_MOVES if getattr(proposal, 'uses_velocity', False) else 1


def _limits(draws, curves):
    """((low, high) of x, of y) around nearly all draws and all paths."""
    limits = []
    for values, along in zip(draws, zip(*(curve.T for curve in curves), strict=True), strict=True):
        ends = [
            *np.quantile(values, [0.002, 0.998]),
            *np.concatenate(along)[np.isfinite(np.concatenate(along))],
        ]
        margin = 0.05 * (np.max(ends) - np.min(ends))
        limits.append((np.min(ends) - margin, np.max(ends) + margin))
    return limits


def _contours(ax, run, limits, swap):
    """Regions of highest density, by the quantiles of the log-density over the draws."""
    x, y = (np.linspace(low, high, _GRID) for low, high in limits)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape([-1, 2])
    dtype = tf.nest.flatten(run.final_state)[0].dtype
    packed_points = tf.constant(points[:, ::-1] if swap else points, dtype)
    values = make_target(run, len(points)).value(packed_points).numpy().reshape([_GRID, _GRID])
    levels = np.unique(np.quantile(run.statistics.log_prob, 1 - np.array(_MASSES)))
    blues = style.load('matplotlib').colormaps['Blues']
    ax.contourf(
        x,
        y,
        values,
        levels=[*levels, np.inf],
        colors=[blues(z) for z in np.linspace(0.08, 0.55, len(levels))],
    )
    ax.contour(x, y, values, levels=levels, colors='white', linewidths=0.6, linestyles='solid')


def _cloud(ax, draws, limits):
    ax.hexbin(
        *draws,
        gridsize=45,
        extent=(*limits[0], *limits[1]),
        cmap='Blues',
        mincnt=1,
        linewidths=0,
        alpha=0.75,
    )


def _draw(ax, path, chosen):
    colour = style.VERMILLION
    nodes, curve = path.nodes[:, chosen], path.curve[:, chosen]
    ax.plot(*curve.T, **_FINE_STYLE)
    ax.plot(*nodes.T, color=colour, linewidth=1.2)
    within = np.delete(nodes, [0, *path.ends], axis=0)
    ax.plot(*within.T, 'o', color=colour, markersize=2.5)
    ax.plot(*nodes[path.ends[:-1]].T, 'o', color=colour, markersize=5)
    face = colour if path.is_accepted else 'white'
    ax.plot(*nodes[-1], 'o', color=colour, markersize=6, markerfacecolor=face)
    ax.plot(*nodes[0], 'o', color='black', markersize=4.5)


def _legend(ax):
    for label, face, colour, size in (
        ('start', 'black', 'black', 4.5),
        ('accepted', style.VERMILLION, style.VERMILLION, 6),
        ('rejected', 'white', style.VERMILLION, 6),
    ):
        ax.plot([], [], 'o', color=colour, markerfacecolor=face, markersize=size, label=label)
    ax.plot([], [], label='ever smaller steps', **_FINE_STYLE)
    style.legend(ax, loc='lower left', bbox_to_anchor=(0, 1), ncols=4, columnspacing=1)
