"""Hamiltonian dynamics in discrete steps: what integrators make of one start."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.plots import checks, density, style

DIVERGENCE_THRESHOLD = 1000.0
"""Energy error from which Stan and TFP call a trajectory divergent."""

METHODS = ('leapfrog', 'euler')

_SEEN = 100.0
"""Energy error up to which a divergent path sets the scale of its picture."""
_LOOKS = {
    'leapfrog': {'color': style.BLUE, 'linestyle': '-', 'marker': 'o'},
    'euler': {'color': style.VERMILLION, 'linestyle': '--', 'marker': 's'},
}


class Trajectory(NamedTuple):
    """Of unit mass; NumPy arrays."""

    positions: np.ndarray
    """[n + 1, D]."""
    velocities: np.ndarray
    """[n + 1, D]."""
    energy_errors: np.ndarray
    """[n + 1] energy beyond that at the start; NaN or infinite where it overflowed."""


def trajectory(
    target_log_prob_fn: Callable,
    position: Any,
    velocity: Any,
    step_size: float,
    num_steps: int,
    *,
    method: str = 'leapfrog',
) -> Trajectory:
    """Integrates q' = v, v' = grad log pi(q), step by step.

    Leapfrog is half a kick, a drift and half a kick; Euler moves position and velocity at once. The
    density is computed in float64, or in float32 if it takes no other.

    Args:
      target_log_prob_fn: callable of positions [1, D] -> [1].
      position: [D].
      velocity: [D].
      step_size: positive.
      num_steps: n.
      method: 'leapfrog' or 'euler'.

    Returns:
      A `Trajectory`.

    Raises:
      ValueError: for another `method`.
    """
    if method not in METHODS:
        raise ValueError(f'`method` must be one of {METHODS}; got {method!r}.')
    q, v = (np.array(x, np.float64) for x in (position, velocity))
    evaluate = _evaluator(target_log_prob_fn, q)
    log_prob, score = evaluate(q)
    start = v @ v / 2 - log_prob
    rows = [(q, v, 0.0)]
    for _ in range(num_steps):
        with np.errstate(all='ignore'):
            if method == 'euler':
                q, v = q + step_size * v, v + step_size * score
                log_prob, score = evaluate(q)
            else:
                half = v + step_size / 2 * score
                q = q + step_size * half
                log_prob, score = evaluate(q)
                v = half + step_size / 2 * score
            rows.append((q, v, v @ v / 2 - log_prob - start))
    return Trajectory(*map(np.array, zip(*rows, strict=True)))


def integrators(
    target_log_prob_fn: Callable,
    position: Any,
    velocity: Any,
    step_sizes: Sequence[float],
    integration_time: float,
    *,
    methods: str | Sequence[str] = METHODS,
    region: Any = None,
    figure: Any = None,
) -> Any:
    """Paths from one start in two dimensions, one panel a step size, over the density's contours.

    The view holds all of a path whose energy error stays below 1000, and of one that diverges the
    points before an error of 100. What leaves the view ends there, in a cross. Computed in float64,
    or in float32 if the density takes no other.

    Args:
      target_log_prob_fn: callable of positions [n, 2] -> [n].
      position: [2] start.
      velocity: [2] at the start.
      step_sizes: of the panels, at least one.
      integration_time: of every path; each has integration_time / step size steps, rounded.
      methods: of 'leapfrog' and 'euler'. Default: both.
      region: [2, 2], lowest and highest of each coordinate, to be shown in any case. Default
        `None`: what the paths need.
      figure: matplotlib figure or subfigure to draw into. Default `None`: a new one.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      ValueError: if the start is not two-dimensional, for an unknown method or none, or if there is
        no step size, or one that is not positive.

    Example:
      >>> figure = tfpa.plots.integrators(
      ...     lambda x: -tf.reduce_sum(x**2, -1) / 2, [1.0, 0.0], [0.0, 1.0], [0.2, 0.5], 3.0)
      >>> [ax.get_title() for ax in figure.axes]
      ['step size 0.2', 'step size 0.5']
    """
    if np.shape(position) != (2,) or np.shape(velocity) != (2,):
        raise ValueError('`position` and `velocity` must have shape [2] for a picture of paths.')
    step_sizes, methods = checks.step_sizes(step_sizes), checks.names(methods)
    if not methods:
        raise ValueError(f'`methods` must be one or more of {METHODS}; got none.')
    count = len(step_sizes)
    figure, axes = style.make_axes(figure, 1, count, (3.6 * count + 0.4, 4.2))
    for ax, step_size in zip(axes[0], step_sizes, strict=True):
        num_steps = max(1, round(integration_time / step_size))
        paths = {
            method: trajectory(
                target_log_prob_fn, position, velocity, step_size, num_steps, method=method
            )
            for method in methods
        }
        low, high = _view([*paths.values()], step_size, region)
        ax.set_aspect('equal')
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        for method, path in paths.items():
            _draw(ax, path.positions, low, high, {'label': method, **_LOOKS[method]})
        ax.plot(*np.asarray(position), 'o', color='black', markersize=7, label='start', zorder=5)
        density.contours(ax, target_log_prob_fn)
        ax.set(title=f'step size {step_size:g}', xlabel='$q_1$', ylabel='$q_2$')
        ax.title.set_size(11)
    found = {
        label: handle
        for ax in axes[0]
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        [*found.values()], [*found], loc='outside lower center', ncols=4, frameon=False, fontsize=9
    )
    return figure


def energy_errors(
    target_log_prob_fn: Callable,
    position: Any,
    velocity: Any,
    step_sizes: Sequence[float],
    integration_time: float = 10.0,
    *,
    divergence_threshold: float = DIVERGENCE_THRESHOLD,
    ax: Any = None,
) -> Any:
    """The size of the energy error along leapfrog trajectories from one start.

    A trajectory whose error passes the threshold is divergent: it is marked with a cross where it
    does, and drawn no further. Computed in float64, or in float32 if the density takes no other.

    Args:
      target_log_prob_fn: callable of positions [1, D] -> [1].
      position: [D] start.
      velocity: [D] at the start.
      step_sizes: one line each.
      integration_time: of every trajectory. Default 10.
      divergence_threshold: Default 1000, as in Stan.
      ax: matplotlib axes to draw into. Default `None`: new ones.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      ValueError: if there is no step size, or one that is not positive.

    Example:
      >>> figure = tfpa.plots.energy_errors(
      ...     lambda x: -tf.reduce_sum(x**2, -1) / 2, [1.0, 0.5], [0.3, 1.0], [0.1, 0.6])
      >>> figure.axes[0].get_xlabel()
      'time along the trajectory'
    """
    step_sizes = checks.step_sizes(step_sizes)
    if ax is None:
        ax = style.make_axes(None, 1, 1, (6.5, 3.8))[1][0, 0]
    colours = style.load('matplotlib').colormaps['viridis'](np.linspace(0, 0.85, len(step_sizes)))
    looks = ('-', '--', '-.', ':')
    for i, (step_size, colour) in enumerate(zip(step_sizes, colours, strict=True)):
        num_steps = max(1, round(integration_time / step_size))
        errors = np.abs(
            trajectory(target_log_prob_fn, position, velocity, step_size, num_steps).energy_errors
        )
        bad = np.flatnonzero(~(errors <= divergence_threshold))
        end = bad[0] if len(bad) else len(errors)
        times = step_size * np.arange(len(errors))
        crossing = _crossing(times, errors, end, divergence_threshold) if len(bad) else []
        ax.plot(
            [*times[1:end], *crossing],
            [*errors[1:end], *(divergence_threshold for _ in crossing)],
            looks[i % len(looks)],
            color=colour,
            linewidth=1.4,
            label=f'step size {step_size:g}' + (', diverges' if len(bad) else ''),
        )
        if len(bad):
            ax.plot(crossing, divergence_threshold, 'X', color=style.VERMILLION, markersize=9)
    ax.set(xlabel='time along the trajectory', ylabel='|energy error|', yscale='log')
    ax.set_xlim(0, integration_time * 1.02)
    if ax.get_ylim()[1] > divergence_threshold:
        ax.axhline(divergence_threshold, color=style.GREY, linestyle='--', linewidth=0.8)
    style.legend(ax, loc='center left', bbox_to_anchor=(1, 0.5))
    return ax.figure


def _view(paths, step_size, region):
    """(lowest, highest), [2] each: a square about all points that set the scale."""
    points = np.concatenate([_seen(path) for path in paths])
    if region is not None:
        points = np.concatenate([points, np.transpose(region)])
    if not np.ptp(points, axis=0).any():
        # every path explodes at once: as far as a step without forces goes
        points = np.stack([points[0], points[0] + step_size * paths[0].velocities[0]])
    low, high = points.min(axis=0), points.max(axis=0)
    centre, half = (low + high) / 2, 0.55 * np.max(high - low) or 1.0
    return centre - half, centre + half


def _seen(path):
    """Positions of a path that set the scale: all, or those before it explodes."""
    errors = np.abs(path.energy_errors)
    if np.all(errors <= DIVERGENCE_THRESHOLD):
        return path.positions
    return path.positions[: np.argmin(errors <= _SEEN)]


def _draw(ax, positions, low, high, look):
    """A path up to where it leaves the view."""
    is_out = ~np.all((positions >= low) & (positions <= high), axis=1)
    end = np.argmax(is_out) if is_out.any() else len(positions)
    ax.plot(*positions[:end].T, markersize=3, linewidth=1.1, **look)
    if end == len(positions):
        return
    last, step = positions[end - 1], positions[end] - positions[end - 1]
    if not np.isfinite(step).all():
        step = np.zeros(2)
    room = np.where(step > 0, high, low) - last
    share = np.min(room / np.where(step == 0, 1, step), where=step != 0, initial=1)
    edge = last + share * step
    ax.plot(*np.stack([last, edge]).T, look['linestyle'], color=look['color'], linewidth=1.1)
    ax.plot(*edge, 'kX', markersize=7, clip_on=False, label='leaves the view', zorder=6)


def _crossing(times, errors, end, threshold):
    """[1], when the error passes the threshold, on a line in the logarithm."""
    if end < 2 or not np.isfinite(errors[end]):
        return [times[end]]
    before, after = np.log(errors[end - 1]), np.log(errors[end])
    share = (np.log(threshold) - before) / (after - before)
    return [times[end - 1] + share * (times[end] - times[end - 1])]


def _evaluator(target_log_prob_fn, position):
    @tf.function(autograph=False)
    def evaluate(q):
        return tfp.math.value_and_gradient(target_log_prob_fn, q)

    dtype = density.precision(evaluate, position[np.newaxis])

    def at(q):
        value, score = evaluate(tf.constant(q[np.newaxis], dtype))
        return float(value[0]), score[0].numpy().astype(np.float64)

    return at
