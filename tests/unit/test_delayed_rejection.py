"""Delayed rejection: one chain after the other in NumPy, its cost, and its arguments."""

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.unit.problems import packed
from tfp_adaptive.typing import ChainState, LinearMap

NUM_CHAINS, RATIO = 40, 4.0
FACTOR = np.array([[1.3, 0.0], [0.5, 0.9]])


def log_prob(x):
    return -tf.reduce_sum(x**4, axis=-1) / 4 - x[..., 0] * x[..., 1]


def value_and_score(q):
    return -np.sum(q**4) / 4 - q[0] * q[1], -(q**3) - q[::-1]


def slow_leapfrog(q, v, step_size, num_steps):
    """Where F_h leads, with the velocity turned round, and H there."""
    factor = step_size * FACTOR
    for _ in range(num_steps):
        v = v + factor.T @ value_and_score(q)[1] / 2
        q = q + factor @ v
        v = v + factor.T @ value_and_score(q)[1] / 2
    return q, -v, v @ v / 2 - value_and_score(q)[0]


def slow_move(q, v, log_uniform, num_steps):
    """(proposed position, its velocity, energy change) of one chain."""
    energy = v @ v / 2 - value_and_score(q)[0]
    first = slow_leapfrog(q, v, 1.0, num_steps)
    a1 = min(1.0, np.exp(energy - first[2]))
    if np.log(a1) > log_uniform:
        return first[0], -first[1], 0.0
    second = slow_leapfrog(q, v, 1 / RATIO, num_steps)
    back = slow_leapfrog(*second[:2], 1.0, num_steps)
    a_back = min(1.0, np.exp(second[2] - back[2]))
    if a_back == 1:
        return second[0], -second[1], 500.0
    change = second[2] - energy - np.log(1 - a_back) + np.log(1 - a1)
    return second[0], -second[1], change


@pytest.mark.parametrize('num_steps', [1, 2])
def test_the_slow_move(num_steps, rng, seed):
    proposal = tfpa.proposals.delayed_rejection(num_steps, 0.3, RATIO)
    position, velocity = rng.normal(size=[2, NUM_CHAINS, 2])
    target = packed(log_prob, tf.constant(position))
    state = ChainState(
        tf.constant(position), *target.value_and_score(tf.constant(position)), tf.constant(velocity)
    )
    noise = proposal.draw(tf.constant([seed, 0]), NUM_CHAINS, 2, tf.float64)
    factor = LinearMap(lambda x: x @ FACTOR.T, lambda x: x @ FACTOR)
    move = proposal.propose(target, factor, state, noise)
    start = np.sqrt(0.7) * velocity + np.sqrt(0.3) * noise.velocity.numpy()
    stages = set()
    for c in range(NUM_CHAINS):
        expected = slow_move(position[c], start[c], float(noise.log_uniform[c]), num_steps)
        np.testing.assert_allclose(move.proposed.position[c], expected[0], rtol=1e-10)
        np.testing.assert_allclose(move.proposed.velocity[c], expected[1], rtol=1e-10)
        np.testing.assert_allclose(move.energy_change[c], expected[2], rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(move.rejected.velocity[c], -start[c], rtol=1e-12)
        stages.add(0 if expected[2] == 0 else 1 if expected[2] < 500 else 2)
    assert stages == {0, 1, 2}


@pytest.mark.parametrize('num_steps', [1, 2])
def test_three_gradients_a_leapfrog_step(num_steps, rng, seed):
    calls = []

    def counted(x):
        calls.append(x)
        return log_prob(x)

    position = tf.constant(rng.normal(size=[3, 2]))
    state = ChainState(
        position,
        *packed(log_prob, position).value_and_score(position),
        tf.zeros([3, 2], tf.float64),
    )
    proposal = tfpa.proposals.delayed_rejection(num_steps)
    noise = proposal.draw(tf.constant([seed, 0]), 3, 2, tf.float64)
    factor = LinearMap(lambda x: x, lambda x: x)
    move = proposal.propose(packed(counted, position), factor, state, noise)
    assert len(calls) == move.num_gradients == 3 * num_steps


def test_chains_without_a_density_at_either_stage_stay(seed):
    """Beyond a wall, energies are not finite: neither stage is accepted, and nothing is NaN."""

    def walled(x):
        return tf.reduce_sum(tf.math.log(1 - x**2), axis=-1)

    kernel = tfpa.EntropyAdaptiveHMC(walled, 1, 0, momentum_refreshment=0.3)
    state = tf.zeros([100, 2])
    results = kernel.bootstrap_results(state)
    for step_size, least in ((20.0, 0.0), (1.0, 0.3)):
        frozen = kernel.frozen(results).copy(
            proposal=tfpa.proposals.delayed_rejection(1, 0.3, 2.0), step_size=step_size
        )
        new, stepped = frozen.one_step(state, frozen.bootstrap_results(state), seed=[seed, 0])
        assert np.all(np.abs(new) < 1)
        assert np.mean(stepped.is_accepted) >= least
        assert not np.any(np.isnan(stepped.log_accept_ratio))


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        ({'num_leapfrog_steps': 0}, '`num_leapfrog_steps`'),
        ({'num_leapfrog_steps': [1, 2]}, '`num_leapfrog_steps` must be one int'),
        ({'momentum_refreshment': 0.0}, '`momentum_refreshment`'),
        ({'ratio': 1.0}, '`ratio` must be greater than 1'),
    ],
)
def test_misuse(settings, message):
    with pytest.raises(ValueError, match=message):
        tfpa.proposals.delayed_rejection(**settings)
