"""objectives: the loss of a move, and what an objective remembers."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive import objectives

ENERGY = np.array([-3.0, -0.1, 0.0, 0.5, 4.0])


@pytest.fixture
def moves(rng):
    """Energy changes, start and end points of five chains, with their squared distances."""
    start, end = rng.normal(size=[2, len(ENERGY), 2])
    tensors = [tf.constant(x) for x in (ENERGY, start, end)]
    return tensors, np.sum((end - start) ** 2, axis=1)


def test_generalized_speed_is_minus_log_acceptance(moves):
    objective = objectives.generalized_speed()
    expected = -np.log(np.minimum(1, np.exp(-ENERGY)))
    np.testing.assert_allclose(objective.loss(*moves[0], ()), expected, atol=1e-15)
    assert objective.uses_entropy


def test_expected_squared_jump_distance(moves):
    """-a |q' - q|^2, without an entropy term."""
    tensors, squared_distance = moves
    objective = objectives.expected_squared_jump_distance()
    expected = -np.minimum(1, np.exp(-ENERGY)) * squared_distance
    np.testing.assert_allclose(objective.loss(*tensors, ()), expected, rtol=1e-12)
    assert not objective.uses_entropy


def test_l2hmc(moves):
    """lambda / (a d^2) - a d^2 / lambda, with a moving average lambda that starts at one."""
    tensors, squared_distance = moves
    objective = objectives.l2hmc(decay=0.75)
    accepted = np.minimum(1, np.exp(-ENERGY)) * squared_distance
    scale = tf.constant(0.3, tf.float64)
    expected = 0.3 / accepted - accepted / 0.3
    np.testing.assert_allclose(objective.loss(*tensors, scale), expected, rtol=1e-12)
    np.testing.assert_allclose(objective.statistic(*tensors), accepted, rtol=1e-12)
    assert objective.init(tf.float64) == 1
    mean = tf.constant(2.0, tf.float64)
    np.testing.assert_allclose(objective.update(scale, mean), 0.75 * 0.3 + 0.25 * 2.0)
    assert not objective.uses_entropy


def test_l2hmc_is_bounded_where_nothing_moves():
    """A chain that stays, or a lost one counted as staying, gives the largest finite loss."""
    still = tf.ones([1, 2], tf.float64)
    loss = objectives.l2hmc().loss(tf.zeros([1], tf.float64), still, still, 1.0)
    np.testing.assert_allclose(loss, 1e4, rtol=1e-6)


@pytest.mark.parametrize(
    'objective',
    [
        objectives.generalized_speed(),
        objectives.expected_squared_jump_distance(),
        objectives.l2hmc(),
    ],
)
def test_state_keeps_its_dtype(objective, moves):
    state = objective.init(tf.float64)
    mean = tf.reduce_mean(objective.statistic(*moves[0]))
    after = objective.update(state, mean)
    for a, b in zip(tf.nest.flatten(state), tf.nest.flatten(after), strict=True):
        assert a.dtype == b.dtype == tf.float64
