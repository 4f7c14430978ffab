"""From exact draws, a few steps of a frozen kernel leave exact draws.

Every positive test has a negative control: the same test rejects the same kernel for a slightly
wrong target, and without its accept step.
"""

import functools

import pytest
import tensorflow as tf

from tests.support import catalogue, targets
from tests.support.catalogue import (
    DEFAULT,
    FLOW_OF_TWO_STEPS,
    every_kernel_on_any_chains,
    in_depth_on_any_chains,
)
from tests.support.statistics import DETECTION, FALSE_ALARM, invariance_p_value

TARGET = targets.SKEWED

_FEW = ('hmc2_momentum', 'random_walk')

in_parts = catalogue.in_depth(where=catalogue.ON_ANY_CHAINS.__contains__, representatives=_FEW)

within_walls = catalogue.in_depth(
    # the L2HMC objective learns moves there that are hardly ever accepted
    where=lambda entry: entry in catalogue.ON_ANY_CHAINS and 'l2hmc' not in entry.name,
    representatives=_FEW,
)


def _check(frozen, target, seed, batch_shape=(50_000,), step=None):
    p_value, accept_prob = invariance_p_value(frozen, target, seed, batch_shape, step=step)
    assert 0.1 < accept_prob < 0.95  # both outcomes matter, neither is rare
    assert p_value > FALSE_ALARM


@every_kernel_on_any_chains
def test_invariance(entry, seed):
    kernel, step = _on_power(1.0, entry, seed)
    _check(kernel, TARGET, seed, (entry.num_chains,), step)


def _on_power(power, entry, seed):
    """The bold kernel on a power of the target, and its step."""
    program, power = catalogue.frozen_program(entry, TARGET, seed), tf.constant(power)
    step = functools.partial(_step_of, program, power)
    return program.on_power(power), step


def _step_of(program, power, state, results, seed):
    return program.step(state, results, power, seed=seed)


@pytest.mark.slow
def test_invariance_of_a_flow_over_two_steps(seed):
    _check(catalogue.bold(FLOW_OF_TWO_STEPS, TARGET, seed), TARGET, seed)


@in_parts
def test_invariance_of_a_state_in_parts_and_two_chain_dimensions(entry, seed):
    _check(catalogue.bold(entry, targets.LIST, seed), targets.LIST, seed, (5, 10_000))


@within_walls
def test_invariance_within_walls(entry, seed):
    """A trajectory may cross a region of zero density but must not end in it."""
    _check(catalogue.bold(entry, targets.BOX, seed), targets.BOX, seed)


@pytest.mark.parametrize(
    'target', [targets.BANANA, targets.NAN_REGION], ids=lambda target: target.name
)
def test_invariance_on_difficult_targets(target, seed):
    _check(catalogue.bold(DEFAULT, target, seed), target, seed)


@every_kernel_on_any_chains
def test_a_wrong_target_is_detected(entry, seed):
    wrong, step = _on_power(1.2, entry, seed)
    p_value, _ = invariance_p_value(wrong, TARGET, seed, (entry.num_chains,), step=step)
    assert p_value < DETECTION


@in_depth_on_any_chains
def test_a_missing_accept_step_is_detected(entry, seed):
    wrong = catalogue.bold(entry, TARGET, seed).copy()
    draw = wrong._sampler.draw

    def draw_and_accept(*args):
        noise = draw(*args)
        return noise._replace(log_uniform=noise.log_uniform - 1e6)

    wrong._sampler = wrong._sampler._replace(draw=draw_and_accept)
    p_value, _ = invariance_p_value(wrong, TARGET, seed)
    assert p_value < DETECTION


@catalogue.in_depth(where=lambda entry: entry.uses_score)
def test_an_acceptance_without_kinetic_energy_is_detected(entry, seed):
    frozen = catalogue.bold(entry, TARGET, seed)
    proposal = frozen.parameters['proposal']

    def propose(target, factor, state, noise):
        move = proposal.propose(target, factor, state, noise)
        return move._replace(energy_change=state.log_prob - move.proposed.log_prob)

    wrong = frozen.copy(proposal=proposal._replace(propose=propose))
    p_value, _ = invariance_p_value(wrong, TARGET, seed)
    assert p_value < DETECTION
