"""proposals.random_walk: the move, its price, and its pullback."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tests.unit import families, problems
from tfp_adaptive import proposals
from tfp_adaptive.kernels import energy_gradients
from tfp_adaptive.typing import ChainState, Objective

SIZE, CHAINS = families.SIZE, 4
STEP_SIZE = 0.5
WELL = problems.QuarticWell(SIZE)


def smooth(energy, start, end, *_):
    return energy + 0.1 * energy**2 + tf.exp(-energy) * tf.reduce_sum((end - start) ** 2, -1)


@pytest.fixture
def setting(rng):
    """A target, a state that carries no score, and noise."""
    position, noise = rng.normal(size=[2, CHAINS, SIZE])
    target = problems.packed(WELL.log_prob, position)
    log_prob = target.value(tf.constant(position))
    state = ChainState(tf.constant(position), log_prob, tf.zeros([CHAINS, 0], tf.float64))
    return target, state, tf.constant(noise)


@pytest.mark.parametrize('learns', [False, True])
def test_move(learns, setting, rng):
    """q' = q + F eps and Delta = U(q') - U(q), the same whether or not it learns."""
    target, state, noise = setting
    matrix = problems.random_factor(rng, SIZE)
    proposal = proposals.random_walk()
    proposal = proposal.learning if learns else proposal
    move = proposal.propose(target, problems.linear_map(matrix), state, noise)
    for c in range(CHAINS):
        start = state.position[c].numpy()
        end = start + matrix @ noise[c].numpy()
        np.testing.assert_allclose(move.proposed.position[c], end, atol=1e-12)
        energy = WELL.potential(end) - WELL.potential(start)
        np.testing.assert_allclose(move.energy_change[c], energy, atol=1e-12)
    assert move.proposed.score.shape == (CHAINS, 0)
    assert move.curvature == 0
    assert move.num_gradients == int(learns)


def test_frozen_evaluates_no_gradient(setting, rng):
    target, state, noise = setting
    factor = problems.linear_map(problems.random_factor(rng, SIZE))

    def no_score(position):
        raise AssertionError('a gradient was spent')

    target, calls = problems.counting(target._replace(value_and_score=no_score))
    proposals.random_walk().propose(target, factor, state, noise)
    assert len(calls) == 1


@pytest.mark.parametrize('mode', [energy_gradients.fast, energy_gradients.exact])
@pytest.mark.parametrize('family', ['diagonal', 'cholesky', 'bordered-1', 'by_part', 'low_rank'])
def test_gradient_is_the_derivative_of_the_loss(family, mode, setting, rng):
    """No score enters the move, so the closed form is exact: against finite differences."""
    case = families.make(family, 'relative', rng)
    target, state, noise = setting
    proposal, objective = proposals.random_walk(), Objective(smooth)
    step_size = tf.constant(STEP_SIZE, tf.float64)
    energy_gradient = mode(proposal, case.preconditioner, objective)
    _, gradient = energy_gradient.differentiable_move(
        target, case.parameters, step_size, state, noise
    )
    gradient = gradient(tf.ones([CHAINS], tf.bool))
    direction = case.random_tangent(rng)

    def along(t):
        tangent = tf.nest.map_structure(lambda x: t * x, direction)
        parameters = case.preconditioner.retract(case.parameters, tangent)
        factor = energy_gradients.proposal_factor(case.preconditioner, parameters, step_size)
        move = proposal.propose(target, factor, state, noise)
        loss = smooth(move.energy_change, state.position, move.proposed.position)
        return tf.reduce_sum(loss).numpy()

    products = tf.nest.map_structure(lambda a, b: tf.reduce_sum(a * b), gradient, direction)
    expected = twins.central_difference(along, 0.0)
    np.testing.assert_allclose(sum(tf.nest.flatten(products)), expected, rtol=1e-6, atol=1e-6)


def test_draw_is_standard_normal(stateless_seed):
    num = 20_000
    noise = proposals.random_walk().draw(stateless_seed(), num, 3, tf.float64).numpy()
    assert (abs(noise.mean(axis=0)) < 4 / np.sqrt(num)).all()
    assert (abs((noise**2).mean(axis=0) - 1) < 4 * np.sqrt(2 / num)).all()
