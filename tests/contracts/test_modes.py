"""Eager, `tf.function` and XLA run the same algorithm."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.contracts.comparisons import (
    all_finite,
    assert_close,
    draw_noise,
    packed,
    pure_step,
)
from tests.support import catalogue, targets
from tests.support.catalogue import every_kernel_in_depth

TARGET = targets.LIST


@every_kernel_in_depth
def test_eager_equals_graph(entry, seed):
    """In double precision: TensorFlow regroups some sums and products in graphs."""
    kernel = entry.make(TARGET.log_prob, 5)
    step = tf.function(kernel.one_step, autograph=False)
    state = TARGET.draw(seed, [4], 'float64')
    eager = graph = state, kernel.bootstrap_results(state)
    for i in range(3):
        step_seed = tf.constant([seed, i])
        eager = kernel.one_step(*eager, seed=step_seed)
        graph = step(*graph, seed=step_seed)
    assert_close(graph, eager, rtol=1e-11)


@catalogue.in_depth(catalogue.FLOW_OF_TWO_STEPS, representatives=('hmc2_momentum', 'random_walk'))
def test_noise_and_what_is_made_of_it_are_the_same_under_xla(entry, seed):
    """The rounding of the noise in float64 is amplified by hundreds of operations: of the same
    noise, steps are compared apart."""
    kernel = entry.make(TARGET.log_prob, 5)
    state = TARGET.draw(seed, [8], 'float64')
    results = kernel.bootstrap_results(state)

    def step(state, results, noise):
        return pure_step(kernel, *packed(kernel, state), results, noise)

    @tf.function(jit_compile=True, autograph=False)
    def compiled(state, results, step_seed):
        noise = draw_noise(kernel, state, step_seed)
        return noise, step(state, results, noise)

    step_seed = tf.constant([seed, 0])
    noise, stepped = compiled(state, results, step_seed)
    assert_close(noise, draw_noise(kernel, state, step_seed), rtol=1e-12)
    assert_close(stepped, step(state, results, noise), rtol=1e-9)


@pytest.mark.parametrize('is_frozen', [False, True], ids=['adaptive', 'frozen'])
def test_sample_chain_under_xla(is_frozen, seed):
    """For the default alone: a program of this size takes XLA long to compile.

    With AutoGraph, as `tf.function` has it for those who say nothing; most tests do without.
    """
    kernel = catalogue.DEFAULT.make(TARGET.log_prob, 10)
    state = TARGET.draw(seed, [8])
    if is_frozen:
        kernel = kernel.frozen(kernel.bootstrap_results(state))

    @tf.function(jit_compile=True)
    def run(state, seed):
        return tfp.mcmc.sample_chain(
            20, state, kernel=kernel, trace_fn=lambda _, results: results, seed=seed
        )

    states, trace = run(state, tf.constant([seed, 0]))
    assert all_finite([states, trace])
    np.testing.assert_array_equal(trace.step, np.arange(1, 21))
    assert np.any(trace.is_accepted)


@every_kernel_in_depth
def test_frozen_step_runs_under_xla(entry, seed):
    kernel = entry.make(TARGET.log_prob, 5)
    state = TARGET.draw(seed, [8])
    frozen = kernel.frozen(kernel.bootstrap_results(state))
    step = tf.function(frozen.one_step, jit_compile=True, autograph=False)
    state, results = step(state, frozen.bootstrap_results(state), seed=tf.constant([seed, 0]))
    assert all_finite([state, results])
    assert np.any(results.is_accepted)


def test_a_target_that_concatenates_has_a_hessian_under_xla(seed):
    """Under XLA the gradient of tf.concat holds an operation without a gradient of its own.

    TensorFlow keeps the derivatives it once traced by shape, so the shapes here are used by no
    other test.
    """

    def log_prob(first, second):
        return -tf.reduce_sum(tf.concat([first, second], axis=-1) ** 4, axis=-1)

    kernel = catalogue.DEFAULT.make(log_prob, 5)
    state = [tf.random.stateless_normal([13, size], [seed, size]) for size in (3, 2)]
    results = kernel.bootstrap_results(state)
    step = tf.function(kernel.one_step, jit_compile=True, autograph=False)
    assert all_finite(step(state, results, seed=tf.constant([seed, 0])))
