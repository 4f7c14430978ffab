"""States and kernel results keep their structure, shapes and dtypes."""

import numpy as np
import pytest
import tensorflow as tf

from tests.contracts.comparisons import all_finite, assert_same_signature
from tests.support import targets
from tests.support.catalogue import (
    DEFAULT,
    KERNELS,
    every_kernel,
    every_kernel_in_depth,
    every_kernel_on_any_chains,
    in_depth_on_any_chains,
)


def _check_step(kernel, state, batch_shape, seed):
    bootstrapped = kernel.bootstrap_results(state)
    new_state, results = kernel.one_step(state, bootstrapped, seed=[seed, 0])
    assert_same_signature(new_state, state)
    assert_same_signature(results, bootstrapped)
    assert_same_signature(results.proposed_state, state)
    assert results.target_log_prob.shape == batch_shape
    assert results.is_accepted.shape == batch_shape
    assert all_finite((new_state, results))
    assert int(results.step) == 1
    return results


@pytest.mark.parametrize(('batch_shape', 'dtype'), [((), 'float64'), ((3,), 'float32')], ids=str)
@every_kernel_on_any_chains
def test_step_keeps_shapes_and_dtypes(entry, batch_shape, dtype, seed):
    """With two chain dimensions, see test_chain_dimensions_are_only_a_shape."""
    state = targets.NAMEDTUPLE.draw(seed, batch_shape, dtype)
    kernel = entry.make(targets.NAMEDTUPLE.log_prob, 5)
    results = _check_step(kernel, state, batch_shape, seed)
    assert results.target_log_prob.dtype == dtype
    _check_step(kernel.frozen(results), state, batch_shape, seed)


@pytest.mark.parametrize(
    'target', [targets.SKEWED, targets.LIST, targets.TUPLE], ids=lambda target: target.name
)
@every_kernel_in_depth
def test_step_keeps_the_state_structure(entry, target, seed):
    kernel = entry.make(target.log_prob, 5)
    _check_step(kernel, target.draw(seed, [4]), (4,), seed)


@in_depth_on_any_chains
def test_the_number_of_chains_may_be_dynamic(entry, seed):
    _check_dynamic(entry, [None], seed)


def test_one_of_two_chain_dimensions_may_be_dynamic(seed):
    _check_dynamic(DEFAULT, [2, None], seed)


def _check_dynamic(entry, batch_shape, seed):
    kernel = entry.make(targets.LIST.log_prob, 5)
    spec = [tf.TensorSpec([*batch_shape, 3]), tf.TensorSpec([*batch_shape, 2, 2])]
    traced = {}

    @tf.function(autograph=False, input_signature=[spec])
    def step(state):
        bootstrapped = kernel.bootstrap_results(state)
        new_state, results = kernel.one_step(state, bootstrapped, seed=[seed, 0])
        traced.update(state=new_state, bootstrapped=bootstrapped, results=results)
        return new_state, results

    for num_chains in (1, 5):
        shape = [num_chains if size is None else size for size in batch_shape]
        new_state, results = step(targets.LIST.draw(seed, shape))
        assert [part.shape.as_list() for part in new_state] == [[*shape, 3], [*shape, 2, 2]]
        assert results.target_log_prob.shape == shape
    assert [part.shape.as_list() for part in traced['state']] == [part.shape for part in spec]
    for after, before in zip(
        tf.nest.flatten(traced['results']), tf.nest.flatten(traced['bootstrapped']), strict=True
    ):
        assert after.shape.as_list() == before.shape.as_list()


@every_kernel
def test_step_size_may_differ_between_chains(entry, seed):
    state = targets.LIST.draw(seed, [4])
    kernel = entry.make(targets.LIST.log_prob, 5, step_size=[1e-6, 0.5, 0.7, 1.0])
    results = _check_step(kernel, state, (4,), seed)
    still, *moved = np.abs(results.log_accept_ratio)
    assert still < 1e-4  # hardly a step, hardly a change
    assert np.min(moved) > 1e-4


@pytest.mark.parametrize(
    'entry',
    [
        entry
        for entry in KERNELS
        if entry.name not in ('hmc3_bordered', 'hmc2_by_part', 'mala_real_nvp')
    ],
    ids=lambda entry: entry.name,
)
def test_events_may_be_scalars(entry, seed):
    """A band, a rank or a coupling needs more than one coordinate; all others take them."""
    kernel = entry.make(lambda x: -tf.square(x) / 2, 5)
    _check_step(kernel, tf.random.stateless_normal([2, 3], [seed, 0]), (2, 3), seed)
