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
    """Moves of one chain, one after another, up to the first that is rejected."""

    nodes: np.ndarray
    """[n + 1, D] positions after 0, 1, ..., n leapfrog steps."""
    curve: np.ndarray
    """[m, D] the same moves in steps ten times finer, nearly the Hamiltonian flow; rows of NaN
    stand between two moves."""
    ends: np.ndarray
    """[M] indices of the nodes at which a move ends."""
    accept_probs: np.ndarray
    """[M] probabilities with which the moves are accepted."""
    is_accepted: bool
    """Whether the last move is."""


def make_paths(run: Any, num_paths: int, seed: int, num_moves: int = 1) -> list[Path]:
    """Moves that the frozen kernel of a run makes from its draws.

    Args:
      run: `SampleRun`.
      num_paths: how many; starting points are spread evenly over the draws.
      seed: an int.
      num_moves: most moves of a path.

    Raises:
      ValueError: if the kernel of the run makes no moves that can be drawn.
    """
    if not isinstance(run.frozen_kernel, FrozenKernel):
        raise ValueError(
            '`run` has no trajectories to show: only moves of the HMC, MALA and random walk '
            'kernels of this package can be drawn.'
        )
    movers = _mover(run, keeps_proposal=True), _mover(run, keeps_proposal=False)
    starts = _starts(run, num_paths)
    seeds = random.split(tf.constant([seed, 0]), num_paths)
    return [
        _make_path(run, movers, starts[i : i + 1], own_seed, num_moves)
        for i, own_seed in enumerate(seeds)
    ]


def _make_path(run, movers, position, seed, num_moves) -> Path:
    propose, one_step = movers
    proposal, dtype = run.frozen_kernel.parameters['proposal'], position.dtype
    velocity_seed, *seeds = random.split(seed, 1 + 2 * num_moves)
    state = ChainState(position, *make_target(run, 1).value_and_score(position))
    if proposal.uses_velocity:
        velocity = random.normal(position.shape, velocity_seed, dtype)
        state = state._replace(velocity=velocity)
    nodes, curve, ends, accept_probs = [position[0]], [], [], []
    for noise_seed, coin_seed in zip(seeds[::2], seeds[1::2], strict=True):
        noise = proposal.draw(noise_seed, 1, run.event_size, dtype)
        move = propose(state, noise, tf.constant(1, dtype))
        if proposal.uses_score:
            if not move.trajectory:
                raise ValueError(
                    '`run` tried rejected moves once more (`delayed_rejection`): such moves have '
                    'no single trajectory to show.'
                )
            start = state._replace(velocity=()), move.trajectory.start_velocity
            share, num_steps = tf.cast(move.scale, dtype), int(move.num_gradients)
            nodes += _integrate(one_step, *start, share, num_steps)[1:]
            curve += _integrate(one_step, *start, share / _FINE, num_steps * _FINE)
        else:
            nodes.append(move.proposed.position[0])
            curve += nodes[-2:]
        curve.append(np.full(run.event_size, np.nan))
        ends.append(len(nodes) - 1)
        accept_probs.append(_probability(move.energy_change[0]))
        is_accepted = bool(random.uniform([], coin_seed, dtype) < accept_probs[-1])
        if not is_accepted:
            break
        state = move.proposed
    return Path(
        np.stack(nodes), np.stack(curve[:-1]), np.array(ends), np.array(accept_probs), is_accepted
    )


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


def _mover(run, *, keeps_proposal):
    """(state [1, D], noise, share of the step size) -> `Move` of the run's proposal or one step."""
    settings = run.frozen_kernel.parameters
    proposal = settings['proposal'] if keeps_proposal else proposals.leapfrog(1)
    target = make_target(run, 1)
    if not keeps_proposal:
        # a place on the way, which its score alone describes
        passed = target
        target = passed._replace(value_and_score=lambda q: (passed.value(q), passed.score(q)))
    make = make_move(run.layout.event, proposal, settings['preconditioner'])

    @tf.function(autograph=False)
    def move(state, noise, share):
        step_size = share * tf.reduce_mean(tf.cast(settings['step_size'], share.dtype))
        return make(target, settings['parameters_of_preconditioner'], step_size, state, noise)

    return move


def _integrate(one_step, state, velocity, share, num_steps) -> list:
    """Positions [D] after 0, 1, ..., num_steps steps of a share of the step size."""
    positions = [state.position[0]]
    for _ in range(num_steps):
        move = one_step(state, velocity, share)
        state, velocity = move.proposed, move.trajectory.end_velocity
        positions.append(state.position[0])
    return positions


def _probability(energy_change) -> float:
    return float(np.exp(-max(float(energy_change), 0.0))) if np.isfinite(energy_change) else 0.0


def _starts(run, count) -> tf.Tensor:
    """[count, D] draws, evenly spread over the run."""
    states = run.states if run.unconstrained_states is None else run.unconstrained_states
    num_chains = int(np.prod(run.batch_shape))
    index = np.linspace(0, len(run.statistics.log_prob) * num_chains - 1, count).astype(int)
    rows = [
        coordinates.as_matrix(part, len(run.batch_shape))[index // num_chains, index % num_chains]
        for part in tf.nest.flatten(states)
    ]
    return tf.concat(rows, axis=1)
