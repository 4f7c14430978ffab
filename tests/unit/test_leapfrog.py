"""proposals.leapfrog against the textbook loop with momenta and a dense mass matrix."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support import twins
from tests.unit import problems
from tfp_adaptive import proposals
from tfp_adaptive.proposals.leapfrog import LeapfrogNoise

SIZE, CHAINS = 4, 3
LENGTHS = [1, 2, 3, 5, 7]
STEP_SIZE = 0.4
WELL = problems.QuarticWell(SIZE)


@pytest.fixture
def setting(rng):
    """A target, a factor F = h C, a state and noise."""
    position, noise = rng.normal(size=[2, CHAINS, SIZE])
    matrix = problems.random_factor(rng, SIZE, scale=1.0)
    target = problems.packed(WELL.log_prob, position)
    return target, matrix, problems.state_at(target, position), tf.constant(noise)


def propose(num_steps, setting):
    target, matrix, state, noise = setting
    factor = problems.linear_map(STEP_SIZE * matrix)
    return proposals.leapfrog(num_steps).propose(target, factor, state, noise)


@pytest.mark.parametrize('num_steps', LENGTHS)
def test_matches_the_textbook(num_steps, setting):
    _, matrix, state, noise = setting
    move = propose(num_steps, setting)
    mass = np.linalg.inv(matrix @ matrix.T)
    for c in range(CHAINS):
        position = state.position[c].numpy()
        momentum = np.linalg.solve(matrix.T, noise[c])
        expected = twins.leapfrog(
            WELL.potential, WELL.gradient, position, momentum, mass, STEP_SIZE, num_steps
        )
        end = expected.positions[-1]
        np.testing.assert_allclose(move.proposed.position[c], end, atol=1e-12)
        np.testing.assert_allclose(move.proposed.log_prob[c], -WELL.potential(end), atol=1e-12)
        np.testing.assert_allclose(move.proposed.score[c], -WELL.gradient(end), atol=1e-12)
        np.testing.assert_allclose(move.energy_change[c], expected.energy_change, atol=1e-12)
        middle = expected.positions[num_steps // 2]
        np.testing.assert_allclose(move.midpoint[c], middle, atol=1e-12)
        np.testing.assert_allclose(move.midpoint_score[c], -WELL.gradient(middle), atol=1e-12)
        velocity = matrix.T @ expected.momentum
        np.testing.assert_allclose(move.trajectory.end_velocity[c], velocity, atol=1e-12)


@pytest.mark.parametrize('num_steps', LENGTHS)
def test_reversible(num_steps, setting):
    """The same moves with the end velocity turned round lead back, with the opposite energy."""
    target, matrix, state, _ = setting
    there = propose(num_steps, setting)
    back = propose(num_steps, (target, matrix, there.proposed, -there.trajectory.end_velocity))
    np.testing.assert_allclose(back.proposed.position, state.position, atol=1e-11)
    np.testing.assert_allclose(back.energy_change, -there.energy_change, atol=1e-11)


def _is_in_the_gap(q):
    return abs(q[:, 1]) < 0.1


def _without_a_value(q):
    return WELL.log_prob(q) + tf.where(_is_in_the_gap(q), np.nan, tf.zeros_like(q[:, 1]))


def _without_an_entry_of_the_score(q):
    """The value of the well; the chain rule divides nought by nought in the gap."""
    ratio = q[:, 1] / tf.where(_is_in_the_gap(q), 0, tf.ones_like(q[:, 1]))
    return WELL.log_prob(q) + 0 * tf.where(_is_in_the_gap(q), 0, ratio)


def test_the_gaps_are_there():
    """What the moves have to cope with: no value, and no entry of the score, in the gap alone."""
    q = tf.constant([[0.3] * SIZE, [0.05] * SIZE], tf.float64)
    np.testing.assert_array_equal(np.isfinite(_without_a_value(q)), [True, False])
    value, score = tfp.math.value_and_gradient(_without_an_entry_of_the_score, q)
    assert np.isfinite(value).all()
    is_there = np.ones([2, SIZE], bool)
    is_there[1, 1] = False
    np.testing.assert_array_equal(np.isfinite(score), is_there)


@pytest.mark.parametrize('num_steps', [3, 7])
@pytest.mark.parametrize('log_prob', [_without_a_value, _without_an_entry_of_the_score])
def test_reversible_across_a_gap(num_steps, log_prob, rng):
    """Moves that pass where the value or the score is no number, and end elsewhere, lead back."""
    matrix = problems.random_factor(rng, SIZE, scale=0.3)
    position = rng.normal(size=[2000, SIZE])
    position[:, 1] += 0.1 * np.sign(position[:, 1])
    target = problems.packed(log_prob, position)
    positions = []

    def score(q):
        positions.append(q.numpy())
        return target.score(q)

    watched = target._replace(score=score)
    state = problems.state_at(target, position)
    setting = watched, matrix, state, tf.constant(rng.normal(size=[2000, SIZE]))
    there = propose(num_steps, setting)
    is_kept = np.any([_is_in_the_gap(q) for q in positions], axis=0)
    is_kept &= np.isfinite(there.energy_change)
    assert is_kept.sum() > 20
    back = propose(num_steps, (watched, matrix, there.proposed, -there.trajectory.end_velocity))
    np.testing.assert_allclose(back.proposed.position[is_kept], state.position[is_kept], atol=1e-8)
    np.testing.assert_allclose(
        back.energy_change[is_kept], -there.energy_change[is_kept], atol=1e-7
    )


@pytest.mark.parametrize('num_steps', LENGTHS)
def test_whitened_jump(num_steps, setting):
    """F^-1 (q_L - q_0) = L v_0 - w: the identity that spares every solve with F."""
    _, matrix, state, noise = setting
    move = propose(num_steps, setting)
    jump = (move.proposed.position - state.position).numpy()
    whitened = np.linalg.solve(STEP_SIZE * matrix, jump.T).T
    identity = num_steps * noise - move.trajectory.weighted_gradients
    np.testing.assert_allclose(whitened, identity, atol=1e-11)
    np.testing.assert_allclose(move.trajectory.jump, identity, atol=1e-12)


@pytest.mark.parametrize('num_steps', LENGTHS)
def test_evaluates_the_target_exactly_once_a_step(num_steps, setting):
    target, matrix, state, noise = setting
    counted, calls = problems.counting(target)
    move = propose(num_steps, (counted, matrix, state, noise))
    assert len(calls) == move.num_gradients == num_steps


def test_xla_runs_the_long_loop(setting):
    """From L = 3 on it is a loop; noise is injected, so only rounding differs."""
    compiled = tf.function(lambda: propose(7, setting), jit_compile=True, autograph=False)()
    for a, e in zip(tf.nest.flatten(compiled), tf.nest.flatten(propose(7, setting)), strict=True):
        np.testing.assert_allclose(a, e, atol=1e-12)


def test_volume_is_preserved(setting):
    """|det d(q_L, v_L)/d(q_0, v_0)| = 1, for one chain and L = 3, by finite differences."""
    _, matrix, state, noise = setting
    factor = problems.linear_map(STEP_SIZE * matrix)

    def flow(phase):
        position = tf.constant(phase[np.newaxis, :SIZE])
        target = problems.packed(WELL.log_prob, position)
        move = proposals.leapfrog(3).propose(
            target, factor, problems.state_at(target, position), phase[np.newaxis, SIZE:]
        )
        return np.concatenate([move.proposed.position[0], move.trajectory.end_velocity[0]])

    phase = np.concatenate([state.position[0], noise[0]])
    spacing = 1e-5
    columns = [
        (flow(phase + spacing * unit) - flow(phase - spacing * unit)) / (2 * spacing)
        for unit in np.eye(2 * SIZE)
    ]
    np.testing.assert_allclose(np.linalg.det(np.transpose(columns)), 1, atol=1e-7)


def test_curvature_is_the_jacobian_residual(rng):
    """On a Gaussian dq_L/dv_0 = L F (I + D + O(F^4)): halving F divides the misfit by 16."""
    num_steps = 3
    precision = WELL.precision
    position = rng.normal(size=[SIZE, SIZE])
    target = problems.packed(
        lambda q: -tf.reduce_sum(q * tf.linalg.matvec(precision, q), axis=-1) / 2, position
    )
    state = problems.state_at(target, np.zeros([SIZE, SIZE]))
    matrix = problems.random_factor(rng, SIZE, scale=0.2)
    proposal = proposals.leapfrog(num_steps)
    misfits = []
    for step_size in (1.0, 0.5):
        factor = step_size * matrix
        unit_velocities = tf.eye(SIZE, dtype=tf.float64)
        move = proposal.propose(target, problems.linear_map(factor), state, unit_velocities)
        jacobian = np.linalg.solve(num_steps * factor, move.proposed.position.numpy().T)
        residual = move.curvature * factor.T @ precision @ factor
        np.testing.assert_allclose(
            residual, twins.residual_matrix(precision, factor, num_steps), atol=1e-14
        )
        misfits.append(np.linalg.norm(jacobian - np.eye(SIZE) - residual))
    np.testing.assert_allclose(misfits[0] / misfits[1], 16, rtol=0.1)


def test_mala_has_no_residual(setting):
    assert propose(1, setting).curvature == 0


@pytest.mark.parametrize('num_steps', [1, 3, 5])
def test_a_random_length_makes_the_move_of_that_length(num_steps, setting):
    """Everything the move reports belongs to the length drawn, not to the longest."""
    target, matrix, state, noise = setting
    target, calls = problems.counting(target)
    factor = problems.linear_map(STEP_SIZE * matrix)
    drawn = LeapfrogNoise(noise, tf.constant(num_steps))
    move = proposals.leapfrog([1, 3, 5]).propose(target, factor, state, drawn)
    expected = propose(num_steps, setting)
    assert len(calls) == num_steps
    for a, e in zip(tf.nest.flatten(move), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, e, atol=1e-12)


def test_random_lengths_are_uniform(stateless_seed):
    """Each of the listed lengths as often as the others, within 4 standard errors."""
    num_draws, lengths = 3000, (2, 3, 7)
    proposal = proposals.leapfrog(lengths)
    seeds = tf.stack([tf.fill([num_draws], stateless_seed()[0]), tf.range(num_draws)], axis=1)

    @tf.function(autograph=False)
    def draw_lengths():
        return tf.map_fn(
            lambda seed: proposal.draw(seed, 1, 1, tf.float32).num_steps,
            seeds,
            fn_output_signature=tf.int32,
        )

    drawn = draw_lengths().numpy()
    standard_error = np.sqrt(1 / 3 * 2 / 3 / num_draws)
    for length in lengths:
        assert abs(np.mean(drawn == length) - 1 / 3) < 4 * standard_error
    assert set(drawn) == set(lengths)


@pytest.mark.parametrize('share', [0.2, 0.9])
def test_partial_refreshment(share, setting, rng):
    """v = sqrt(1 - share) v_kept + sqrt(share) noise; turned round when the move is rejected."""
    target, matrix, state, noise = setting
    kept = tf.constant(rng.normal(size=[CHAINS, SIZE]))
    factor = problems.linear_map(STEP_SIZE * matrix)
    proposal = proposals.leapfrog(3, momentum_refreshment=share)
    move = proposal.propose(target, factor, state._replace(velocity=kept), noise)
    start = np.sqrt(1 - share) * kept + np.sqrt(share) * noise
    expected = propose(3, (target, matrix, state, start))
    np.testing.assert_allclose(move.proposed.position, expected.proposed.position, atol=1e-12)
    np.testing.assert_allclose(move.energy_change, expected.energy_change, atol=1e-12)
    end = expected.trajectory.end_velocity
    np.testing.assert_allclose(move.proposed.velocity, end, atol=1e-12)
    np.testing.assert_allclose(move.rejected.velocity, -start, atol=1e-12)
    np.testing.assert_array_equal(move.rejected.position, state.position)
    assert proposal.uses_velocity
    assert not proposals.leapfrog(3).uses_velocity


def test_draw_is_standard_normal(stateless_seed):
    """Mean and variance of each coordinate within 4 standard errors."""
    num = 20_000
    noise = proposals.leapfrog(2).draw(stateless_seed(), num, 3, tf.float64).numpy()
    assert noise.shape == (num, 3)
    assert (abs(noise.mean(axis=0)) < 4 / np.sqrt(num)).all()
    assert (abs((noise**2).mean(axis=0) - 1) < 4 * np.sqrt(2 / num)).all()
