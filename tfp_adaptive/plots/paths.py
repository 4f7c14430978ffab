"""How the learned proposal moves: its trajectories over the density."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive import proposals
from tfp_adaptive.internal import log_density, random
from tfp_adaptive.kernels import FrozenKernel
from tfp_adaptive.kernels.geometry import make_move
from tfp_adaptive.plots import packed, style
from tfp_adaptive.sampling import coordinates as labelling
from tfp_adaptive.typing import ChainState, LogDensity

_FINE = 10
_GRID = 120
_MASSES = (0.99, 0.9, 0.7, 0.5, 0.3, 0.1)


class Path(NamedTuple):
    """One proposed move."""

    nodes: np.ndarray
    """[L + 1, D] positions after 0, 1, ..., L leapfrog steps."""
    curve: np.ndarray
    """[10 L + 1, D] the same motion with steps ten times finer: nearly the Hamiltonian flow."""
    accept_prob: float
    """Probability of accepting the end."""


def trajectories(
    run: Any,
    coordinates: Sequence[str] | None = None,
    *,
    num_trajectories: int = 10,
    seed: Any = 0,
    ax: Any = None,
) -> Any:
    """Leapfrog paths of the frozen kernel from some of its draws.

    Dots are the positions after each leapfrog step; the last is filled where the move is likely to
    be accepted, and open where not. The dashed line is the path that ever smaller steps would take:
    the further from it the steps end, the less likely they are accepted. A random walk moves in
    straight lines. Below them, in two dimensions, the density: contours of the regions of highest
    density that hold 10, 30, 50, 70, 90 and 99 % of the draws. In more dimensions paths and draws
    are seen in projection. All in the coordinates of the sampler, without the bounds of a model.

    Args:
      run: `SampleRun` in at least two dimensions.
      coordinates: two labels, such as ('x[0]', 'x[3]'). Default `None`: the first two.
      num_trajectories: how many paths. Default 10.
      seed: of the starting points and velocities, an int. Default 0.
      ax: matplotlib axes to draw into. Default `None`: those of a new figure.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      ValueError: if the kernel of the run is not one of this package, if there are not two
        coordinates to show, or for less than one trajectory.

    Example:
      >>> figure = tfpa.plots.trajectories(run, ('x[0]', 'x[2]'), num_trajectories=3)
      >>> figure.axes[0].get_xlabel()
      'x[0]'
    """
    labels = packed.labels(run)
    pair = tuple(labels[:2] if coordinates is None else coordinates)
    if len(pair) != 2:
        raise ValueError(f'`coordinates` must be two labels; got {len(pair)}.')
    if num_trajectories < 1:
        raise ValueError(f'`num_trajectories` must be at least 1; got {num_trajectories}.')
    chosen = packed.choose(run, pair)
    paths = make_paths(run, num_trajectories, seed)
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


def make_paths(run: Any, num_paths: int, seed: Any) -> list[Path]:
    """Moves that the frozen kernel of a run proposes from its draws.

    Args:
      run: `SampleRun`.
      num_paths: how many; starting points are spread evenly over the draws.
      seed: an int.

    Raises:
      ValueError: if the kernel of the run is not one of this package.
    """
    if not isinstance(run.frozen_kernel, FrozenKernel):
        raise ValueError(
            '`run` has no trajectories to show: its kernel is not one of this package.'
        )
    proposal = run.frozen_kernel.parameters['proposal']
    start = _starts(run, num_paths)
    noise_seed, velocity_seed = random.split(tf.constant([seed, 0]), 2)
    dtype = start.position.dtype
    propose = _mover(run, proposal, 1)
    moves = []
    for index in range(num_paths):
        state = tf.nest.map_structure(lambda x, i=index: x[i : i + 1], start)
        if proposal.uses_velocity:
            state = state._replace(velocity=tf.zeros_like(state.position))
        own_seed = random.fold_in(noise_seed, tf.constant(index))
        noise = proposal.draw(own_seed, 1, run.event_size, dtype)
        moves.append(propose(state, noise, tf.constant(1, dtype)))
    if not proposal.uses_score:
        return [_straight(start.position[i], move) for i, move in enumerate(moves)]
    lengths = [int(move.num_gradients) for move in moves]
    velocity = random.normal(start.position.shape, velocity_seed, dtype)
    one_step = _mover(run, proposals.leapfrog(1), num_paths)
    nodes, energies = _integrate(one_step, start, velocity, max(lengths), 1)
    curve, _ = _integrate(one_step, start, velocity, max(lengths), _FINE)
    return [
        Path(
            nodes[: length + 1, i],
            curve[: _FINE * length + 1, i],
            _probability(energies[length, i]),
        )
        for i, length in enumerate(lengths)
    ]


def _mover(run, proposal, num_points):
    """(state, noise, share of the step size to take) -> `Move` by the learned preconditioner."""
    settings = run.frozen_kernel.parameters
    target = make_target(run, num_points)
    make = make_move(run.layout.event, proposal, settings['preconditioner'])

    @tf.function(autograph=False)
    def move(state, noise, share):
        step_size = share * tf.reduce_mean(tf.cast(settings['step_size'], share.dtype))
        return make(target, settings['parameters_of_preconditioner'], step_size, state, noise)

    return move


def _integrate(one_step, state, velocity, num_steps, fineness):
    """Positions [n + 1, K, D] and energies [n + 1, K] after 0, ..., n = num_steps * fineness."""
    share = tf.constant(1 / fineness, velocity.dtype)
    positions, energies = [state.position], [tf.zeros_like(state.log_prob)]
    for _ in range(num_steps * fineness):
        move = one_step(state, velocity, share)
        state, velocity = move.proposed, move.trajectory.end_velocity
        positions.append(state.position)
        energies.append(energies[-1] + move.energy_change)
    return np.stack(positions), np.stack(energies)


def _straight(start, move) -> Path:
    line = np.stack([start, move.proposed.position[0]])
    return Path(line, line, _probability(move.energy_change[0]))


def _probability(energy_change) -> float:
    return float(np.exp(-max(float(energy_change), 0.0))) if np.isfinite(energy_change) else 0.0


def _starts(run, count) -> ChainState:
    """Draws, evenly spread over the run, as a packed state."""
    states = run.states if run.unconstrained_states is None else run.unconstrained_states
    num_chains = int(np.prod(run.batch_shape))
    index = np.linspace(0, len(run.statistics.log_prob) * num_chains - 1, count).astype(int)
    rows = [
        labelling.as_matrix(part, len(run.batch_shape))[index // num_chains, index % num_chains]
        for part in tf.nest.flatten(states)
    ]
    position = tf.concat(rows, axis=1)
    return ChainState(position, *make_target(run, count).value_and_score(position))


def make_target(run: Any, num_points: int) -> LogDensity:
    """The log-density that the run sampled, on packed positions [num_points, D].

    Args:
      run: `SampleRun`.
      num_points: fixed number of positions.
    """
    fn = run.frozen_kernel.target_log_prob_fn
    if not run.batch_shape:
        # a single chain may have been sampled with a density that knows no others
        alone = fn

        def fn(*parts):
            return tf.vectorized_map(lambda own: alone(*own), parts)

    dtype = tf.nest.flatten(run.final_state)[0].dtype
    layout = run.layout._replace(batch_rank=1)
    parts = [tf.zeros([num_points, *shape], dtype) for shape in layout.event_shapes]
    return log_density.packed_log_density(fn, layout, parts)


def _limits(draws, curves):
    """((low, high) of x, of y) around nearly all draws and all paths."""
    limits = []
    for values, along in zip(draws, zip(*(curve.T for curve in curves), strict=True), strict=True):
        ends = [*np.quantile(values, [0.002, 0.998]), *np.concatenate(along)]
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
    is_likely = path.accept_prob >= 0.5
    colour = style.VERMILLION
    nodes, curve = path.nodes[:, chosen], path.curve[:, chosen]
    ax.plot(*curve.T, color='0.25', linewidth=0.8, linestyle=(0, (2, 1.5)))
    ax.plot(*nodes.T, color=colour, linewidth=1.2)
    ax.plot(*nodes[1:-1].T, 'o', color=colour, markersize=3.5)
    ax.plot(*nodes[0], 'o', color='black', markersize=4.5)
    ax.plot(
        *nodes[-1],
        'o',
        color=colour,
        markersize=6.5,
        markerfacecolor=colour if is_likely else 'white',
    )


def _legend(ax):
    for label, face, colour, size in (
        ('start', 'black', 'black', 4.5),
        ('end, acceptance above 1/2', style.VERMILLION, style.VERMILLION, 6.5),
        ('below 1/2', 'white', style.VERMILLION, 6.5),
    ):
        ax.plot([], [], 'o', color=colour, markerfacecolor=face, markersize=size, label=label)
    ax.plot([], [], color='0.25', linewidth=0.8, linestyle=(0, (2, 1.5)), label='smaller steps')
    style.legend(ax, loc='lower left', bbox_to_anchor=(0, 1), ncols=4, columnspacing=1)
