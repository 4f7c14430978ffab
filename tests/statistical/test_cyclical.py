"""Cyclical kernel-adaptive Metropolis: which of its modes leave exact draws exact.

Many groups of chains start from exact draws. Groups are independent in every mode, so the drift of
group means has a known law. As published the cycles do not leave the target invariant, and the same
test says so.
"""

import functools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.support.statistics import DETECTION, FALSE_ALARM, no_drift_p_value

NUM_GROUPS, GROUP_SIZE, NUM_STEPS = 3000, 8, 40
CYCLE = {'num_steps_per_cycle': 20, 'exploration_fraction': 0.5}
FUNCTION = tfpa.kernel_functions.gaussian(2.0)


def log_prob(x):
    """Two normals, of variances 1/2 and 2, near enough for chains to cross."""
    return tf.reduce_logsumexp(
        tf.stack([_normal(x, -2.0, 0.5), _normal(x, 2.0, 2.0)], axis=-1), axis=-1
    )


def _normal(x, mean, variance):
    shift = tf.constant([mean, 0.0], x.dtype)
    return -tf.reduce_sum((x - shift) ** 2, axis=-1) / (2 * variance) - np.log(variance)


def draw(seed, shape):
    rng = np.random.default_rng(seed)
    is_right = rng.uniform(size=[*shape, 1]) < 0.5
    deviation = np.where(is_right, np.sqrt(2.0), np.sqrt(0.5)) * rng.normal(size=[*shape, 2])
    mean = np.where(is_right, 2.0, -2.0) * np.array([1.0, 0.0])
    return tf.constant(mean + deviation, tf.float32)


@functools.cache
def program(make):
    """Moves groups of chains by the kernel that `make` makes for a power of the target."""

    @tf.function(jit_compile=True, autograph=False)
    def run(power, groups, seeds):
        kernel = make(power)

        def one(inputs):
            state, seed = inputs
            results = kernel.bootstrap_results(state)

            def body(i, state, results):
                state, results = kernel.one_step(state, results, seed=tf.stack([seed, i]))
                return i + 1, state, results

            return tf.while_loop(lambda i, *_: i < NUM_STEPS, body, (0, state, results))[1]

        return tf.map_fn(one, (groups, seeds), fn_output_signature=tf.float32)

    return run


def p_value(make, seed, power=1.0):
    """Of the drift of group means of functions of the state."""
    start = draw(seed, [NUM_GROUPS, GROUP_SIZE])
    end = program(make)(tf.constant(power), start, seed + tf.range(NUM_GROUPS))
    assert np.mean(np.any(start != end, axis=-1)) > 0.9
    before, after = (np.mean(_functions(x.numpy()), axis=1) for x in (start, end))
    return no_drift_p_value(before, after)


def _functions(x):
    first, second = x[..., :1].astype(np.float64), x[..., 1:]
    right = 1.0 * (first > 0)
    return np.concatenate(
        [first, second, right, first**2, second**2, right * second**2, first * second], axis=-1
    )


def _kernel(mode, num_adaptation_steps, **more):
    return tfpa.CyclicalKernelAdaptiveMetropolis(
        log_prob,
        num_adaptation_steps,
        kernel_function=FUNCTION,
        subsample_size=10,
        mode=mode,
        **CYCLE,
        **more,
    )


@functools.cache
def learned(mode):
    """Power of the target -> the frozen kernel after a warm-up on the target itself."""
    kernel = _kernel(mode, 400)
    state = draw(7, [GROUP_SIZE])
    results = kernel.bootstrap_results(state)
    step = tf.function(kernel.one_step, autograph=False)
    for i in range(400):
        state, results = step(state, results, seed=tf.constant([7, i]))
    frozen = kernel.frozen(results)
    return lambda power: frozen.copy(target_log_prob_fn=lambda x: power * log_prob(x))


@pytest.mark.parametrize(
    'mode',
    [
        'finite',
        *(pytest.param(mode, marks=pytest.mark.slow) for mode in ('diminishing', 'ensemble')),
    ],
)
def test_frozen_cycles_leave_the_target_invariant(mode, seed):
    assert p_value(learned(mode), seed) > FALSE_ALARM


def test_an_ensemble_is_exact_from_the_first_step(seed):
    assert p_value(lambda power: _kernel('ensemble', 0), seed) > FALSE_ALARM


def test_cycles_as_published_do_not_leave_the_target_invariant(seed):
    kernel = _kernel('as_published', 0, noise_scale=lambda time: (1 + time) ** -0.5)
    assert p_value(lambda power: kernel, seed) < DETECTION


def test_a_wrong_target_is_detected(seed):
    assert p_value(learned('finite'), seed, power=1.1) < DETECTION


@pytest.mark.slow
def test_weights_of_separated_modes_as_published(seed):
    """Section 4.1 of the paper: from exact draws, chains leave the wide mode for the narrow one."""
    num_chains = 2048

    def bimodal(x):
        modes = [_normal(x, -8.0, 0.5), _normal(x, 8.0, 2.0)]
        return tf.reduce_logsumexp(tf.stack(modes, axis=-1), axis=-1)

    rng = np.random.default_rng(seed)
    is_right = np.arange(num_chains)[:, np.newaxis] % 2 == 0
    spread = np.where(is_right, np.sqrt(2.0), np.sqrt(0.5)) * rng.normal(size=[num_chains, 2])
    mean = np.where(is_right, 8.0, -8.0) * np.array([1.0, 0.0])
    state = tf.constant(mean + spread, tf.float32)
    kernel = tfpa.CyclicalKernelAdaptiveMetropolis(
        bimodal,
        0,
        400,
        0.4,
        tfpa.kernel_functions.matern(3.5, 2.0),
        50,
        'as_published',
        noise_scale=lambda time: 10 * (1 + time) ** -0.5,
    )

    @tf.function(jit_compile=True, autograph=False)
    def run(state):
        def body(i, state, results):
            return i + 1, *kernel.one_step(state, results, seed=tf.stack([seed, i]))

        start = (0, state, kernel.bootstrap_results(state))
        return tf.while_loop(lambda i, *_: i < 16_000, body, start)[1]

    num_right = int(np.sum(run(state)[:, 0] > 0))
    assert scipy.stats.binomtest(num_right, num_chains).pvalue < DETECTION
    assert num_right < num_chains / 2
