"""What a run keeps of every step, for kernels of ours and of TFP."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tfp_adaptive.sampling.programs import statistics

NUM_STEPS, NUM_CHAINS = 20, 3


def log_prob(q):
    return -tf.reduce_sum(tf.square(q), axis=-1) / 2


def wall(q):
    return tf.where(tf.reduce_all(tf.abs(q) < 1, axis=-1), log_prob(q), -np.inf)


def make_run(kernel=None, target=log_prob, **kwargs):
    return tfpa.sample(
        target,
        NUM_STEPS,
        NUM_STEPS,
        initial_state=tf.zeros([NUM_CHAINS, 2]),
        kernel=kernel,
        seed=(0, 1),
        progress=False,
        jit_compile=False,
        **kwargs,
    )


def test_of_an_adaptive_kernel():
    run = make_run(
        kernel=tfpa.EntropyAdaptiveHMC, trace_fn=lambda state, results: results.log_accept_ratio
    )
    kept = run.statistics
    np.testing.assert_allclose(kept.log_prob, log_prob(run.states), rtol=1e-5)
    np.testing.assert_allclose(kept.accept_prob, np.exp(np.minimum(run.trace, 0)), rtol=1e-5)
    np.testing.assert_allclose(kept.accept_prob.mean(), run.diagnostics.accept_prob, rtol=1e-5)
    # two leapfrog steps each, after the gradient of the start
    np.testing.assert_array_equal(kept.num_gradients, 1 + 2 * np.arange(1, NUM_STEPS + 1))
    np.testing.assert_array_equal(
        run.warmup_preconditioner[-1], run.warmup_kernel_results.adaptation.preconditioner
    )
    assert run.warmup_preconditioner.shape == (NUM_STEPS, 2, 2)
    np.testing.assert_array_equal(run.warmup_trace.num_gradients[-1], 2 + 2 * NUM_STEPS)


def test_walls_are_divergences():
    run = make_run(target=wall)
    assert run.statistics.is_divergent.sum() == run.diagnostics.num_divergences > 0
    np.testing.assert_array_equal(run.statistics.accept_prob[run.statistics.is_divergent], 0)


def test_of_nuts_inside_a_step_size_adapter():
    def kernel(target):
        nuts = tfp.mcmc.NoUTurnSampler(target, step_size=0.5)
        return tfp.mcmc.DualAveragingStepSizeAdaptation(nuts, NUM_STEPS)

    run = make_run(kernel)
    assert run.warmup_trace is None
    assert run.warmup_preconditioner == ()
    assert run.statistics.num_gradients == ()
    assert (run.statistics.num_leapfrog_steps >= 1).all()
    assert run.statistics.num_leapfrog_steps.shape == (NUM_STEPS, NUM_CHAINS)
    assert run.statistics.is_divergent.dtype == bool


def test_a_long_history_of_a_large_factor_is_not_kept():
    kernel = tfpa.EntropyAdaptiveHMC(log_prob)
    results = kernel.bootstrap_results(tf.zeros([NUM_CHAINS, 64]))
    factor_bytes = 4 * 64**2
    for num_steps, is_kept in ((2**25 // factor_bytes, True), (2**25 // factor_bytes + 1, False)):
        with_history = statistics.keeps_history(kernel, results, num_steps)
        kept = statistics.warmup_statistics_fn(kernel, with_history)(None, results)
        assert (not isinstance(kept.preconditioner, tuple)) == is_kept
        assert kept.info is results.info


def test_far_proposals_without_gradients_are_rejected_and_do_not_diverge():
    kernel = tfpa.AdaptiveMetropolis(log_prob, 10)
    results = kernel.bootstrap_results(tf.zeros([NUM_CHAINS, 2]))
    for ratio, is_divergent in ((-2000.0, False), (-np.inf, False), (np.nan, True)):
        kept = statistics.draw_statistics(
            results._replace(log_accept_ratio=tf.fill([NUM_CHAINS], ratio))
        )
        np.testing.assert_array_equal(kept.accept_prob, 0)
        np.testing.assert_array_equal(kept.is_divergent, is_divergent)


@pytest.mark.parametrize('ratio', [np.nan, -np.inf, -1001.0, -999.0, 5.0])
def test_a_ratio_that_is_no_number_counts_as_rejected_and_divergent(ratio):
    kernel = tfpa.EntropyAdaptiveHMC(log_prob)
    results = kernel.bootstrap_results(tf.zeros([NUM_CHAINS, 2]))
    results = results._replace(log_accept_ratio=tf.fill([NUM_CHAINS], ratio))
    kept = statistics.draw_statistics(results)
    expected = 0 if np.isnan(ratio) else min(1.0, np.exp(ratio))
    np.testing.assert_array_equal(kept.accept_prob, np.full(NUM_CHAINS, expected, np.float32))
    np.testing.assert_array_equal(kept.is_divergent, not ratio >= -1000)
