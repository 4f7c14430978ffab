"""Eager, `tf.function` and XLA run the same algorithm."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.contracts.comparisons import (
    all_finite,
    assert_close,
    assert_identical,
    draw_noise,
    pure_step,
)
from tests.support import catalogue, targets
from tests.support.catalogue import every_kernel

TARGET = targets.LIST


@every_kernel
def test_eager_equals_graph_bit_for_bit(entry, seed):
    program = catalogue.program(entry)
    state = TARGET.draw(seed, [8], 'float64')
    results = program.kernel.bootstrap_results(state)
    states, trace = program.run(state, results, [[seed, i] for i in range(3)])
    for i in range(3):
        state, results = program.kernel.one_step(state, results, seed=[seed, i])
    assert_identical(states[-1], state)
    assert_identical(trace[-1], results)


@every_kernel
def test_deterministic_part_is_the_same_under_xla(entry, seed):
    """XLA draws other floats from the same seed, so the noise is injected.

    The tolerance is rounding in float64, amplified by a few hundred flops and condition numbers.
    """
    kernel = entry.make(TARGET.log_prob, 5)
    state = TARGET.draw(seed, [8], 'float64')
    results = kernel.bootstrap_results(state)
    noise = draw_noise(kernel, state, [seed, 0])
    compiled = tf.function(
        lambda state, results, noise: pure_step(kernel, state, results, noise), jit_compile=True
    )
    assert_close(
        compiled(state, results, noise), pure_step(kernel, state, results, noise), rtol=1e-9
    )


@pytest.mark.parametrize('is_frozen', [False, True], ids=['adaptive', 'frozen'])
def test_sample_chain_under_xla(is_frozen, seed):
    """For the default alone: a program of this size takes XLA long to compile."""
    learned = catalogue.learned(catalogue.DEFAULT, TARGET, seed)
    kernel = learned.frozen if is_frozen else learned.kernel

    @tf.function(jit_compile=True)
    def run(state, seed):
        return tfp.mcmc.sample_chain(
            20, state, kernel=kernel, trace_fn=lambda _, results: results, seed=seed
        )

    states, trace = run(TARGET.draw(seed, [8]), tf.constant([seed, 0]))
    assert all_finite([states, trace])
    np.testing.assert_array_equal(trace.step, np.arange(1, 21))
    assert np.any(trace.is_accepted)


@every_kernel
def test_frozen_sample_chain_runs_under_xla(entry, seed):
    frozen = catalogue.learned(entry, TARGET, seed).frozen

    @tf.function(jit_compile=True)
    def run(state, seed):
        return tfp.mcmc.sample_chain(20, state, kernel=frozen, trace_fn=None, seed=seed)

    assert all_finite(run(TARGET.draw(seed, [8]), tf.constant([seed, 0])))
