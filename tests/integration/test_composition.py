"""What the kernels do inside TFP's own wrappers, adapters and drivers, in graph mode.

That each of them runs in each is in test_matrix; here is what comes out.
"""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.contracts.comparisons import all_finite, assert_close, assert_identical, is_identical
from tests.support import catalogue, targets
from tests.support.catalogue import KERNELS, ON_DENSITIES
from tests.support.statistics import largest_z, moment_z_scores

tfb, tfmc = tfp.bijectors, tfp.experimental.mcmc

TARGET = targets.LIST
NUM_ADAPTATION_STEPS = 20

MALA = KERNELS[0]
"""The cheapest to trace, where any kernel will do."""


def _chain(kernel, state, num_results, seed, trace_fn=lambda _, results: results, jit=False):
    run = tf.function(
        lambda state: tfp.mcmc.sample_chain(
            num_results, state, kernel=kernel, trace_fn=trace_fn, seed=tf.constant([seed, 5])
        ),
        jit_compile=jit,
        autograph=False,
    )
    return run(state)


# ---- transformed kernels


@pytest.mark.slow
def test_transformed_kernel_samples_the_constrained_target(seed):
    """Gamma(3, 1) through its logarithm: mean 3, variance 3. Under XLA: in a graph the test below
    compares step for step.
    """
    gamma = tfp.distributions.Sample(tfp.distributions.Gamma(3.0, 1.0), 2)
    inner = MALA.make(gamma.log_prob, 300)
    kernel = tfp.mcmc.TransformedTransitionKernel(inner, tfb.Exp())
    states = _chain(kernel, tf.ones([20, 2]), 1500, seed, trace_fn=None, jit=True)
    z, ess = moment_z_scores(states[500:], 3 * np.ones(2), 3 * np.ones(2))
    assert ess > 1000
    assert np.max(np.abs(z)) < largest_z(z.size)


@pytest.mark.parametrize(
    'entry',
    [
        pytest.param(entry, marks=[] if entry is MALA else pytest.mark.slow, id=entry.name)
        for entry in ON_DENSITIES
    ],
)
def test_a_transformed_kernel_is_the_kernel_on_the_transformed_target(entry, seed):
    """Step for step: a list of bijectors, one for each part, changes coordinates and no more."""
    bijectors = [tfb.Softplus(), tfb.Scale(tf.constant(2.0, tf.float64))]

    def forward(parts):
        return [b.forward(x) for b, x in zip(bijectors, parts, strict=True)]

    def transformed_log_prob(*parts):
        jacobians = [
            b.forward_log_det_jacobian(x, event_ndims=n)
            for b, x, n in zip(bijectors, parts, (1, 2), strict=True)
        ]
        return TARGET.log_prob(*forward(parts)) + sum(jacobians)

    start = TARGET.draw(seed, [4], 'float64')
    kernel = tfp.mcmc.TransformedTransitionKernel(entry.make(TARGET.log_prob, 5), bijectors)
    states, trace = _chain(kernel, forward(start), 8, seed)
    expected, results = _chain(entry.make(transformed_log_prob, 5), start, 8, seed)
    assert_close(trace.transformed_state, expected, rtol=1e-7)
    assert_close(states, forward(expected), rtol=1e-7)
    assert_close(trace.inner_results.adaptation, results.adaptation, rtol=1e-6)


# ---- step-size adapters


def test_dual_averaging_of_a_frozen_kernel_reaches_its_acceptance(seed):
    """From a step size ten times too small to the acceptance rate asked for, under XLA.

    That the adapter moves the step size in a graph, test_matrix shows.
    """
    frozen = catalogue.learned(MALA, targets.GAUSSIAN, seed).frozen
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        frozen.copy(step_size=0.1), num_adaptation_steps=400, target_accept_prob=0.8
    )
    _, log_accept_ratio = _chain(
        kernel,
        targets.GAUSSIAN.draw(seed, [32]),
        600,
        seed,
        trace_fn=lambda _, results: results.inner_results.log_accept_ratio,
        jit=True,
    )
    accept_prob = np.exp(np.minimum(log_accept_ratio[400:], 0))
    assert 0.75 < np.mean(accept_prob) < 0.85


@pytest.mark.parametrize(
    'jit', [False, pytest.param(True, marks=pytest.mark.slow)], ids=['graph', 'xla']
)
def test_the_number_of_chains_may_be_dynamic_and_the_state_of_double_precision(jit, seed):
    """One program serves every number of chains; TFP's adapter keeps a step size for each."""
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.TransformedTransitionKernel(
            MALA.make(targets.SKEWED.log_prob, 3),
            tfb.Scale(tf.constant(2.0, tf.float64)),
        ),
        num_adaptation_steps=4,
    )

    @tf.function(
        jit_compile=jit, autograph=False, input_signature=[tf.TensorSpec([None, 7], tf.float64)]
    )
    def run(state):
        return tfp.mcmc.sample_chain(
            6, state, kernel=kernel, trace_fn=lambda _, results: results.new_step_size, seed=(0, 1)
        )

    for num_chains in (2, 5):
        states, step_size = run(targets.SKEWED.draw(seed, [num_chains], 'float64'))
        assert states.shape == (6, num_chains, 7)
        assert states.dtype == step_size.dtype == tf.float64
        assert all_finite([states, step_size])
        assert len(np.unique(step_size)) > 3


# ---- replica exchange

INVERSE_TEMPERATURES = [1.0, 0.25]


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


@pytest.mark.parametrize(
    'entry',
    [
        pytest.param(
            entry,
            marks=[] if entry.name in ('hmc2_momentum', 'random_walk') else pytest.mark.slow,
            id=entry.name,
        )
        for entry in ON_DENSITIES
    ],
)
def test_replica_exchange_samples_the_cold_target(entry, seed):
    """Swaps replace states behind the kernel's back: a stale cache would bias the variance."""
    kernel = entry.make(_normal_log_prob, 0)
    frozen = kernel.frozen(kernel.bootstrap_results(tf.ones([4, 4])))
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


# ---- drivers


def test_burn_in_and_thinning_of_sample_chain_only_drop_draws(seed):
    """Seeds are used up once a step, so that skipped draws are the draws of the full chain."""
    kernel = MALA.make(TARGET.log_prob, NUM_ADAPTATION_STEPS)
    state = TARGET.draw(seed, [4])

    @tf.function(autograph=False)
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


def test_a_progress_bar_moves_at_every_step(seed):
    """TFP's `ProgressBarReducer`, which runs in graph mode and not under XLA."""
    kernel = MALA.make(targets.SKEWED.log_prob, 3)
    moves = []

    def progress_bar_fn(num_steps):
        for step in range(num_steps):
            moves.append(step)
            yield

    @tf.function(autograph=False)
    def run(state):
        return tfmc.sample_fold(
            6,
            state,
            kernel=kernel,
            reducer=tfmc.ProgressBarReducer(6, progress_bar_fn),
            seed=tf.constant([seed, 5]),
        )

    _, end, _ = run(targets.SKEWED.draw(seed, [2]))
    assert all_finite(end)
    assert moves == list(range(6))
