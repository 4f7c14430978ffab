"""Chains are independent but for what they learn together, and seeds decide everything."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.contracts.comparisons import (
    assert_close,
    assert_identical,
    assert_same_signature,
    draw_noise,
    is_identical,
    packed,
    pure_step,
)
from tests.support import catalogue, targets
from tests.support.catalogue import every_kernel, every_kernel_on_any_chains

TARGET = targets.SKEWED


@every_kernel_on_any_chains
def test_a_batch_of_chains_is_the_chains_one_by_one(entry, seed):
    """Rounding apart: a matrix product may sum in another order for another number of rows."""
    frozen = catalogue.learned(entry, TARGET, seed).frozen
    state = TARGET.draw(seed, [5], 'float64')
    frozen = frozen.copy(
        parameters_of_preconditioner=tf.nest.map_structure(
            lambda x: tf.cast(x, tf.float64), frozen.parameters['parameters_of_preconditioner']
        ),
        step_size=tf.cast(frozen.step_size, tf.float64),
    )
    noise = draw_noise(frozen, state, [seed, 0])
    results = frozen.bootstrap_results(state)
    density, chain_state = packed(frozen, state)
    together, _, _ = pure_step(frozen, density, chain_state, results, noise)
    for c in range(5):
        density, _ = packed(frozen, state[c : c + 1])
        alone, _, _ = pure_step(frozen, density, _row(c, chain_state), results, _row(c, noise))
        assert_close(alone, _row(c, together), rtol=1e-11)


def _row(c, nest):
    """Chain c alone; what has no chain dimension is shared."""
    return tf.nest.map_structure(lambda x: x[c : c + 1] if x.shape.rank else x, nest)


@every_kernel
def test_chain_dimensions_are_only_a_shape(entry, seed):
    """[2, 3] chains and the same 6 chains in a row take the same step."""
    kernel = catalogue.program(entry).kernel
    flat = targets.LIST.draw(seed, [6], 'float64')
    grid = [tf.reshape(part, [2, 3, *part.shape[1:]]) for part in flat]
    bootstrapped = [kernel.bootstrap_results(state) for state in (flat, grid)]
    stepped = [
        kernel.one_step(state, results, seed=[seed, 0])
        for state, results in zip((flat, grid), bootstrapped, strict=True)
    ]
    assert_same_signature(stepped[1], (grid, bootstrapped[1]))
    assert_same_signature(stepped[1][1].proposed_state, grid)
    (flat, flat_results), (grid, grid_results) = stepped
    assert_identical([tf.reshape(part, [6, *part.shape[2:]]) for part in grid], flat)
    assert_identical(grid_results.adaptation, flat_results.adaptation)
    assert_identical(tf.reshape(grid_results.log_accept_ratio, [-1]), flat_results.log_accept_ratio)


@every_kernel
def test_acceptance_is_what_the_results_say(entry, seed):
    """Accepted chains are at their proposals, rejected ones exactly where they were."""
    frozen = catalogue.bold(entry, TARGET, seed)
    before = TARGET.draw(seed, [64])
    bootstrapped = frozen.bootstrap_results(before)
    after, results = frozen.one_step(before, bootstrapped, seed=[seed, 0])
    accepted = results.is_accepted.numpy()
    assert accepted.any()
    assert not accepted.all()
    old = [before, bootstrapped.target_log_prob, *bootstrapped.grads_target_log_prob]
    proposed = [results.proposed_state, *tf.nest.flatten(results.proposed_results)]
    new = [after, results.target_log_prob, *results.grads_target_log_prob]
    for x, y, z in zip(old, proposed, new, strict=True):
        np.testing.assert_array_equal(z[accepted], y[accepted])
        np.testing.assert_array_equal(z[~accepted], x[~accepted])


@every_kernel
def test_what_is_carried_is_the_density_at_the_state(entry, seed):
    program = catalogue.program(entry)
    state = targets.LIST.draw(seed, [8], 'float64')
    states, trace = program.run(
        state, program.kernel.bootstrap_results(state), [[seed, i] for i in range(3)]
    )
    fresh = program.kernel.bootstrap_results(states[-1])
    assert_close(trace[-1].target_log_prob, fresh.target_log_prob, rtol=1e-11)
    assert_close(trace[-1].grads_target_log_prob, fresh.grads_target_log_prob, rtol=1e-11)
    density, chain_state = packed(program.kernel, trace[-1].proposed_state)
    del density
    assert_close(trace[-1].proposed_results.target_log_prob, chain_state.log_prob, rtol=1e-11)


@every_kernel
def test_a_stateless_seed_decides_the_step(entry, seed):
    program = catalogue.program(entry)
    state = targets.LIST.draw(seed, [8], 'float64')
    results = program.kernel.bootstrap_results(state)
    first, again, other = (
        program.step(state, results, seed=tf.constant([seed, i])) for i in (0, 0, 1)
    )
    assert_identical(first, again)
    assert not is_identical(first[0], other[0])
    np.testing.assert_array_equal(first[1].seed, [seed, 0])


@pytest.mark.parametrize('step_seed', [None, 42])
def test_stateful_seeds_give_fresh_noise(step_seed, seed):
    kernel = catalogue.DEFAULT.make(TARGET.log_prob, 5)
    state = TARGET.draw(seed, [4])
    results = kernel.bootstrap_results(state)
    first, second = (kernel.one_step(state, results, seed=step_seed) for _ in range(2))
    assert not is_identical(first[1].proposed_state, second[1].proposed_state)
    assert not is_identical(first[1].seed, second[1].seed)


@every_kernel
def test_all_noise_of_a_step_is_independent(entry, seed):
    """No two fields of the noise share a seed: in order of their drawing they are uncorrelated."""
    kernel = entry.make(TARGET.log_prob, 5)
    state = TARGET.draw(seed, [4000])
    frozen = kernel.frozen(kernel.bootstrap_results(state))
    for owner in (kernel, frozen):
        _check_independence(draw_noise(owner, state, [seed, 0]))


def _check_independence(noise):
    columns = [
        np.reshape(leaf, [-1])[:4000]
        for leaf in tf.nest.flatten(noise)
        if leaf.shape.rank and np.std(leaf) > 0
    ]
    correlations = np.corrcoef(np.argsort(np.argsort(columns, axis=1), axis=1))
    largest = np.max(np.abs(np.atleast_2d(correlations)[np.triu_indices(len(columns), 1)]))
    assert largest < 5 / np.sqrt(4000)


def test_a_state_from_a_bijector_does_not_hide_its_gradient(seed):
    """The bijector cache would return a pre-image that the gradient tape has never seen."""
    distribution = tfp.distributions.TransformedDistribution(
        tfp.distributions.MultivariateNormalDiag(tf.zeros(3)), tfp.bijectors.Softplus()
    )
    kernel = catalogue.DEFAULT.make(distribution.log_prob, 5)

    def step():
        state = distribution.sample(4, seed=[seed, 0])
        return kernel.one_step(state, kernel.bootstrap_results(state), seed=[seed, 1])

    for run in (step, tf.function(step, autograph=False)):
        _, results = run()
        assert np.all(np.isfinite(results.grads_target_log_prob[0]))
        assert np.any(results.grads_target_log_prob[0])
