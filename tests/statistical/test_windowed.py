"""WindowedHMC and WindowedNUTS: what they learn, what they draw, and that they can be resumed."""

import functools
import pickle

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.contracts.comparisons import (
    assert_close,
    assert_identical,
    assert_same_signature,
    is_identical,
    to_numpy,
)
from tests.support import catalogue, targets
from tests.support.statistics import DETECTION, FALSE_ALARM, invariance_p_value
from tfp_adaptive import tuning

NUM_STEPS = 40


def _gaussian(scales):
    scales = tf.constant(scales, tf.float32)
    return lambda x: -tf.reduce_sum((x / scales) ** 2, axis=-1) / 2


# --- what is learned -----------------------------------------------------------------------------


def test_step_size_is_the_formulas(seed):
    """On a Gaussian with a metric that stays, from several runs: within 5 % beyond their error."""
    scales, num_steps = np.geomspace(1, 3, 800), 1000
    kernel = tfpa.WindowedHMC(
        _gaussian(scales),
        list(range(10, 25)),
        num_steps,
        schedule=tuning.no_windows(),
    )

    @tf.function(jit_compile=True, autograph=False)
    def learned(state, seed):
        chain = tfp.mcmc.sample_chain(
            1,
            state,
            kernel=kernel,
            num_burnin_steps=num_steps - 1,
            trace_fn=None,
            return_final_kernel_results=True,
            seed=seed,
        )
        return chain.final_kernel_results.adaptation.preconditioner[0]

    draws = tf.random.stateless_normal([16, 800], [seed, 0]) * scales.astype('float32')
    found = [float(learned(draws, tf.constant([seed, i]))) for i in range(4)]
    expected = float(tuning.step_size_formula(scales.astype('float32')))
    error = np.std(np.log(found), ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(np.log(found)) - np.log(expected)) + 3 * error < 0.05


@pytest.mark.parametrize('name', ['variance', 'covariance', 'fisher', 'fisher_dense'])
def test_metric_of_the_last_window(name, seed):
    """Variances of its 16,000 draws, which are nearly independent, up to six errors."""
    metric = {
        'variance': tuning.variance(),
        'covariance': tuning.covariance(),
        'fisher': tuning.fisher(),
        'fisher_dense': tuning.fisher(is_dense=True),
    }[name]
    scales = np.geomspace(0.01, 100, 6)
    kernel = tfpa.WindowedHMC(_gaussian(scales), [5, 8, 11], 600, metric=metric)
    state = tf.random.stateless_normal([64, 6], [seed, 0]) * scales.astype('float32')
    _, results = catalogue.sample(kernel, state, 600, [seed, 1])
    collected = results.adaptation.optimizer.metric
    assert float(tf.nest.flatten(collected)[0]) == 0, 'the window that ended is not forgotten'
    factor = np.asarray(results.adaptation.optimizer.factor)
    found = np.sqrt(np.sum(factor**2, axis=1)) if factor.ndim == 2 else factor
    tolerance = 6 * np.sqrt(2 / 16_000)
    np.testing.assert_allclose(found / scales, 1, rtol=tolerance)
    if factor.ndim == 2:
        lower = factor / scales[:, np.newaxis]
        np.testing.assert_allclose(lower @ lower.T, np.eye(6), atol=2 * tolerance)


def test_low_rank_metric_under_xla(seed):
    """Twelve coordinates with one common cause: what is left is far better than their scales."""
    root = np.hstack([np.full([12, 1], 4.0), np.eye(12)]).astype('float32')
    precision = tf.constant(np.linalg.inv(root @ root.T))
    kernel = tfpa.WindowedHMC(
        lambda x: -tf.reduce_sum(x * tf.matmul(x, precision), axis=-1) / 2,
        [5, 8, 11],
        250,
        metric=tuning.low_rank(1),
    )

    @tf.function(jit_compile=True, autograph=False)
    def run(state, seed):
        _, results = tfp.mcmc.sample_chain(
            250, state, kernel=kernel, trace_fn=lambda _, r: r.adaptation.optimizer, seed=seed
        )
        return tf.nest.map_structure(lambda x: x[-1], results.factor)

    draws = tf.random.stateless_normal([16, 13], [seed, 0])
    scale, basis, core = (x.numpy() for x in run(tf.matmul(draws, root.T), tf.constant([seed, 1])))
    factor = scale[:, np.newaxis] * (np.eye(12) + basis @ (core - np.eye(1)) @ basis.T)
    white = np.linalg.solve(factor, root)
    assert np.linalg.cond(white @ white.T) < 2
    assert np.linalg.cond(root @ root.T) > 100


def _log_accept(kernel, results, state, seed):
    frozen = kernel.frozen(results)
    _, trace = tfp.mcmc.sample_chain(
        40, state, kernel=frozen, trace_fn=lambda _, r: r.log_accept_ratio, seed=[seed, 3]
    )
    return np.minimum(trace, 0)


# --- NUTS, whose noise is TFP's own --------------------------------------------------------------


@functools.cache
def _nuts(target, num_adaptation_steps, metric='variance'):
    made = {'variance': tuning.variance(), 'dense': tuning.fisher(is_dense=True)}[metric]
    kernel = tfpa.WindowedNUTS(target.log_prob, num_adaptation_steps, made, max_tree_depth=6)
    return kernel, tf.function(kernel.one_step, autograph=False)


def _run(step, state, results, seeds):
    trace = []
    for each in seeds:
        state, results = step(state, results, seed=tf.constant(each, tf.int32))
        trace.append(results)
    return state, trace


@pytest.mark.parametrize(
    ('target', 'metric'),
    [
        pytest.param(targets.LIST, 'dense', id='list'),
        pytest.param(targets.NAMEDTUPLE, 'variance', id='namedtuple', marks=pytest.mark.slow),
    ],
)
def test_nuts_learns_stops_and_resumes(target, metric, seed):
    kernel, step = _nuts(target, NUM_STEPS, metric)
    state = target.draw(seed, [3], 'float64')
    start = kernel.bootstrap_results(state)
    seeds = [[seed, i] for i in range(NUM_STEPS + 4)]
    end, trace = _run(step, state, start, seeds)
    assert not is_identical(trace[0].adaptation, start.adaptation)
    assert not is_identical(trace[-5].adaptation, trace[-6].adaptation)
    for results in trace[-4:]:
        assert_identical(results.adaptation, trace[-5].adaptation)
    half, first = _run(step, state, start, seeds[:11])
    saved = pickle.loads(pickle.dumps(to_numpy((half, first[-1]))))
    half, results = tf.nest.map_structure(tf.constant, saved)
    again, second = _run(step, half, results, seeds[11:])
    assert_identical(again, end)
    assert_identical(second[-1], trace[-1])
    counts = np.diff([np.zeros(3), *(results.memory.num_leapfrogs for results in trace)], axis=0)
    assert np.all((counts >= 1) & (counts < 2**6))
    # two at the bootstrap, and then the longest of each step
    assert int(trace[-1].info.num_gradients) == 2 + counts.max(axis=1).sum()
    assert np.any(counts.min(axis=1) < counts.max(axis=1))
    fresh = kernel.bootstrap_results(end)
    for carried, new in zip(
        tf.nest.flatten([trace[-1].target_log_prob, trace[-1].grads_target_log_prob]),
        tf.nest.flatten([fresh.target_log_prob, fresh.grads_target_log_prob]),
        strict=True,
    ):
        np.testing.assert_allclose(carried, new, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize('metric', ['variance', 'dense'])
def test_frozen_nuts_leaves_its_target_invariant(metric, seed):
    assert _p_value_on_power(metric, 1.0, seed) > FALSE_ALARM


def test_nuts_on_another_density_is_noticed(seed):
    """The same test tells a sampler apart whose density is another one."""
    assert _p_value_on_power('variance', 1.3, seed) < DETECTION


def _p_value_on_power(metric, power, seed):
    """Of draws of a target staying draws, where the kernel has a power of its density."""
    target, power = targets.SKEWED, tf.constant(power)
    kernel, step = _frozen_nuts_on_power(target, metric, seed)
    step = functools.partial(step, power=power)
    return invariance_p_value(kernel(power), target, seed, (4000,), num_steps=3, step=step)[0]


@functools.cache
def _frozen_nuts_on_power(target, metric, seed):
    """What has learned on the target itself, as a function of the power, and its step."""
    kernel, _ = _nuts(target, 150, metric)
    _, results = catalogue.sample(kernel, target.draw(seed, [8]), 150, [seed, 1])
    frozen = kernel.frozen(results)

    def on(power):
        return frozen.copy(target_log_prob_fn=lambda x: power * target.log_prob(x))

    @tf.function(autograph=False)
    def step(state, results, seed, power):
        return on(power).one_step(state, results, seed=seed)

    return on, step


def test_frozen_nuts_takes_the_steps_of_the_adapted_kernel(seed):
    target = targets.LIST
    kernel, step = _nuts(target, NUM_STEPS, 'dense')
    state = target.draw(seed, [3], 'float64')
    state, trace = _run(
        step, state, kernel.bootstrap_results(state), [[seed, i] for i in range(NUM_STEPS)]
    )
    frozen = kernel.frozen(trace[-1])
    next_state, _ = step(state, trace[-1], seed=tf.constant([seed, 99]))
    own, own_results = tf.function(frozen.one_step, autograph=False)(
        state, frozen.bootstrap_results(state), seed=tf.constant([seed, 99])
    )
    for a, b in zip(tf.nest.flatten(own), tf.nest.flatten(next_state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    assert own_results.adaptation.optimizer == ()
    assert int(own_results.info.num_gradients) >= 2


def test_nuts_under_xla_with_a_chain_without_density(seed):
    """It stays where it is, and the others learn."""
    target = targets.NAN_REGION
    kernel = tfpa.WindowedNUTS(target.log_prob, NUM_STEPS, max_tree_depth=5)
    state = tf.tensor_scatter_nd_update(
        target.draw(seed, [4]), [[0]], tf.constant([[9.0, 0, 0, 0]])
    )

    @tf.function(jit_compile=True, autograph=False)
    def run(state, seed):
        return tfp.mcmc.sample_chain(
            NUM_STEPS + 20, state, kernel=kernel, trace_fn=lambda _, r: r, seed=seed
        )

    states, trace = run(state, tf.constant([seed, 0]))
    np.testing.assert_array_equal(states[:, 0], np.broadcast_to(state[0], states[:, 0].shape))
    assert np.isfinite(states[:, 1:]).all()
    assert np.isneginf(trace.log_accept_ratio[:, 0]).all()
    assert np.mean(trace.is_accepted[:, 1:]) > 0.5
    assert np.isfinite(trace.adaptation.preconditioner).all()
    assert np.all(np.diff(trace.info.num_nonfinite) >= 1)


@pytest.mark.parametrize('batch_shape', [(), (2, 3)], ids=str)
def test_nuts_keeps_structures_and_chain_dimensions(batch_shape, seed):
    """Eagerly and in a graph it takes the same step, up to the rounding of TFP's loop."""
    target = targets.NAMEDTUPLE
    kernel = tfpa.WindowedNUTS(target.log_prob, 5, max_tree_depth=3)
    state = target.draw(seed, batch_shape, 'float64')
    bootstrapped = kernel.bootstrap_results(state)
    eager = kernel.one_step(state, bootstrapped, seed=[seed, 0])
    assert_same_signature(eager, (state, bootstrapped))
    assert eager[1].target_log_prob.shape == batch_shape
    step = tf.function(kernel.one_step, autograph=False)
    assert_close(step(state, bootstrapped, seed=tf.constant([seed, 0])), eager, rtol=1e-10)
    frozen = kernel.frozen(eager[1])
    assert_same_signature(frozen.one_step(*_restarted(frozen, state), seed=[seed, 1])[0], state)


def _restarted(kernel, state):
    return state, kernel.bootstrap_results(state)


def test_chain_dimensions_of_nuts_are_only_a_shape(seed):
    kernel = tfpa.WindowedNUTS(targets.SKEWED.log_prob, 5, max_tree_depth=3)
    flat = targets.SKEWED.draw(seed, [6], 'float64')
    grid = tf.reshape(flat, [2, 3, -1])
    (flat, of_flat), (grid, of_grid) = (
        kernel.one_step(*_restarted(kernel, state), seed=[seed, 0]) for state in (flat, grid)
    )
    assert_identical(tf.reshape(grid, flat.shape), flat)
    assert_identical(of_grid.adaptation, of_flat.adaptation)


def test_nuts_pools_over_replicas(seed):
    """What replicas sum decides: twice the sums of one replica are its own means."""
    target = targets.SKEWED
    plain = tfpa.WindowedNUTS(target.log_prob, 25, max_tree_depth=4)
    doubled = plain.copy(pool_fn=lambda tensors: [2 * x for x in tensors])
    state = target.draw(seed, [4], 'float64')
    found = []
    for kernel in (plain, doubled):
        results = kernel.bootstrap_results(state)
        _, results = kernel.one_step(state, results, seed=[seed, 0])
        found.append(results)
    np.testing.assert_allclose(
        found[0].adaptation.preconditioner, found[1].adaptation.preconditioner, rtol=1e-12
    )
    assert found[1].adaptation.optimizer.metric.count == 0  # no window yet


def test_nuts_hears_a_chain_in_a_narrow_place():
    """The harmonic mean over chains, and nearly nothing of one that is stuck."""
    forward, inverse = tfpa.WindowedNUTS(targets.SKEWED.log_prob, 1)._axes.mover.mean
    for accept_probs, expected in (
        ([0.8, 0.8], 0.8),
        ([0.9, 0.9, 0.1], 3 / (2 / 0.9 + 10)),
        ([0.9, 0.0], 2 / (1 / 0.9 + 100)),
    ):
        found = inverse(tf.reduce_mean(forward(tf.constant(accept_probs, tf.float64))))
        assert float(found) == pytest.approx(expected)


@pytest.mark.parametrize('make', [tfpa.WindowedHMC, tfpa.WindowedNUTS])
@pytest.mark.parametrize(
    ('name', 'value', 'error'),
    [
        ('metric', tfpa.preconditioners.diagonal(), TypeError),
        ('step_size_rule', 0.1, TypeError),
        ('schedule', [1, 2], TypeError),
        ('num_adaptation_steps', tf.constant(5), ValueError),
        ('target_accept_prob', 1.0, ValueError),
        ('step_size', -1.0, ValueError),
    ],
)
def test_misuse_names_the_argument(make, name, value, error):
    with pytest.raises(error, match=f'`{name}`'):
        make(targets.SKEWED.log_prob, **{name: value})


# --- with TFP's own adaptation, and in `sample` --------------------------------------------------


def test_tfps_dual_averaging_steers_our_kernels(seed):
    """Around a kernel that learns, TFP's adapter takes the step size to its own target."""
    target = targets.SKEWED
    inner = tfpa.EntropyAdaptiveHMC(target.log_prob, 2, 100)
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(inner, 600, target_accept_prob=0.9)
    state, results = catalogue.sample(kernel, target.draw(seed, [32]), 600, [seed, 0])
    frozen = inner.frozen(results.inner_results)
    assert float(frozen.step_size) == float(results.inner_results.step_size) != 1.0
    np.testing.assert_allclose(
        np.mean(np.exp(_log_accept(inner, results.inner_results, state, seed))), 0.9, atol=0.05
    )


@pytest.mark.parametrize('make', [tfpa.WindowedHMC, tfpa.WindowedNUTS])
def test_in_sample(make, seed):
    target = targets.SKEWED
    run = tfpa.sample(
        target.log_prob,
        num_results=100,
        num_warmup_steps=200,
        num_chains=4,
        initial_state=target.draw(seed, [4]),
        kernel=make,
        num_steps_between_results=0,
        seed=seed,
        progress=False,
        jit_compile=False,
    )
    assert np.isfinite(run.states).all()
    assert 0.4 < run.diagnostics.accept_prob < 0.99
