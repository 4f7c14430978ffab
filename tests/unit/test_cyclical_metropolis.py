"""CyclicalKernelAdaptiveMetropolis: its schedule, what each mode learns when, and its errors."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.support import targets
from tfp_adaptive.kernels.embedding_adaptive import Cycle

TARGET = targets.SKEWED


def _steps(kernel, num_steps, seed, num_chains=8):
    state = TARGET.draw(seed, [num_chains], 'float64')
    results = kernel.bootstrap_results(state)
    step = tf.function(kernel.one_step, autograph=False)
    states, trace = [state], [results]
    for i in range(num_steps):
        state, results = step(state, results, seed=tf.constant([seed, i]))
        states.append(state)
        trace.append(results)
    return states, trace


@pytest.mark.parametrize(('num_steps', 'fraction'), [(1000, 0.4), (8000, 0.6), (20, 0.5)])
def test_sizes_of_the_moves(num_steps, fraction):
    """Equation of the cosine, continued from nu at the last exploration."""
    cycle, steps = Cycle(num_steps, fraction), np.arange(2 * num_steps)
    place = (steps % num_steps) / num_steps
    exploring = place <= fraction
    np.testing.assert_array_equal(cycle.is_exploring(tf.constant(steps)), exploring)
    first = 2 / (math.cos(math.pi * fraction) + 1)
    expected = np.where(exploring, 1.0, first / 2 * (np.cos(np.pi * place) + 1))
    sizes = cycle.size(tf.constant(steps), tf.float64)
    np.testing.assert_allclose(sizes, expected, rtol=1e-6)
    assert abs(expected[exploring.sum() // 2] - 1) < 5 / num_steps


def test_the_last_sizes_of_a_long_cycle_in_single_precision():
    cycle, steps = Cycle(20_000, 0.4), tf.range(19_990, 20_000)
    single, double = (cycle.size(steps, dtype) for dtype in (tf.float32, tf.float64))
    assert np.all(single > 0)
    np.testing.assert_allclose(single, double, rtol=1e-5)


def test_a_fraction_that_rounding_lowers():
    """0.29 * 100 is less than 29 in double precision, and in single it is not."""
    for num_steps, fraction in ((100, 0.29), (50, 0.58), (200, 0.57)):
        cycle = Cycle(num_steps, fraction)
        assert cycle.num_exploring == round(num_steps * fraction) + 1
        explored = np.sum(cycle.is_exploring(tf.range(num_steps)))
        assert explored == cycle.num_exploring


@pytest.mark.parametrize('mode', ['finite', 'ensemble'])
@pytest.mark.parametrize('num_adaptation_steps', [28, 30, 31, np.int64(36)])
def test_the_scale_ends_at_what_its_rule_has_learned(mode, num_adaptation_steps, seed):
    """The last step that learns may come before the last step of the adaptation."""
    rule = tfpa.tuning.dual_averaging(0.3)
    kernel = _kernel(mode, num_adaptation_steps, scale_rule=rule)
    _, trace = _steps(kernel, num_adaptation_steps, seed)
    last = max(i for i in range(num_adaptation_steps) if i % 10 <= 5)
    scales = [results.adaptation.preconditioner.scale.numpy() for results in trace]
    for step in range(last - 5, num_adaptation_steps):
        state = trace[step + 1].adaptation.optimizer.scale
        kept = rule.learned if step >= last else rule.current
        np.testing.assert_allclose(np.log(scales[step + 1]), kept(state), rtol=1e-12)
    assert abs(float(rule.learned(state) - rule.current(state))) > 1e-3


def _kernel(mode, num_adaptation_steps=30, **more):
    return tfpa.CyclicalKernelAdaptiveMetropolis(
        TARGET.log_prob,
        num_adaptation_steps,
        num_steps_per_cycle=10,
        exploration_fraction=0.5,
        subsample_size=4,
        mode=mode,
        **more,
    )


@functools.cache
def _finite(seed):
    """A kernel with finite cycles, and the states and results of 45 steps."""
    kernel = _kernel('finite')
    return kernel, *_steps(kernel, 45, seed)


def _changes(trace, select):
    """Numbers of the steps, from zero, that changed something learned."""
    kept = [np.asarray(select(results.adaptation)) for results in trace]
    return [i for i in range(len(kept) - 1) if not np.array_equal(kept[i], kept[i + 1])]


def test_finite_cycles_learn_while_they_explore(seed):
    kernel, _, trace = _finite(seed)
    expected = [step for step in range(30) if step % 10 <= 5]
    assert _changes(trace, lambda adaptation: adaptation.preconditioner.scale) == expected
    recorded = [bool(kernel.is_recorded(results)) for results in trace[1:]]
    assert recorded == [step % 10 > 5 for step in range(45)]


def test_diminishing_cycles_learn_ever_more_rarely(seed):
    """Points of cycle c come from states of the cycles before c."""
    kernel = _kernel('diminishing', 1000)
    states, trace = _steps(kernel, 90, seed)
    points = [results.adaptation.preconditioner.points.numpy() for results in trace]
    assert _changes(trace, lambda adaptation: adaptation.preconditioner.points) == [10, 20, 40, 80]
    for start in (10, 20, 40, 80):
        earlier = np.concatenate(states[1 : start + 1])
        for point in points[start + 1]:
            assert np.any(np.all(earlier == point, axis=1))


def test_finite_points_are_states_of_chains(seed):
    _, states, trace = _finite(seed)
    past = np.concatenate(states[1:13])
    for point in trace[12].adaptation.preconditioner.points.numpy():
        assert np.any(np.all(past == point, axis=1))


def test_ensembles_hold_no_points_and_one_half_moves_by_the_other(seed):
    """A chain's move depends on the other half's states and on none of its own half."""
    kernel = _kernel('ensemble', 0)
    state = TARGET.draw(seed, [8], 'float64')
    results = kernel.bootstrap_results(state)
    assert results.adaptation.preconditioner.points.shape == [0, 7]
    _, after = kernel.one_step(state, results, seed=[seed, 0])
    for moved, is_felt in ((1, False), (5, True)):
        other = tf.tensor_scatter_nd_add(state, [[moved]], tf.ones([1, 7], tf.float64))
        _, changed = kernel.one_step(other, kernel.bootstrap_results(other), seed=[seed, 0])
        is_same = np.array_equal(changed.proposed_state[0], after.proposed_state[0])
        assert is_same != is_felt


def test_the_second_half_learns_from_where_the_first_has_moved(seed):
    """Not from where it was, which would leave no target invariant."""
    state = TARGET.draw(seed, [8], 'float64')

    def proposals(may_move):
        def log_prob(x):
            stays = tf.reduce_all(tf.equal(x, state), axis=-1)
            first = tf.where(stays | may_move, tf.zeros([], x.dtype), -np.inf)
            return tf.where(tf.range(8) < 4, first, TARGET.log_prob(x))

        kernel = tfpa.CyclicalKernelAdaptiveMetropolis(log_prob, 0, 10, mode='ensemble')
        _, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[seed, 0])
        return results.proposed_state.numpy()

    moving, still = proposals(True), proposals(False)
    np.testing.assert_array_equal(moving[:4], still[:4])
    assert np.all(np.any(moving[4:] != still[4:], axis=-1))


def test_as_published_chains_are_on_their_own_and_start_anew(seed):
    kernel = _kernel('as_published', 0)
    assert not kernel.is_calibrated
    states, trace = _steps(kernel, 21, seed)
    memory = [results.adaptation.preconditioner for results in trace]
    # E = 6 states of the exploration; the next cycle writes over them one by one
    np.testing.assert_array_equal(memory[10].history, np.stack(states[:6], axis=1))
    np.testing.assert_array_equal(memory[11].history[:, 0], states[10])
    np.testing.assert_array_equal(memory[11].history[:, 1], states[1])
    first = 2 * 2.38 / np.sqrt(7)
    change = np.exp(np.minimum(trace[11].log_accept_ratio, 0)) - 0.234
    np.testing.assert_allclose(memory[11].log_scale, np.log(first) + change, rtol=1e-6)
    for step in (6, 7, 8, 9):
        np.testing.assert_array_equal(memory[step].factor, memory[step + 1].factor)
    with pytest.raises(ValueError, match='never stops'):
        kernel.frozen(trace[-1])


def test_as_published_the_walk_has_the_covariance_of_the_transition(seed):
    kernel = _kernel('as_published', 0, kernel_function=tfpa.kernel_functions.linear())
    _, trace = _steps(kernel, 6, seed)
    factor = trace[-1].adaptation.preconditioner.factor.numpy()
    least = np.linalg.eigvalsh(factor @ np.swapaxes(factor, 1, 2))[:, 0]
    assert np.all(least > 0.2**2 * 0.999)
    np.testing.assert_allclose(least, 0.04, rtol=1e-6)  # four points span but three directions


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'mode': 'exact'}, '`mode`'),
        ({'num_steps_per_cycle': 1}, '`num_steps_per_cycle`'),
        ({'exploration_fraction': 1.0}, '`exploration_fraction`'),
        ({'mode': 'as_published', 'gain': 0.1}, '`gain` has no use'),
        ({'mode': 'ensemble', 'gain': 0.1}, '`gain` has no use'),
        ({'subsample_size': 0}, '`subsample_size`'),
        ({'noise_scale': -1.0}, '`noise_scale`'),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        tfpa.CyclicalKernelAdaptiveMetropolis(TARGET.log_prob, **options)


def test_only_the_published_form_takes_a_schedule_of_noise():
    with pytest.raises(TypeError, match=r"`noise_scale` .*='as_published' alone"):
        _kernel('finite', noise_scale=lambda time: 1.0 / (1 + time))


@pytest.mark.parametrize('num_chains', [2, 5])
def test_ensembles_need_two_halves(num_chains):
    with pytest.raises(ValueError, match='even number of chains'):
        _kernel('ensemble').bootstrap_results(TARGET.draw(0, [num_chains]))


@pytest.mark.parametrize(
    ('options', 'error', 'message'),
    [
        ({'scale_rule': 0.1}, TypeError, '`scale_rule`'),
        ({'adapt_scale': False, 'scale_rule': tfpa.tuning.robbins_monro()}, ValueError, 'no use'),
        ({'adapt_scale': 1}, TypeError, '`adapt_scale`'),
        ({'rao_blackwell': 'yes'}, TypeError, '`rao_blackwell`'),
        ({'gain': 1.5}, ValueError, '`gain`'),
        ({'target_accept_prob': 0}, ValueError, '`target_accept_prob`'),
    ],
)
def test_bad_arguments_of_adaptive_metropolis_are_named(options, error, message):
    with pytest.raises(error, match=message):
        tfpa.AdaptiveMetropolis(TARGET.log_prob, **options)


def test_a_fixed_scale_is_the_formulas(seed):
    kernel = tfpa.AdaptiveMetropolis(TARGET.log_prob, 50, adapt_scale=False, gain=0.01)
    _, trace = _steps(kernel, 50, seed)
    adaptation = trace[-1].adaptation
    scaled = 2.38 / np.sqrt(7) * adaptation.optimizer.covariance.factor
    np.testing.assert_allclose(adaptation.preconditioner, scaled, rtol=1e-12)


def test_sample_takes_gradient_free_kernels(seed):
    """On a density without gradients, and an answer with known moments."""
    scales = np.array([1.0, 10.0, 0.1])

    def log_prob(x):
        return tf.stop_gradient(-0.5 * tf.reduce_sum((x / tf.constant(scales, x.dtype)) ** 2, -1))

    run = tfpa.sample(
        log_prob,
        1000,
        1000,
        num_chains=10,
        initial_state=tf.zeros([3]),
        num_steps_between_results=1,
        kernel=tfpa.AdaptiveMetropolis,
        seed=seed,
        progress=False,
        jit_compile=False,
    )
    diagnostics = run.diagnostics
    assert diagnostics.num_warmup_gradients == diagnostics.num_sampling_gradients == 0
    assert diagnostics.num_warmup_evaluations == 1 + 1000
    assert diagnostics.num_sampling_evaluations == 2 * 1000
    assert '2,000 evaluations a chain' in str(run)
    assert 0.15 < diagnostics.accept_prob < 0.35
    error = np.mean(run.states, axis=(0, 1)) / (scales / np.sqrt(diagnostics.ess))
    assert np.max(np.abs(error)) < 4
