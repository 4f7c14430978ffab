"""distribute: the driver on a single replica, where it must do what a plain loop does."""

import functools
import pickle

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.contracts.comparisons import assert_close, assert_identical, is_identical, to_numpy
from tests.support import targets
from tfp_adaptive.distribute import pooling, replicas
from tfp_adaptive.distribute.replicas import LocalValues
from tfp_adaptive.internal import random

TARGET = targets.LIST
KERNEL = tfpa.GradientAdaptiveMALA(TARGET.log_prob, 3, pool_fn=tfpa.distribute.sum_over_replicas)
SEED = tf.constant([3, 4])


@pytest.fixture(scope='module')
def strategy():
    return tf.distribute.OneDeviceStrategy('CPU:0')


@pytest.fixture(scope='module')
def state():
    return TARGET.draw(5, [4], 'float64')


@pytest.fixture(scope='module')
def run(strategy):
    """The driver on `KERNEL` with the seed of this module."""
    return functools.partial(tfpa.distribute.sample_chain, strategy, kernel=KERNEL, seed=SEED)


@pytest.fixture(scope='module')
def program(run):
    """Eight steps, as part of a program of the user's: (state, seed) -> `DistributedChains`."""

    def trace_fn(state, results):
        return state[0][:, 0], results.step

    return tf.function(
        lambda state, seed: run(8, state, trace_fn=trace_fn, seed=seed), autograph=False
    )


@pytest.fixture(scope='module')
def whole(program, state):
    return program(state, SEED)


def test_takes_the_steps_of_a_plain_loop(whole, state):
    step, results = tf.function(KERNEL.one_step, autograph=False), KERNEL.bootstrap_results(state)
    replica_seed = random.fold_in(SEED, tf.constant(0))
    ((states,), ((first, count),)) = whole.all_states.replicas, whole.trace.replicas
    for i in range(8):
        state, results = step(state, results, seed=random.fold_in(replica_seed, tf.constant(i)))
        assert_close([part[i] for part in states], state, rtol=1e-9)
    assert_close(whole.final_kernel_results.replicas[0], results, rtol=1e-9)
    assert_identical(whole.final_state.replicas[0], [part[-1] for part in states])
    np.testing.assert_array_equal(first, states[0][:, :, 0])
    np.testing.assert_array_equal(count, np.arange(1, 9))


def test_burn_in_and_thinning_drop_draws(run, whole, state):
    """As `tfp.mcmc.sample_chain` does: steps 3, 5 and 7 of all."""
    thinned = run(3, state, num_burnin_steps=2, num_steps_between_results=1)
    assert_identical(
        thinned.all_states.replicas[0], [part[2:7:2] for part in whole.all_states.replicas[0]]
    )
    assert thinned.trace.replicas == ((),)


def test_a_run_that_goes_on_is_the_same_run(run, whole, state):
    half = pickle.loads(pickle.dumps(to_numpy(run(4, state))))
    results = half.final_kernel_results
    rest = run(4, half.final_state, previous_kernel_results=results, first_step=4)
    assert_identical(rest.final_state, whole.final_state)
    assert_identical(rest.final_kernel_results, whole.final_kernel_results)


def test_another_seed_is_another_run(program, whole, state):
    assert not is_identical(program(state, tf.constant([0, 0])).final_state, whole.final_state)


def test_xla_takes_the_same_steps(run, whole, state):
    assert_close(run(8, state, jit_compile=True).all_states, whole.all_states, rtol=1e-8)


@pytest.mark.parametrize('jit_compile', [False, True], ids=['graph', 'xla'])
def test_sums_over_one_replica_are_the_sums(jit_compile):
    """Under XLA too, where only a sum over several is impossible."""
    pool = tf.function(tfpa.distribute.sum_over_replicas, jit_compile=jit_compile)
    assert_identical(pool([tf.constant(2.0), tf.constant([3])]), [np.float32(2), np.array([3])])


def test_split_names_bad_states(strategy):
    for state in ([tf.zeros([3, 2]), tf.zeros([4, 2])], tf.zeros([])):
        with pytest.raises(ValueError, match=r'`current_state`.*number of chains'):
            replicas.split(strategy, state)
    dynamic = tf.function(lambda x: replicas.split(strategy, x), autograph=False)
    with pytest.raises(ValueError, match=r'`current_state`.*static'):
        dynamic.get_concrete_function(tf.TensorSpec([None, 2]))


def test_arguments_are_checked(run, strategy, state):
    with pytest.raises(TypeError, match=r'`strategy`.*str'):
        tfpa.distribute.sample_chain('CPU:0', 3, state, KERNEL)
    for kernel in (None, TARGET.log_prob, tfpa.EntropyAdaptiveHMC):
        with pytest.raises(TypeError, match=r'`kernel` must be a tfp.mcmc.TransitionKernel'):
            tfpa.distribute.sample_chain(strategy, 3, state, kernel)
    for name, wrong in (
        ('current_state', None),
        ('trace_fn', 'all'),
        ('trace_fn', lambda state: state),
        ('trace_fn', lambda state, results: [object()]),
        ('seed', 'x'),
        ('seed', (1, 2, 3)),
        ('jit_compile', 'yes'),
    ):
        with pytest.raises(TypeError, match=f'`{name}` must'):
            run(**{'num_results': 3, 'current_state': state, name: wrong})
    for name, wrong in (
        ('num_results', 0),
        ('num_burnin_steps', -1),
        ('num_steps_between_results', 1.0),
        ('first_step', True),
    ):
        with pytest.raises(ValueError, match=f'`{name}`.*{wrong}'):
            run(**{'num_results': 3, 'current_state': state, name: wrong})
    with pytest.raises(ValueError, match=r'`current_state`.*2 values.*1 replica'):
        run(3, LocalValues((state, state)))
    with pytest.raises(ValueError, match=r'`previous_kernel_results`.*0 values'):
        run(3, LocalValues((state,)), previous_kernel_results=LocalValues(()))
    with pytest.raises(TypeError, match=r'`previous_kernel_results`.*LocalValues.*KernelResults'):
        run(3, state, previous_kernel_results=KERNEL.bootstrap_results(state))


PARTS = tf.zeros([5, 3, 2]), tf.zeros([5, 2, 2])
"""Draws of two replicas."""


@pytest.mark.parametrize(
    ('values', 'axis', 'error', 'message'),
    [
        (PARTS, 0, ValueError, r'`axis` is 0, .* \(5, 3, 2\) and \(5, 2, 2\).*axis=1'),
        (PARTS, -1, ValueError, '`axis` is -1, .*axis=1'),
        ((tf.zeros([1, 2]), tf.zeros([2, 1])), 0, ValueError, '`axis` is 0, .*no axis'),
        (PARTS, 3, ValueError, r'`axis` is 3, .*\(5, 3, 2\)'),
        (PARTS, -4, ValueError, '`axis` is -4'),
        ((tf.zeros([5]),), 1, ValueError, '`axis` is 1'),
        ((1.0,), 0, ValueError, '`axis` is 0'),
        (PARTS, 1.0, TypeError, r'`axis` must be an int.*1\.0'),
        (PARTS, True, TypeError, '`axis` must be an int'),
        (PARTS, 1, ValueError, '`values` holds 2 values for 1 replica'),
        ((), 1, ValueError, '`values` holds 0 values'),
        ((None,), 1, TypeError, '`values` .*nest of tensors'),
        ((PARTS[0], [PARTS[1]]), 1, TypeError, '`values` .*same nest'),
        ((PARTS[0], PARTS[1][0]), 1, TypeError, '`values` .*rank'),
        ((PARTS[0], tf.cast(PARTS[1], tf.int32)), 1, TypeError, '`values` .*dtype'),
        ((tf.constant(['x']),), 0, TypeError, '`values` .*string'),
        (PARTS[0], 1, TypeError, '`values` must be LocalValues'),
    ],
)
def test_gather_names_what_is_wrong_before_anything_is_sent(strategy, values, axis, error, message):
    with pytest.raises(error, match=message):
        tfpa.distribute.gather(strategy, LocalValues(values), axis)


def test_gather_takes_a_strategy_and_local_values(strategy, state):
    with pytest.raises(TypeError, match=r'`values` must be LocalValues'):
        tfpa.distribute.gather(strategy, state, 1)
    with pytest.raises(TypeError, match=r'`strategy`.*str'):
        tfpa.distribute.gather('CPU:0', LocalValues((state,)), 1)


ALONE = KERNEL.copy(pool_fn=None)
ADAPTER = tfp.mcmc.DualAveragingStepSizeAdaptation
TRANSFORMED = tfp.mcmc.TransformedTransitionKernel
EXCHANGE = functools.partial(tfp.mcmc.ReplicaExchangeMC, TARGET.log_prob, [1.0, 0.5])
MASSES = functools.partial(
    tfp.experimental.mcmc.DiagonalMassMatrixAdaptation,
    tfp.experimental.mcmc.PreconditionedHamiltonianMonteCarlo(TARGET.log_prob, 0.1, 2),
    tfp.experimental.stats.RunningVariance.from_shape([3]),
)
CYCLICAL = functools.partial(tfpa.CyclicalKernelAdaptiveMetropolis, TARGET.log_prob)


@pytest.mark.parametrize(
    ('kernel', 'option'),
    [
        (ALONE, 'pool_fn='),
        (TRANSFORMED(ALONE, tfp.bijectors.Identity()), 'pool_fn='),
        (EXCHANGE(lambda fn: ALONE), 'pool_fn='),
        (ADAPTER(KERNEL, 7), 'experimental_reduce_chain_axis_names'),
        (tfp.mcmc.SimpleStepSizeAdaptation(ALONE, 0), 'pool_fn='),
        (MASSES(num_estimation_steps=7), 'cannot pool'),
        (MASSES(), 'cannot pool'),
        (CYCLICAL(), 'pool_fn='),
    ],
    ids=[
        'kernel',
        'transformed',
        'exchange',
        'adapter',
        'inner',
        'masses',
        'masses for ever',
        'cyclical',
    ],
)
def test_learning_apart_is_refused(kernel, option):
    pooling.check_pooling(kernel, 1)
    with pytest.raises(ValueError, match=f'`kernel` adapts for .*2 replicas.*{option}'):
        pooling.check_pooling(kernel, 2)


@pytest.mark.parametrize(
    ('kernel', 'pools'),
    [
        (KERNEL, True),
        (ALONE.copy(num_adaptation_steps=0), False),
        (ALONE.frozen(ALONE.bootstrap_results(TARGET.draw(0, [2]))), False),
        (EXCHANGE(lambda fn: KERNEL), True),
        (ADAPTER(KERNEL, 7, experimental_reduce_chain_axis_names='chains'), True),
        (tfp.mcmc.HamiltonianMonteCarlo(TARGET.log_prob, 0.1, 2), False),
        (MASSES(num_estimation_steps=0), False),
        (CYCLICAL(mode='as_published'), False),
    ],
    ids=['kernel', 'no steps', 'frozen', 'exchange', 'adapter', 'hmc', 'masses', 'published'],
)
def test_learning_together_or_not_at_all_is_not(kernel, pools):
    pooling.check_pooling(kernel, 2)
    assert pooling.pools(kernel) == pools


def test_xla_is_told_from_other_programs():
    found = {}

    def ask(name):
        found[name] = pooling.is_compiled_by_xla()
        return tf.constant(0)

    ask('eager')
    tf.function(lambda: ask('graph'))()
    tf.function(lambda: ask('xla'), jit_compile=True)()
    tf.function(
        lambda: tf.while_loop(lambda i: i < 1, lambda i: i + 1 + ask('loop'), [0]),
        jit_compile=True,
    )()
    assert found == {'eager': False, 'graph': False, 'xla': True, 'loop': True}
