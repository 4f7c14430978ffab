"""kernels.energy_gradients: `fast` and `exact` against autodiff and finite differences."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tests.unit import families, problems
from tfp_adaptive import objectives, proposals
from tfp_adaptive.kernels import energy_gradients
from tfp_adaptive.typing import Objective

SIZE, CHAINS = families.SIZE, 4
STEP_SIZE = 0.25
WELL = problems.QuarticWell(SIZE)
ALL = tf.ones([CHAINS], tf.bool)


def smooth(energy, start, end, *_):
    """A slope in the energy of every chain."""
    del start, end
    return energy + 0.1 * energy**2


def jump(energy, start, end, *_):
    """Reads the end point, as the jump distance does."""
    return tf.exp(-0.2 * energy) * tf.reduce_sum((end - start) ** 2, -1)


def distance(energy, start, end, *_):
    """Does not ask for the energy."""
    del energy
    return tf.reduce_sum((end - start) ** 2, -1)


OBJECTIVES = {
    'smooth': Objective(smooth),
    'jump': Objective(jump),
    'distance': Objective(distance),
    'speed': objectives.generalized_speed(),
}


@pytest.fixture
def setting(rng):
    position, noise = rng.normal(size=[2, CHAINS, SIZE])
    target = problems.packed(WELL.log_prob, position)
    return target, problems.state_at(target, position), tf.constant(noise)


def gradient_of(mode, case, num_steps, objective, setting, is_used=ALL):
    """(move, tangent) of one differentiable move."""
    target, state, noise = setting
    energy_gradient = mode(proposals.leapfrog(num_steps), case.preconditioner, objective)
    step_size = tf.constant(STEP_SIZE, tf.float64)
    move, gradient = energy_gradient.differentiable_move(
        target, case.parameters, step_size, state, noise
    )
    return move, gradient(is_used)


def with_stopped_scores(target):
    """The same values and slopes, but every score is a constant to automatic differentiation."""

    def value_and_score(position):
        value, score = target.value_and_score(tf.stop_gradient(position))
        value, score = tf.stop_gradient(value), tf.stop_gradient(score)
        return value + tf.reduce_sum(score * (position - tf.stop_gradient(position)), -1), score

    return target._replace(value_and_score=value_and_score, score=lambda x: value_and_score(x)[1])


def masked(tangent):
    return tf.nest.map_structure(lambda t, m: t * m, tangent, families.free_coordinates(tangent))


def assert_close(actual, expected, atol=1e-11):
    for a, e in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, e, atol=atol, rtol=1e-9)


def _assert_fast_is_autodiff(case, num_steps, objective, setting):
    target, state, noise = setting
    stopped = with_stopped_scores(target), state, noise
    _, fast = gradient_of(energy_gradients.fast, case, num_steps, objective, setting)
    _, tape = gradient_of(energy_gradients.exact, case, num_steps, objective, stopped)
    assert_close(masked(fast), masked(tape))


@pytest.mark.parametrize(('family', 'coordinates'), families.CASES)
@pytest.mark.parametrize('num_steps', [1, 3])
def test_fast_is_autodiff_with_stopped_scores(num_steps, family, coordinates, setting, rng):
    """The closed form against the move rebuilt from `retract` under a tape.

    Three steps run in a loop. This objective reads the energy and the end point of the move.
    """
    case = families.make(family, coordinates, rng)
    _assert_fast_is_autodiff(case, num_steps, OBJECTIVES['jump'], setting)


@pytest.mark.parametrize('objective', OBJECTIVES)
@pytest.mark.parametrize('num_steps', [1, 2, 7])
def test_fast_for_any_objective(num_steps, objective, setting, rng):
    """An objective meets the move alone, so one family shows it."""
    case = families.make('cholesky', 'relative', rng)
    _assert_fast_is_autodiff(case, num_steps, OBJECTIVES[objective], setting)


def _assert_derivative_of_the_loss(case, num_steps, objective, setting, rng):
    """Against finite differences along a random direction of every leaf.

    A wrong entry anywhere in a leaf shows.
    """
    target, state, noise = setting
    still = case.still()
    leaves, free = (tf.nest.flatten(x) for x in (still, families.free_coordinates(still)))

    def loss(tangent):
        parameters = case.preconditioner.retract(case.parameters, tangent)
        factor = energy_gradients.proposal_factor(case.preconditioner, parameters, STEP_SIZE)
        move = proposals.leapfrog(num_steps).propose(target, factor, state, noise)
        return tf.reduce_sum(
            objective.loss(move.energy_change, state.position, move.proposed.position)
        )

    _, exact = gradient_of(energy_gradients.exact, case, num_steps, objective, setting)
    for index, leaf in enumerate(leaves):
        direction = rng.normal(size=leaf.shape) * free[index]

        def along(t, index=index, direction=direction):
            moved = [*leaves[:index], tf.constant(t * direction), *leaves[index + 1 :]]
            return loss(tf.nest.pack_sequence_as(still, moved)).numpy()

        expected = twins.central_difference(along, 0.0)
        actual = np.sum(tf.nest.flatten(exact)[index] * direction)
        np.testing.assert_allclose(actual, expected, atol=1e-6, rtol=1e-6)


LENGTHS = [2, 3, *(pytest.param(length, marks=pytest.mark.slow) for length in (1, 5))]
"""The longest without a loop and the shortest with one."""


@pytest.mark.parametrize('num_steps', LENGTHS)
@pytest.mark.parametrize(
    'family', ['diagonal', 'cholesky', 'bordered-1', 'blocks', 'by_part', 'low_rank']
)
def test_exact_is_the_derivative_of_the_loss(family, num_steps, setting, rng):
    """On a target that is not Gaussian."""
    case = families.make(family, 'relative', rng)
    _assert_derivative_of_the_loss(case, num_steps, OBJECTIVES['jump'], setting, rng)


@pytest.mark.parametrize('objective', OBJECTIVES)
def test_exact_for_any_objective(objective, setting, rng):
    case = families.make('cholesky', 'relative', rng)
    _assert_derivative_of_the_loss(case, 3, OBJECTIVES[objective], setting, rng)


def test_fast_and_exact_make_the_same_move(setting, rng):
    case = families.make('cholesky', 'relative', rng)
    fast, _ = gradient_of(energy_gradients.fast, case, 2, OBJECTIVES['jump'], setting)
    exact, _ = gradient_of(energy_gradients.exact, case, 2, OBJECTIVES['jump'], setting)
    assert_close(fast, exact)


def test_fast_is_exact_for_a_linear_potential(setting, rng):
    """Scores that do not move are constants; on a curved potential the two differ."""
    slope = tf.constant(rng.normal(size=[SIZE]))
    position = setting[1].position
    target = problems.packed(lambda q: tf.linalg.matvec(q, slope), position)
    linear = target, problems.state_at(target, position), setting[2]
    case = families.make('cholesky', 'relative', rng)

    def both(setting):
        return [
            masked(gradient_of(mode, case, 3, OBJECTIVES['jump'], setting)[1])
            for mode in (energy_gradients.fast, energy_gradients.exact)
        ]

    assert_close(*both(linear))
    with pytest.raises(AssertionError):
        assert_close(*both(setting), atol=1e-2)


def test_price():
    """`fast` is free; `exact` costs a product for every gradient of the trajectory."""
    case = families.FAMILIES['diagonal'](), OBJECTIVES['jump']
    assert energy_gradients.fast(proposals.leapfrog(3), *case).products_per_gradient == 0
    assert energy_gradients.exact(proposals.leapfrog(3), *case).products_per_gradient == 1


@pytest.mark.parametrize('mode', [energy_gradients.fast, energy_gradients.exact])
def test_only_the_chains_in_use_count(mode, setting, rng):
    """The gradient is a sum over chains; the mask takes chains out of it."""
    case = families.make('cholesky', 'relative', rng)
    objective = OBJECTIVES['jump']
    _, whole = gradient_of(mode, case, 2, objective, setting)
    parts = [
        gradient_of(mode, case, 2, objective, setting, tf.constant(mask))[1]
        for mask in ([True, False, True, False], [False, True, False, True])
    ]
    assert_close(whole, parts[0] + parts[1])
    assert abs(parts[0] - parts[1]).numpy().max() > 1e-3


@pytest.mark.parametrize('mode', [energy_gradients.fast, energy_gradients.exact])
@pytest.mark.parametrize(('accident', 'speed'), [('leaves the support', 1e3), ('overflows', 1e308)])
def test_a_lost_chain_leaves_the_others_their_gradient(mode, accident, speed, setting, rng):
    """Chain 1 starts so fast that its energy is not a number; the others must not notice."""
    del accident
    case = families.make('cholesky', 'relative', rng)
    _, state, noise = setting
    lost, num_steps = 1, 3
    others = tf.constant([c != lost for c in range(CHAINS)])

    def inside_a_ball(q):
        return WELL.log_prob(q) + 0.1 * tf.math.log(1e4 - tf.reduce_sum(q**2, axis=-1))

    target = problems.packed(inside_a_ball, state.position)
    state = problems.state_at(target, state.position)

    def move_with(velocity_of_lost_chain):
        velocity = noise.numpy()
        velocity[lost] = velocity_of_lost_chain
        setting = target, state, tf.constant(velocity)
        return gradient_of(mode, case, num_steps, OBJECTIVES['jump'], setting, others)

    move, gradient = move_with(speed)
    assert not np.isfinite(move.energy_change[lost])
    _, expected = move_with(0)
    assert_close(gradient, expected)
