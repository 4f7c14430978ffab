"""Chains go to the typical set: of any scale, from afar, and no further."""

import functools
import types

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.support.statistics import FALSE_ALARM, largest_z
from tests.unit.problems import packed
from tfp_adaptive.internal import lbfgs
from tfp_adaptive.sampling.compiled import XLA
from tfp_adaptive.sampling.programs.arrival import make_arrival
from tfp_adaptive.sampling.programs.programs import Position
from tfp_adaptive.sampling.running import arriving
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.tuning import arrive

NUM_CHAINS = 64
BUDGET = 250


@functools.cache
def program(targets, num_dims, dtype, jit_compile):
    """For whichever of the targets, by its index."""
    like = tf.zeros([NUM_CHAINS, num_dims], dtype)

    @tf.function(autograph=False, jit_compile=jit_compile)
    def run(index, position, seed, max_gradients):
        def log_prob(x):
            return tf.switch_case(index, [functools.partial(each, x) for each in targets])

        return arrive.arrive(packed(log_prob, like), position, seed, max_gradients)

    return run


def run(log_prob_fn, position, seed, budget=BUDGET, jit_compile=False):
    is_shared = log_prob_fn in TARGETS and not jit_compile
    targets = TARGETS if is_shared else (log_prob_fn,)
    found = program(targets, position.shape[-1], position.dtype.name, jit_compile)
    index = tf.constant(targets.index(log_prob_fn))
    return found(index, position, tf.constant([seed, 0]), tf.constant(budget))


def starts(rng, num_dims, radius=2.0, dtype='float32'):
    return tf.constant(rng.uniform(-radius, radius, size=[NUM_CHAINS, num_dims]), dtype)


def test_draws_of_a_path_have_its_covariance(seed):
    """So the noise of the coordinates and that of the pairs is not the same."""
    num_chains = 50_000
    memory = lbfgs.empty(
        tf.zeros([num_chains, 2], tf.float64),
        tf.fill([num_chains], tf.constant(0.3, tf.float64)),
        arrive._NUM_PAIRS,
    )
    step, change = (
        tf.tile(tf.constant([x], tf.float64), [num_chains, 1]) for x in ([1, 2], [2, 1])
    )
    memory = lbfgs.push(memory, tf.ones([num_chains], tf.bool), step, change)
    normal = arrive._normal(step, tf.constant([seed, 1]))
    draws = lbfgs.draw(memory, normal).numpy()
    expected = np.stack(
        [
            lbfgs.product(memory, tf.zeros_like(step) + tf.constant(e, tf.float64))[0]
            for e in np.eye(2)
        ]
    )
    found = draws.T @ draws / num_chains
    variance = np.outer(np.diag(expected), np.diag(expected)) + expected**2
    assert np.max(np.abs(found - expected) / np.sqrt(variance / num_chains)) < largest_z(4)


SIZE = 12
SCALES = np.geomspace(1e-4, 1e4, SIZE)


def scaled(x):
    """A Gaussian with scales over eight decades, three of them from the origin."""
    scales = tf.constant(SCALES, x.dtype)
    return -tf.reduce_sum((x / scales - 3) ** 2, axis=-1) / 2


@pytest.mark.parametrize(
    ('dtype', 'jit_compile'),
    [('float32', False), ('float64', False), pytest.param('float32', True, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize('radius', [2.0, 20.0])
def test_any_scale(dtype, jit_compile, radius, rng, seed):
    position = starts(rng, SIZE, radius, dtype)
    arrival = run(scaled, position, seed, jit_compile=jit_compile)
    # the mode has 0, draws some 3, the starts 1e8
    assert np.all(scaled(arrival.position) > -100)
    assert int(arrival.num_gradients) < BUDGET
    assert np.all(has_moved(arrival, position))


def has_moved(arrival, position):
    return np.any(arrival.position != position, axis=-1)


def steep(x):
    """Counts with a log link: exponential on one side, where gradients reach 1e36."""
    return tf.reduce_sum(3 * x - tf.exp(2 * x), axis=-1)


def test_where_squares_of_gradients_overflow(rng, seed):
    position = tf.constant(rng.uniform(35.0, 41.0, [NUM_CHAINS, SIZE]), tf.float32)
    assert np.all(np.abs(steep(position)) > 1e30)
    arrival = run(steep, position, seed)
    # the mode has -11
    assert np.all(steep(arrival.position) > -40)
    assert np.all(has_moved(arrival, position))


def correlated(x):
    """Twelve coordinates of correlation .99."""
    size = x.shape[-1]
    precision = np.linalg.inv(0.01 * np.eye(size) + 0.99 * np.ones([size, size]))
    return -tf.reduce_sum(x * tf.linalg.matvec(tf.constant(precision, x.dtype), x), axis=-1) / 2


def test_exact_draws_stay(rng, seed):
    """So the law of exact draws is what it was."""
    root = np.linalg.cholesky(0.01 * np.eye(12) + 0.99 * np.ones([12, 12]))
    position = tf.constant(rng.normal(size=[NUM_CHAINS, 12]) @ root.T, tf.float32)
    arrival = run(correlated, position, seed)
    np.testing.assert_array_equal(arrival.position, position)


def test_the_descent_ends_in_draws_of_the_gaussian(rng, seed):
    """Of a Gaussian with as many dimensions as pairs, where the fit is exact at the end."""
    position = starts(rng, 2, 40.0, 'float64')
    arrival = run(rotated, position, seed)
    moved = arrival.position.numpy()[has_moved(arrival, position)]
    assert len(moved) > NUM_CHAINS / 2
    whitened = moved @ np.linalg.cholesky(PRECISION)
    p_values = [scipy.stats.kstest(column, 'norm').pvalue for column in whitened.T]
    assert min(p_values) > FALSE_ALARM / 2


PRECISION = np.array([[100.0, 9.0], [9.0, 1.0]])


def rotated(x):
    return -tf.reduce_sum(x * tf.linalg.matvec(tf.constant(PRECISION, x.dtype), x), axis=-1) / 2


def funnel(x):
    """Neal's: no mode; the density grows without bound as the axis goes to minus infinity."""
    axis, others = x[..., 0], x[..., 1:]
    width = tf.exp(-axis / 2)[..., tf.newaxis]
    size = others.shape[-1]
    return -(axis**2) / 18 - tf.reduce_sum((others * width) ** 2, axis=-1) / 2 - size * axis / 2


def test_no_chain_goes_down_a_funnel(rng, seed):
    """By the evidence, the axis stays where N(0, 3^2) has it; a descent alone goes on for ever."""
    arrival = run(funnel, starts(rng, SIZE, dtype='float64'), seed)
    axis = arrival.position.numpy()[:, 0]
    assert np.all(np.abs(axis) < 4 * 3)
    assert abs(np.mean(axis)) < 3
    deep = run(funnel, starts(rng, SIZE, dtype='float64'), seed, budget=40)
    assert np.all(np.isfinite(deep.position))


def volatility(x):
    """A hundred unknowns with an unknown, hardly bounded scale: a funnel of many dimensions."""
    log_scale, unknowns = x[..., 0], x[..., 1:]
    terms = -tf.reduce_sum((unknowns / tf.exp(log_scale)[..., tf.newaxis]) ** 2, axis=-1) / 2
    data = -tf.reduce_sum(tf.square(unknowns - 1) / 8, axis=-1)
    return terms + data - 100 * log_scale - log_scale**2 / 50


def test_all_chains_stay_where_descents_end_at_very_different_densities(rng, seed):
    position = starts(rng, 101)
    arrival = run(volatility, position, seed)
    assert arrival.is_funnel
    assert not np.any(arrival.is_restarted)
    # though descents led elsewhere
    assert np.all(volatility(arrival.end) > volatility(position))
    np.testing.assert_array_equal(arrival.position, position)


def test_a_walk_begins_where_the_density_is_resolved(rng, seed):
    """At the start, or where the way down comes to a log-density that float32 has to a nat."""
    near, far = starts(rng, 101), starts(rng, 101, radius=15.0)
    bound = 1 / (10 * np.finfo(np.float32).eps)
    resolved = run(volatility, near, seed).resolved
    is_near = np.abs(volatility(near)) < bound
    assert np.mean(is_near) > 0.9
    np.testing.assert_array_equal(resolved[is_near], near[is_near])
    is_far = np.abs(volatility(far)) > bound
    assert 5 < np.sum(is_far) < NUM_CHAINS
    found = np.abs(volatility(run(volatility, far, seed).resolved))[is_far]
    assert np.mean(found < bound) > 0.9


def test_sample_walks_into_a_funnel(rng, seed):
    """And counts what that took: a quarter of the warm-up for the descent, and one for the walk."""
    kernel = tfpa.EntropyAdaptiveHMC(volatility, 1, 400, momentum_refreshment=0.6)
    state = starts(rng, 101, radius=10.0)
    model = Model(volatility, ('q',), 0, 0, num_gradients=7)
    start = types.SimpleNamespace(model=model, state=state, batch_shape=(NUM_CHAINS,))
    setup = types.SimpleNamespace(
        kernel=kernel,
        start=start,
        bootstrap=kernel.bootstrap_results,
        arrival=make_arrival(kernel, start, XLA(False)),
        settings=types.SimpleNamespace(num_warmup_steps=400),
    )
    position = Position(state, kernel.bootstrap_results(state))
    arrived = arriving.arrive(setup, position, tf.constant([seed, 0]))
    assert np.min(volatility(state)) < -1e5
    assert np.min(volatility(arrived.state)) > -2000
    down = run(volatility, state, seed, budget=100)
    expected = down.num_gradients + down.num_values + 100
    # after either, two for the scale; two of the kernel; and those of coordinates of their own
    assert arrived.kernel_results.info.num_gradients == expected + 2 * 2 + 2 + 7


def spurious(x):
    """A normal of weight one at zero, and a small mode forty nats below at 30."""
    far = -tf.reduce_sum((x - 30) ** 2, axis=-1) / 2 - 40
    return tf.reduce_logsumexp([-tf.reduce_sum(x**2, axis=-1) / 2, far], axis=0)


def equal(x):
    """Two modes of weights .2 and .8."""
    left = np.log(0.2) - tf.reduce_sum((x + 10) ** 2, axis=-1) / 2
    right = np.log(0.8) - tf.reduce_sum((x - 10) ** 2, axis=-1) / 2
    return tf.reduce_logsumexp([left, right], axis=0)


def test_chains_in_a_spurious_mode_start_from_the_others(rng, seed):
    position = starts(rng, SIZE).numpy()
    position[:7] += 30
    arrival = run(spurious, tf.constant(position), seed)
    np.testing.assert_array_equal(arrival.is_restarted, np.arange(NUM_CHAINS) < 7)
    assert np.all(np.abs(arrival.position) < 10)
    # each from a draw of its own
    assert len(np.unique(arrival.position[:, 0])) == NUM_CHAINS


def test_a_warm_up_that_finds_a_better_mode_begins_once_more(rng, seed):
    """And not where log-densities are as far apart as those of draws, or where nobody is lost."""
    kernel = tfpa.EntropyAdaptiveHMC(spurious, 1, 400)
    here = starts(rng, SIZE, radius=1.0).numpy()
    model = Model(spurious, ('q',), 0, 0)
    start = types.SimpleNamespace(
        model=model, state=here, batch_shape=(NUM_CHAINS,), event_size=SIZE
    )
    setup = types.SimpleNamespace(
        kernel=kernel,
        start=start,
        bootstrap=kernel.bootstrap_results,
        arrival=make_arrival(kernel, start, XLA(False)),
        settings=types.SimpleNamespace(num_warmup_steps=400),
    )

    def moved(position):
        results = kernel.bootstrap_results(tf.constant(position))
        info = results.info._replace(num_gradients=tf.constant(1000))
        warmup = Position(position, results._replace(info=info), num_rows=400, num_restarts=1)
        if not arriving.are_apart(setup, warmup):
            return warmup, warmup
        return warmup, arriving.arrive_again(setup, warmup, tf.constant([seed, 0]))

    def num_gradients(position):
        return int(position.kernel_results.info.num_gradients)

    warmup, same = moved(here)
    assert same is warmup
    wide = here.copy()
    wide[0] += 2 * np.sqrt(10 / SIZE + 1)
    assert np.ptp(spurious(wide)) > 10 + SIZE
    warmup, same = moved(wide)
    assert same.state is warmup.state
    assert same.num_restarts == 1
    down = run(spurious, tf.constant(wide), seed, budget=100)
    descent = int(down.num_gradients + down.num_values) + 2
    assert num_gradients(same) == 1000 + descent
    late = here.copy()
    late[: NUM_CHAINS - 1] += 30
    _, found = moved(late)
    down = run(spurious, tf.constant(late), seed, budget=100)
    descent = int(down.num_gradients + down.num_values) + 2
    assert np.all(np.abs(found.state) < 10)
    assert found.num_restarts == NUM_CHAINS
    assert found.num_rows == 0
    # and two of the kernel, which begins again
    assert num_gradients(found) == 1000 + descent + 2


def test_chains_in_modes_that_count_stay_there(rng, seed):
    side = np.where(np.arange(NUM_CHAINS) % 2, 10.0, -10.0)[:, np.newaxis]
    position = tf.constant(side + rng.uniform(-5, 5, size=[NUM_CHAINS, SIZE]), tf.float32)
    arrival = run(equal, position, seed)
    assert not np.any(arrival.is_restarted)
    np.testing.assert_array_equal(np.sign(arrival.position[:, 0]), side[:, 0] / 10)


def walled(x):
    """A gamma density, which is not defined below zero, nor above a thousand."""
    return tf.reduce_sum(4 * tf.math.log(x) - x + 1e-3 * tf.math.log(1e3 - x), axis=-1)


TARGETS = scaled, steep, correlated, funnel, spurious, equal, walled
"""Of one size, so that one program serves them all: to trace it takes seconds."""


def test_regions_without_density(rng, seed):
    position = tf.constant(rng.uniform(0.001, 900, size=[NUM_CHAINS, SIZE]), tf.float32)
    arrival = run(walled, position, seed)
    mean = np.mean(arrival.position, axis=0)
    assert np.all(np.isfinite(walled(arrival.position)))
    assert np.all((mean > 3) & (mean < 8)), mean


def test_what_it_took_is_counted(rng, seed):
    calls = {'values': 0}

    def counted(x):
        calls['values'] += 1
        return scaled(x)

    position = starts(rng, SIZE)
    like = tf.zeros([NUM_CHAINS, SIZE])
    arrival = arrive.arrive(packed(counted, like), position, tf.constant([seed, 0]), 4)
    assert int(arrival.num_gradients) == 4
    assert calls['values'] == int(arrival.num_gradients) + int(arrival.num_values)


def test_chains_that_start_at_a_mode_do_not_move(seed):
    position = tf.zeros([NUM_CHAINS, 12])
    arrival = run(correlated, position, seed)
    np.testing.assert_array_equal(arrival.position, position)
