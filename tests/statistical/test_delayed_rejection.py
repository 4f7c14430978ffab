"""Leapfrog moves with a second stage leave their target invariant, and need every factor for it."""

import functools
import importlib

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.support import targets
from tests.support.statistics import DETECTION, FALSE_ALARM, invariance_p_value
from tfp_adaptive import proposals
from tfp_adaptive.kernels.frozen import FrozenKernel

# the package holds a function of the same name
module = importlib.import_module('tfp_adaptive.proposals.delayed_rejection')


def frozen(target, scale, power=1.0, **settings):
    num_dims = target.draw(0, [1]).shape[-1]
    return FrozenKernel(
        lambda x: power * target.log_prob(x),
        proposals.delayed_rejection(**settings),
        tfpa.preconditioners.diagonal(),
        tf.ones([num_dims]),
        step_size=scale,
    )


SETTINGS = {
    'one_step': {'momentum_refreshment': 0.3, 'ratio': 3.0},
    'two_steps': {'num_leapfrog_steps': 2, 'momentum_refreshment': 0.3, 'ratio': 2.0},
    'fresh': {'momentum_refreshment': 1.0, 'ratio': 3.0},
}
SCALE = 0.6


@functools.cache
def step(name):
    """For any power of the target."""

    @tf.function(autograph=False)
    def one_step(state, results, seed, power):
        kernel = frozen(targets.SKEWED, SCALE, power, **SETTINGS[name])
        return kernel.one_step(state, results, seed=seed)

    return one_step


def found(name, power, seed):
    """p-value and mean acceptance."""
    power = tf.constant(power)
    kernel = frozen(targets.SKEWED, SCALE, power, **SETTINGS[name])
    one_step = functools.partial(step(name), power=power)
    return invariance_p_value(kernel, targets.SKEWED, seed, step=one_step)


@pytest.mark.parametrize('name', SETTINGS)
def test_invariance(name, seed):
    p_value, accept_prob = found(name, 1.0, seed)
    assert 0.5 < accept_prob < 0.98
    assert p_value > FALSE_ALARM


@pytest.mark.parametrize(
    'target',
    [pytest.param(targets.BANANA, marks=pytest.mark.slow), targets.NAN_REGION],
    ids=lambda t: t.name,
)
def test_invariance_on_difficult_targets(target, seed):
    kernel = frozen(target, SCALE, **SETTINGS['one_step'])
    p_value, _ = invariance_p_value(kernel, target, seed)
    assert p_value > FALSE_ALARM


def test_a_wrong_target_is_detected(seed):
    assert found('one_step', 1.2, seed)[0] < DETECTION


def test_a_second_stage_that_forgets_the_first_is_detected(seed, monkeypatch):
    monkeypatch.setattr(module, '_log_reject_prob', lambda move: tf.zeros_like(move.energy_change))
    kernel = frozen(targets.SKEWED, SCALE, **SETTINGS['one_step'])
    assert invariance_p_value(kernel, targets.SKEWED, seed)[0] < DETECTION


def test_the_second_stage_moves_chains_that_the_first_left(seed):
    state = targets.SKEWED.draw(seed, [1000])
    kernel = frozen(targets.SKEWED, SCALE, **SETTINGS['one_step'])
    plain = kernel.copy(proposal=proposals.leapfrog(1, 0.3))
    moved = [
        np.mean(k.one_step(state, k.bootstrap_results(state), seed=[seed, 1])[1].is_accepted)
        for k in (kernel, plain)
    ]
    assert 0.1 < moved[1] < moved[0] - 0.05
