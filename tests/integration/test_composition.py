"""The kernels inside TFP's own wrappers, adapters, reducers and drivers, in graph mode."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.contracts.comparisons import all_finite, assert_close, assert_identical, is_identical
from tests.support import catalogue, targets
from tests.support.catalogue import DEFAULT, every_kernel_in_depth
from tests.support.statistics import largest_z, moment_z_scores

tfb, tfmc = tfp.bijectors, tfp.experimental.mcmc

TARGET = targets.LIST
NUM_ADAPTATION_STEPS = 20


def _chain(kernel, state, num_results, seed, trace_fn=lambda _, results: results, jit=False):
    run = tf.function(
        lambda state: tfp.mcmc.sample_chain(
            num_results, state, kernel=kernel, trace_fn=trace_fn, seed=tf.constant([seed, 5])
        ),
        jit_compile=jit,
    )
    return run(state)


def _learned_once(adaptation):
    """A traced adaptation moved up to its last step and not at all after."""
    factors = np.asarray(tf.nest.flatten(adaptation.preconditioner)[0])
    n = NUM_ADAPTATION_STEPS
    return not np.array_equal(factors[0], factors[n - 1]) and np.array_equal(
        np.broadcast_to(factors[n - 1], factors[n:].shape), factors[n:]
    )


# ---- transformed kernels


@every_kernel_in_depth
def test_transformed(entry, seed):
    kernel = tfp.mcmc.TransformedTransitionKernel(
        entry.make(TARGET.log_prob, NUM_ADAPTATION_STEPS), [tfb.Identity(), tfb.Shift(1.0)]
    )
    states, trace = _chain(kernel, TARGET.draw(seed, [8]), 30, seed)
    assert all_finite([states, trace])
    assert _learned_once(trace.inner_results.adaptation)


@pytest.mark.parametrize('jit', [False, True], ids=['graph', 'xla'])
def test_transformed_kernel_samples_the_constrained_target(jit, seed):
    """Gamma(3, 1) through its logarithm: mean 3, variance 3."""
    gamma = tfp.distributions.Sample(tfp.distributions.Gamma(3.0, 1.0), 2)
    inner = DEFAULT.make(gamma.log_prob, 300)
    kernel = tfp.mcmc.TransformedTransitionKernel(inner, tfb.Exp())
    states = _chain(kernel, tf.ones([20, 2]), 1500, seed, trace_fn=None, jit=jit)
    z, ess = moment_z_scores(states[500:], 3 * np.ones(2), 3 * np.ones(2))
    assert ess > 1000
    assert np.max(np.abs(z)) < largest_z(z.size)


# ---- step-size adapters


@every_kernel_in_depth
def test_dual_averaging(entry, seed):
    _check_adapter(tfp.mcmc.DualAveragingStepSizeAdaptation, entry, seed)


def test_simple_step_size_adaptation(seed):
    _check_adapter(tfp.mcmc.SimpleStepSizeAdaptation, DEFAULT, seed)


def _check_adapter(adapter, entry, seed):
    """The adapter owns the step size, the kernel the preconditioner."""
    kernel = adapter(entry.make(TARGET.log_prob, NUM_ADAPTATION_STEPS), num_adaptation_steps=25)
    states, trace = _chain(kernel, TARGET.draw(seed, [8]), 30, seed)
    assert all_finite([states, trace.inner_results])
    assert _learned_once(trace.inner_results.adaptation)
    step_size = trace.inner_results.step_size.numpy()
    assert step_size.shape == (30,)
    assert step_size[0] != step_size[20]
    np.testing.assert_array_equal(step_size[26:], step_size[25])


@pytest.mark.parametrize('jit', [False, True], ids=['graph', 'xla'])
def test_dual_averaging_of_a_frozen_kernel_reaches_its_acceptance(jit, seed):
    """From a step size ten times too small to the acceptance rate asked for."""
    frozen = catalogue.learned(DEFAULT, targets.GAUSSIAN, seed).frozen
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        frozen.copy(step_size=0.1), num_adaptation_steps=400, target_accept_prob=0.8
    )
    _, log_accept_ratio = _chain(
        kernel,
        targets.GAUSSIAN.draw(seed, [32]),
        600,
        seed,
        trace_fn=lambda _, results: results.inner_results.log_accept_ratio,
        jit=jit,
    )
    accept_prob = np.exp(np.minimum(log_accept_ratio[400:], 0))
    assert 0.75 < np.mean(accept_prob) < 0.85


def test_step_size_per_chain(seed):
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        DEFAULT.make(targets.GAUSSIAN.log_prob, NUM_ADAPTATION_STEPS, step_size=tf.ones([8, 1])),
        num_adaptation_steps=25,
    )
    _, trace = _chain(kernel, targets.GAUSSIAN.draw(seed, [8]), 30, seed)
    step_size = trace.inner_results.step_size.numpy()
    assert step_size.shape == (30, 8, 1)
    assert len(np.unique(step_size[-1])) == 8


def test_adapter_of_a_transformed_kernel(seed):
    inner = tfp.mcmc.TransformedTransitionKernel(
        DEFAULT.make(TARGET.log_prob, NUM_ADAPTATION_STEPS), [tfb.Scale(2.0), tfb.Shift(1.0)]
    )
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(inner, num_adaptation_steps=25)
    states, trace = _chain(kernel, TARGET.draw(seed, [8]), 30, seed)
    assert all_finite(states)
    assert _learned_once(trace.inner_results.inner_results.adaptation)


# ---- replica exchange

INVERSE_TEMPERATURES = [1.0, 0.25]


@every_kernel_in_depth
def test_replica_exchange(entry, seed):
    kernel = tfp.mcmc.ReplicaExchangeMC(
        TARGET.log_prob,
        inverse_temperatures=INVERSE_TEMPERATURES,
        make_kernel_fn=lambda fn: entry.make(fn, NUM_ADAPTATION_STEPS),
    )
    states, trace = _chain(
        kernel,
        TARGET.draw(seed, [4]),
        30,
        seed,
        trace_fn=lambda _, results: (
            results.post_swap_replica_results.adaptation,
            results.is_swap_accepted,
        ),
    )
    assert [part.shape for part in states] == [[30, 4, 3], [30, 4, 2, 2]]
    assert all_finite(states)
    assert _learned_once(trace[0])
    assert np.any(trace[1])


def _normal_log_prob(x):
    return -tf.reduce_sum(tf.square(x), axis=-1) / 2


def _replica_exchange_variance(make_kernel_fn, seed, num_chains=10_000, num_steps=20):
    """(variance of the cold replica, its standard error) after steps from exact draws."""
    kernel = tfp.mcmc.ReplicaExchangeMC(
        _normal_log_prob,
        INVERSE_TEMPERATURES,
        make_kernel_fn=make_kernel_fn,
        state_includes_replicas=True,
    )
    start = np.random.default_rng(seed).standard_normal([2, num_chains, 4])
    start /= np.sqrt(INVERSE_TEMPERATURES)[:, np.newaxis, np.newaxis]
    states = _chain(kernel, tf.constant(start, tf.float32), num_steps, seed, trace_fn=None)
    return np.mean(np.square(states[-1, 0])), np.sqrt(2 / (4 * num_chains))


@every_kernel_in_depth
def test_replica_exchange_samples_the_cold_target(entry, seed):
    """Swaps replace states behind the kernel's back: a stale cache would bias the variance."""
    kernel = entry.make(_normal_log_prob, 0)
    frozen = kernel.frozen(kernel.bootstrap_results(tf.ones([1, 4])))
    variance, error = _replica_exchange_variance(
        lambda fn: frozen.copy(target_log_prob_fn=fn, step_size=1.5), seed
    )
    assert abs(variance - 1) < 4 * error


def test_a_stale_cache_under_replica_exchange_is_detected(seed):
    """TFP's own MALA caches its drift across swaps; its bias shows that the test has power."""
    variance, error = _replica_exchange_variance(
        lambda fn: tfp.mcmc.MetropolisAdjustedLangevinAlgorithm(fn, step_size=1.0), seed
    )
    assert abs(variance - 1) > 6 * error


def test_replica_exchange_of_an_adapter(seed):
    def make_kernel_fn(fn):
        return tfp.mcmc.DualAveragingStepSizeAdaptation(
            DEFAULT.make(fn, NUM_ADAPTATION_STEPS), num_adaptation_steps=25
        )

    kernel = tfp.mcmc.ReplicaExchangeMC(TARGET.log_prob, INVERSE_TEMPERATURES, make_kernel_fn)
    assert all_finite(_chain(kernel, TARGET.draw(seed, [4]), 30, seed, trace_fn=None))


def test_transformed_replica_exchange(seed):
    kernel = tfp.mcmc.TransformedTransitionKernel(
        tfp.mcmc.ReplicaExchangeMC(
            TARGET.log_prob,
            INVERSE_TEMPERATURES,
            make_kernel_fn=lambda fn: DEFAULT.make(fn, NUM_ADAPTATION_STEPS),
        ),
        [tfb.Scale(2.0), tfb.Shift(1.0)],
    )
    assert all_finite(_chain(kernel, TARGET.draw(seed, [4]), 30, seed, trace_fn=None))


# ---- thinning, reducers and drivers


@pytest.mark.parametrize(
    'wrap',
    [
        lambda kernel: tfmc.SampleDiscardingKernel(
            kernel, num_burnin_steps=10, num_steps_between_results=1
        ),
        lambda kernel: tfmc.ThinningKernel(kernel, num_steps_to_skip=1),
    ],
    ids=['discarding', 'thinning'],
)
def test_thinning(wrap, seed):
    kernel = wrap(DEFAULT.make(TARGET.log_prob, NUM_ADAPTATION_STEPS))
    states, trace = _chain(kernel, TARGET.draw(seed, [8]), 20, seed)
    results = getattr(trace, 'inner_results', trace)
    assert all_finite([states, results])
    np.testing.assert_array_equal(np.diff(results.step), 2)


def test_reducers_see_every_step(seed):
    reducer = tfmc.CovarianceReducer(event_ndims=1)
    kernel = tfmc.WithReductions(
        DEFAULT.make(targets.SKEWED.log_prob, NUM_ADAPTATION_STEPS), reducer
    )

    @tf.function
    def run(state):
        return tfp.mcmc.sample_chain(
            30,
            state,
            kernel=kernel,
            trace_fn=lambda _, results: results.inner_results.adaptation,
            return_final_kernel_results=True,
            seed=tf.constant([seed, 5]),
        )

    states, adaptation, results = run(targets.SKEWED.draw(seed, [8]))
    centred = states - tf.reduce_mean(states, axis=0)
    covariance = tf.einsum('nci,ncj->cij', centred, centred) / 30
    assert_close(reducer.finalize(results.reduction_results), covariance, rtol=1e-3)
    assert _learned_once(adaptation)


def test_sample_fold(seed):
    kernel = DEFAULT.make(targets.SKEWED.log_prob, NUM_ADAPTATION_STEPS)

    @tf.function
    def fold(state):
        return tfmc.sample_fold(
            num_steps=30,
            current_state=state,
            kernel=kernel,
            reducer=[tfmc.ExpectationsReducer(), tfmc.CovarianceReducer(event_ndims=1)],
            seed=tf.constant([seed, 5]),
        )

    (expectation, covariance), end, results = fold(targets.SKEWED.draw(seed, [8]))
    assert expectation.shape == [8, 7]
    assert covariance.shape == [8, 7, 7]
    assert all_finite([expectation, covariance, end, results])
    assert int(results.step) == 30


def test_step_kernel(seed):
    kernel = DEFAULT.make(TARGET.log_prob, NUM_ADAPTATION_STEPS)

    @tf.function
    def run(state):
        return tfmc.step_kernel(
            num_steps=30,
            current_state=state,
            kernel=kernel,
            return_final_kernel_results=True,
            seed=tf.constant([seed, 5]),
        )

    end, results = run(TARGET.draw(seed, [8]))
    assert all_finite([end, results])
    assert int(results.step) == 30


def test_experimental_sample_chain(seed):
    kernel = DEFAULT.make(TARGET.log_prob, NUM_ADAPTATION_STEPS)

    @tf.function
    def run(state):
        chain = tfmc.sample_chain(
            num_results=30,
            current_state=state,
            kernel=kernel,
            trace_fn=lambda state, results: (state, results.step),
            seed=tf.constant([seed, 5]),
        )
        return chain.trace

    states, step = run(TARGET.draw(seed, [8]))
    assert all_finite(states)
    np.testing.assert_array_equal(step, np.arange(1, 31))


def test_burn_in_and_thinning_of_sample_chain_only_drop_draws(seed):
    """Seeds are used up once a step, so that skipped draws are the draws of the full chain."""
    kernel = DEFAULT.make(TARGET.log_prob, NUM_ADAPTATION_STEPS)
    state = TARGET.draw(seed, [4])

    @tf.function
    def run(state, num_results, num_burnin_steps, num_steps_between_results):
        return tfp.mcmc.sample_chain(
            num_results,
            state,
            kernel=kernel,
            num_burnin_steps=num_burnin_steps,
            num_steps_between_results=num_steps_between_results,
            trace_fn=None,
            seed=tf.constant([seed, 5]),
        )

    whole = run(state, tf.constant(13), tf.constant(0), tf.constant(0))
    thinned = run(state, tf.constant(5), tf.constant(4), tf.constant(1))
    assert_identical(thinned, [part[4::2] for part in whole])
    assert not is_identical(whole[0][4], whole[0][12])
