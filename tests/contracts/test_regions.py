"""Where the density is NaN or zero: chains never enter, and learning goes on."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.contracts.comparisons import (
    all_finite,
    assert_close,
    assert_identical,
    draw_noise,
    injected_steps,
    is_identical,
    rows_of,
)
from tests.support import targets
from tests.support.catalogue import (
    DEFAULT,
    ON_ANY_CHAINS,
    every_kernel_in_depth,
)


def test_chains_never_enter_a_region_of_nan(seed):
    _check_region(DEFAULT, targets.NAN_REGION, seed)


@every_kernel_in_depth
def test_chains_never_enter_a_region_of_zero_density(entry, seed):
    _check_region(entry, targets.BOX, seed)


def _check_region(entry, target, seed):
    kernel = entry.make(target.log_prob, 100)
    state = target.draw(seed, [16])
    bootstrapped = kernel.bootstrap_results(state)

    @tf.function(autograph=False)
    def run(state, results):
        return tfp.mcmc.sample_chain(
            150,
            state,
            results,
            kernel,
            trace_fn=lambda _, results: (
                results.target_log_prob,
                results.log_accept_ratio,
                results.is_accepted,
                results.info.num_nonfinite,
                results.proposed_state,
            ),
            return_final_kernel_results=True,
            seed=[seed, 0],
        )

    chain = run(state, bootstrapped)
    log_prob, log_accept_ratio, is_accepted, num_nonfinite, proposed_state = chain.trace
    assert all_finite([chain.all_states, log_prob, chain.final_kernel_results.adaptation])
    assert all_finite(proposed_state)  # a trajectory that crosses the region stays a number
    np.testing.assert_allclose(log_prob, target.log_prob(chain.all_states), rtol=1e-4, atol=1e-4)
    refused = np.isneginf(log_accept_ratio)
    assert refused.any()
    assert not np.any(is_accepted & refused)
    np.testing.assert_array_equal(num_nonfinite, np.cumsum(refused.sum(axis=1)))
    assert not np.isnan(log_accept_ratio).any()
    assert np.any(is_accepted[100:])
    assert not is_identical(
        chain.final_kernel_results.adaptation.preconditioner,
        bootstrapped.adaptation.preconditioner,
    )


@every_kernel_in_depth
def test_frozen_chains_never_enter_a_forbidden_region(entry, seed):
    target = targets.BOX
    kernel = entry.make(target.log_prob, 5)
    state = target.draw(seed, [16])
    frozen = kernel.frozen(kernel.bootstrap_results(state))
    step, results = tf.function(frozen.one_step, autograph=False), frozen.bootstrap_results(state)
    for i in range(50):
        state, results = step(state, results, seed=tf.constant([seed, i]))
    assert np.all(np.abs(state) <= 2)
    assert np.all(np.isfinite(results.target_log_prob))


def _scaling_flow(num_leapfrog_steps, energy_gradient):
    flow = tfpa.preconditioners.bijector(
        lambda p: tfp.bijectors.Scale(log_scale=p), lambda size, dtype, _: tf.fill([size], -1.0)
    )
    return functools.partial(
        tfpa.EntropyAdaptiveHMC,
        num_leapfrog_steps=num_leapfrog_steps,
        preconditioner=flow,
        energy_gradient=energy_gradient,
    )


_MAKERS = {entry.name: entry.make for entry in ON_ANY_CHAINS} | {
    'mala_bijector': lambda fn, n: _scaling_flow(1, 'fast')(fn, num_adaptation_steps=n),
    'hmc2_bijector_exact': lambda fn, n: _scaling_flow(2, 'exact')(fn, num_adaptation_steps=n),
}


WITHOUT_DENSITY = [
    *([3.0, 0, 0, 0], [0, 99.0, 0, 0]),
    *([np.nan] * 4, [0, np.inf, 0, 0], [1e200] * 4),
]
"""NaN and zero in the density, then in the position itself."""


def _with_gaps(x):
    impossible = tf.constant(float('-inf'), x.dtype)
    return tf.where(x[..., 1] > 50, impossible, targets.NAN_REGION.log_prob(x))


_GOOD = slice(0, 4)


def _beside(kernel, state, seed):
    """What two steps lead to, as it is and for the good chains alone, with the same noise."""
    results = kernel.bootstrap_results(state)
    alone = kernel.bootstrap_results(state[_GOOD])
    assert_identical(results.adaptation, alone.adaptation)
    noises = [draw_noise(kernel, state, [seed, step]) for step in range(2)]
    together = injected_steps(kernel, state, slice(None), results, noises)
    expected = injected_steps(kernel, state, _GOOD, alone, noises)
    for (_, learned, _), (_, own_learned, _) in zip(together, expected, strict=True):
        assert_close(learned, own_learned, rtol=1e-9)
    assert not is_identical(own_learned.preconditioner, alone.adaptation.preconditioner)
    return results, zip(together, expected, strict=True)


@pytest.mark.parametrize('name', _MAKERS)
def test_nothing_is_learned_from_chains_without_density(name, seed):
    """What is learned beside them, with the same noise, is what is learned without them."""
    inside = targets.NAN_REGION.draw(seed, [4], 'float64')
    state = tf.concat([inside, tf.constant(WITHOUT_DENSITY, tf.float64)], axis=0)
    results, steps = _beside(_MAKERS[name](_with_gaps, 5), state, seed)
    np.testing.assert_array_equal(np.isfinite(results.target_log_prob), [True] * 4 + [False] * 5)
    for (transition, _, _), (own, _, _) in steps:
        assert_close(rows_of(transition, _GOOD), own, rtol=1e-9)
        assert not np.any(transition.is_accepted[4:])
    np.testing.assert_array_equal(transition.state.position[4:], state[4:])


def _without_score(x):
    """A density everywhere, but at a kink, where the last coordinate is 60, its gradient is NaN."""
    return targets.NAN_REGION.log_prob(x) - tf.norm(x[..., 3:] - 60, axis=-1)


@pytest.mark.parametrize(
    'entry',
    [entry for entry in ON_ANY_CHAINS if entry.uses_score],
    ids=lambda entry: entry.name,
)
def test_nothing_is_learned_from_chains_without_score(entry, seed):
    """They can never move either."""
    inside = targets.NAN_REGION.draw(seed, [4], 'float64')
    state = tf.concat([inside, tf.constant([[0, 0, 0, 60.0]], tf.float64)], axis=0)
    results, steps = _beside(entry.make(_without_score, 5), state, seed)
    assert np.all(np.isfinite(results.target_log_prob))
    assert not np.all(np.isfinite(results.grads_target_log_prob[0][4]))
    for (_, _, info), (_, _, own_info) in steps:
        assert int(info.num_nonfinite - own_info.num_nonfinite) > 0
