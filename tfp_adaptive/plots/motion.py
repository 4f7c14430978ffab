"""The moves of a frozen kernel, step by step."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive import proposals
from tfp_adaptive.internal import log_density, random
from tfp_adaptive.kernels import FrozenKernel
from tfp_adaptive.kernels.geometry import make_move
from tfp_adaptive.sampling import coordinates
from tfp_adaptive.typing import ChainState, LogDensity

_FINE = 10


class Path(NamedTuple):
    """One proposed move."""

    nodes: np.ndarray
    """[L + 1, D] positions after 0, 1, ..., L leapfrog steps."""
    curve: np.ndarray
    """[10 L + 1, D] the same motion with steps ten times finer: nearly the Hamiltonian flow."""
    accept_prob: float
    """Probability of accepting the end."""


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
        coordinates.as_matrix(part, len(run.batch_shape))[index // num_chains, index % num_chains]
        for part in tf.nest.flatten(states)
    ]
    position = tf.concat(rows, axis=1)
    return ChainState(position, *make_target(run, count).value_and_score(position))
