"""Constructors, copies, and errors at the boundary."""

import inspect

import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.contracts.comparisons import assert_identical
from tests.support import catalogue, targets
from tests.support.catalogue import (
    DEFAULT,
    KERNELS,
    ONE_OF_EACH_CLASS,
    one_kernel_of_each_class,
)

TARGET = targets.SKEWED


def test_there_is_one_of_each_class():
    kernels = {entry.name: type(entry.make(TARGET.log_prob, 5)) for entry in KERNELS}
    chosen = [kernels[name] for name in ONE_OF_EACH_CLASS]
    assert set(chosen) == set(kernels.values())
    assert len(set(chosen)) == len(chosen)


@one_kernel_of_each_class
@pytest.mark.parametrize('is_frozen', [False, True], ids=['adaptive', 'frozen'])
def test_parameters_rebuild_the_kernel(entry, is_frozen, seed):
    """`type(k)(**k.parameters)` is how TFP's wrappers and adapters copy a kernel."""
    learned = catalogue.learned(entry, TARGET, seed)
    kernel = learned.frozen if is_frozen else learned.kernel
    arguments = set(inspect.signature(type(kernel)).parameters)
    assert set(kernel.parameters) == arguments
    twin = type(kernel)(**kernel.parameters)
    again = twin.copy()
    assert kernel.parameters == twin.parameters == again.parameters
    assert again.name == kernel.name
    state = TARGET.draw(seed, [4])
    steps = [
        owner.one_step(state, owner.bootstrap_results(state), seed=[seed, 0])
        for owner in (kernel, again)
    ]
    assert_identical(steps[0], steps[1])


@one_kernel_of_each_class
def test_copy_overrides(entry):
    kernel = entry.make(TARGET.log_prob, 5)
    other = kernel.copy(num_adaptation_steps=7, name='other')
    assert (other.num_adaptation_steps, other.name) == (7, 'other')
    assert (kernel.num_adaptation_steps, kernel.target_log_prob_fn) == (5, TARGET.log_prob)
    assert other.is_calibrated


def test_state_is_not_sharded():
    kernel = DEFAULT.make(TARGET.log_prob, 5)
    assert kernel.experimental_with_shard_axes([]) is kernel
    with pytest.raises(NotImplementedError, match='shard'):
        kernel.experimental_with_shard_axes(['axis'])


def test_constructor_names_the_bad_argument():
    with pytest.raises(TypeError, match='`target_log_prob_fn`'):
        DEFAULT.make(3.0, 5)
    with pytest.raises(ValueError, match=r'`num_adaptation_steps`.*-1'):
        DEFAULT.make(TARGET.log_prob, -1)
    for wrong in (0, 2.0, True):
        with pytest.raises(ValueError, match='`num_leapfrog_steps`'):
            tfpa.EntropyAdaptiveHMC(TARGET.log_prob, wrong)
    with pytest.raises(ValueError, match=r"energy.gradient.*'slow'"):
        tfpa.EntropyAdaptiveHMC(TARGET.log_prob, energy_gradient='slow')
    with pytest.raises(ValueError, match=r"`score`.*'slow'"):
        tfpa.GradientAdaptiveMALA(TARGET.log_prob, score='slow')
    with pytest.raises(ValueError, match='`target_accept_prob`'):
        tfpa.EntropyAdaptiveHMC(TARGET.log_prob, target_accept_prob=1.5)


def _sum_of_squares(*parts):
    return -sum(tf.reduce_sum(tf.square(part), axis=-1) for part in parts)


X = tf.zeros([3, 2])

BAD_STATES = {
    'dict': ({'x': X}, TypeError, '`current_state`.*dict'),
    'int': (tf.zeros([3, 2], tf.int32), TypeError, '`current_state`.*int32'),
    'mixed dtypes': ([X, tf.zeros([3, 2], tf.float64)], TypeError, '`current_state`.*float64'),
    'empty': ([], TypeError, '`current_state`'),
    'empty event': (tf.zeros([3, 0]), ValueError, '`current_state`.*event'),
}


@pytest.mark.parametrize('case', BAD_STATES)
def test_bad_states_are_named(case):
    state, error, message = BAD_STATES[case]
    with pytest.raises(error, match=message):
        DEFAULT.make(_sum_of_squares, 5).bootstrap_results(state)


BAD_TARGETS = {
    'no gradient': (lambda x: tf.stop_gradient(_sum_of_squares(x)), ValueError, '`None` gradient'),
    'summed over chains': (lambda x: tf.reduce_sum(x * x, 0), ValueError, 'chain'),
    'other dtype': (lambda x: tf.cast(_sum_of_squares(x), tf.float64), TypeError, 'float64'),
}


@pytest.mark.parametrize('case', BAD_TARGETS)
def test_bad_targets_are_named(case):
    target_log_prob_fn, error, message = BAD_TARGETS[case]
    with pytest.raises(
        error, match=f'`target_log_prob_fn`.*{message}|{message}.*`target_log_prob_fn`'
    ):
        DEFAULT.make(target_log_prob_fn, 5).bootstrap_results(X)


@pytest.mark.parametrize(
    ('spec', 'message'),
    [
        (tf.TensorSpec([3, None]), '`current_state`.*static'),
        (tf.TensorSpec(None), 'rank'),
    ],
    ids=['event size', 'rank'],
)
def test_dynamic_event_shapes_are_refused(spec, message):
    kernel = DEFAULT.make(_sum_of_squares, 5)
    with pytest.raises(ValueError, match=message):
        tf.function(kernel.bootstrap_results).get_concrete_function(spec)


@pytest.mark.parametrize('scale', [0.0, -1.0, float('nan'), [1.0, 1.0, 1.0]], ids=str)
def test_initial_scale_is_checked(scale):
    preconditioner = tfpa.preconditioners.cholesky(initial_scale=scale)
    with pytest.raises(ValueError, match='`initial_scale`'):
        DEFAULT.make(_sum_of_squares, 5, preconditioner=preconditioner).bootstrap_results(X)
