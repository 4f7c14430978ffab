"""kernels.metropolis on scripted energies."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.kernels import metropolis
from tfp_adaptive.typing import ChainState, Move

NAN, INF = float('nan'), float('inf')


def decide(energy_change, log_uniform):
    """Chains at 0 that propose 1, 2, 3, ... with the given energy changes."""
    num_chains = len(energy_change)
    index = np.arange(1, num_chains + 1.0)
    state = ChainState(*(tf.zeros([num_chains, *rest], tf.float64) for rest in ([2], [], [2])))
    proposed = ChainState(
        tf.constant(np.stack([index, -index], axis=1)),
        tf.constant(10 * index),
        tf.constant(np.stack([100 * index, -100 * index], axis=1)),
    )
    move = Move(
        proposed=proposed,
        rejected=state,
        energy_change=tf.constant(energy_change, tf.float64),
        midpoint=state.position,
        midpoint_score=state.score,
        curvature=0,
        num_gradients=1,
        trajectory=(),
    )
    return metropolis.metropolis_hastings(move, tf.constant(log_uniform, tf.float64))


@pytest.mark.parametrize(
    ('energy_change', 'uniform', 'accepted'),
    [
        (-1.0, 0.999, True),
        (0.0, 0.999, True),
        (1.0, 0.36, True),
        (1.0, 0.37, False),
        (1e4, 0.0, True),
        (1e4, 1e-300, False),
        (NAN, 1e-300, False),
        (INF, 1e-300, False),
        (-INF, 1e-300, False),
        (NAN, 0.0, False),
        (INF, 0.0, False),
    ],
)
def test_decisions(energy_change, uniform, accepted):
    """exp(-1) = 0.3679; what is not finite is not accepted, even if the uniform is zero."""
    with np.errstate(divide='ignore'):
        transition = decide([energy_change], [np.log(uniform)])
    assert bool(transition.is_accepted[0]) == accepted
    expected = -energy_change if np.isfinite(energy_change) else -INF
    assert transition.log_accept_ratio[0] == expected


def test_every_field_follows_the_decision_of_its_chain():
    transition = decide([-1.0, INF, -1.0], np.log([0.5, 0.5, 0.5]))
    np.testing.assert_array_equal(transition.state.position, [[1, -1], [0, 0], [3, -3]])
    np.testing.assert_array_equal(transition.state.log_prob, [10, 0, 30])
    np.testing.assert_array_equal(transition.state.score, [[100, -100], [0, 0], [300, -300]])
    np.testing.assert_array_equal(transition.proposed.log_prob, [10, 20, 30])


def test_acceptance_probability():
    transition = decide([-1.0, 0.0, 1.0, INF, NAN], np.log([0.5] * 5))
    np.testing.assert_allclose(
        metropolis.accept_prob(transition), [1, 1, np.exp(-1), 0, 0], atol=1e-15
    )


def test_lost_chains_are_counted():
    transition = decide([-1.0, INF, 1e4, NAN, -INF], np.log([0.5] * 5))
    np.testing.assert_array_equal(
        metropolis.is_finite(transition), [True, False, True, False, False]
    )
    assert metropolis.num_nonfinite(transition) == 3


@pytest.mark.parametrize('energy_change', [0.1, 0.7, 3.0])
def test_acceptance_frequency(energy_change, stateless_seed):
    """exp(-Delta) of the chains accept, within 4 standard errors."""
    num = 100_000
    log_uniform = metropolis.draw_log_uniform(stateless_seed(), num, tf.float64)
    transition = decide(np.full(num, energy_change), log_uniform)
    expected = np.exp(-energy_change)
    standard_error = np.sqrt(expected * (1 - expected) / num)
    assert abs(np.mean(transition.is_accepted) - expected) < 4 * standard_error
