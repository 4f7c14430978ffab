"""Where the density is NaN or zero: chains never enter, and learning goes on."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tests.contracts.comparisons import all_finite, is_identical
from tests.support import targets
from tests.support.catalogue import DEFAULT, every_kernel_in_depth


def test_chains_never_enter_a_region_of_nan(seed):
    _check_region(DEFAULT, targets.NAN_REGION, seed)


@every_kernel_in_depth
def test_chains_never_enter_a_region_of_zero_density(entry, seed):
    _check_region(entry, targets.BOX, seed)


def _check_region(entry, target, seed):
    kernel = entry.make(target.log_prob, 100)
    state = target.draw(seed, [16])
    bootstrapped = kernel.bootstrap_results(state)

    @tf.function
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
    step, results = tf.function(frozen.one_step), frozen.bootstrap_results(state)
    for i in range(50):
        state, results = step(state, results, seed=tf.constant([seed, i]))
    assert np.all(np.abs(state) <= 2)
    assert np.all(np.isfinite(results.target_log_prob))
