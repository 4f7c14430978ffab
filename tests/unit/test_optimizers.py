"""optimizers: Adam and RMSProp against their textbook forms, schedules, controllers."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.support import twins
from tfp_adaptive import optimizers
from tfp_adaptive.typing import Transition

NUM_STEPS = 50
START = tf.constant(0.0, tf.float64)


def run(optimizer, gradients, progress=lambda count: 0.0):
    """The steps an optimizer takes on a list of gradients (nests), and its final state."""
    state = optimizer.init(tf.nest.map_structure(tf.zeros_like, gradients[0]))
    steps = []
    for count, gradient in enumerate(gradients):
        step, state = optimizer.update(gradient, state, tf.constant(progress(count), tf.float64))
        steps.append(step)
    return steps, state


@pytest.fixture
def gradients(rng):
    """Of very different sizes, so that the normalisation matters."""
    scale = 10.0 ** np.array([-4, -1, 0, 3])
    return scale * (0.5 + rng.normal(size=[NUM_STEPS, 4]))


# --- Adam ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'options',
    [{}, {'beta_1': 0.5, 'beta_2': 0.9, 'epsilon': 0.1}, {'beta_1': 0.0, 'beta_2': 0.0}],
    ids=['defaults', 'others', 'no memory'],
)
def test_adam_matches_its_twin(options, gradients):
    steps, state = run(optimizers.adam(0.02, **options), [tf.constant(g) for g in gradients])
    expected = twins.adam(gradients, lambda count: 0.02, **options)
    np.testing.assert_allclose(steps, expected, rtol=1e-10)
    assert state.count == NUM_STEPS


def test_adam_matches_tf_keras(gradients):
    """The same place for epsilon: beside the root of the uncorrected second moment."""
    variable = tf.Variable(np.zeros(4))
    keras = tf_keras.optimizers.Adam(0.02, epsilon=1e-3)
    steps, _ = run(optimizers.adam(0.02, epsilon=1e-3), [tf.constant(g) for g in gradients])
    position = np.zeros(4)
    for gradient, step in zip(gradients, steps, strict=True):
        keras.apply_gradients([(tf.constant(gradient), variable)])
        position = position + step
        # tf_keras keeps its rates in single precision, where 1 - 0.999 has five digits
        np.testing.assert_allclose(position, variable, rtol=2e-5)


def test_adam_reads_its_schedule(gradients):
    """The schedule sees the number of updates so far and the progress it is told."""
    optimizer = optimizers.adam(lambda count, progress: 0.1 / (1 + count) + 10 * progress)
    steps, _ = run(
        optimizer, [tf.constant(g) for g in gradients], progress=lambda count: count / NUM_STEPS
    )
    expected = twins.adam(gradients, lambda count: 0.1 / (1 + count) + 10 * count / NUM_STEPS)
    np.testing.assert_allclose(steps, expected, rtol=1e-10)


def test_adam_by_default_falls_to_rest(gradients):
    """0.03 at first, in the first step's full length, and nothing at the end of adaptation."""
    steps, _ = run(optimizers.adam(), [tf.constant(g) for g in gradients[:1]])
    np.testing.assert_allclose(abs(steps[0]), 0.03, rtol=1e-2)
    steps, _ = run(optimizers.adam(), [tf.constant(g) for g in gradients[:1]], lambda count: 1.0)
    np.testing.assert_array_equal(steps[0], 0)


def test_adam_over_a_nest(gradients):
    """Leaves do not know of one another."""
    nest = [{'a': tf.constant(g[:1]), 'b': (tf.constant(g[1:]),)} for g in gradients]
    steps, _ = run(optimizers.adam(0.02), nest)
    flat, _ = run(optimizers.adam(0.02), [tf.constant(g) for g in gradients])
    for step, whole in zip(steps, flat, strict=True):
        tf.nest.assert_same_structure(step, nest[0])
        np.testing.assert_array_equal(tf.concat([step['a'], step['b'][0]], 0), whole)


def test_adam_keeps_its_dtype():
    gradient = tf.constant([1.0, 2.0])
    optimizer = optimizers.adam()
    state = optimizer.init(tf.zeros_like(gradient))
    step, after = optimizer.update(gradient, state, tf.constant(0.5))
    assert step.dtype == tf.float32
    tf.nest.map_structure(lambda a, b: a.dtype == b.dtype or pytest.fail('dtype'), state, after)


def test_adam_does_not_move_without_a_gradient():
    steps, _ = run(optimizers.adam(0.1), [tf.zeros([2], tf.float64)] * 3)
    np.testing.assert_array_equal(steps, 0)


def test_adam_bounds_what_it_remembers():
    """Slopes in units of max(1, beta), clipped at two: one divergence must not freeze an entry."""
    slope = tf.constant([-1e6, -1.0, 0.0, 1.5, 20.0], tf.float64)
    condition = optimizers.adam().condition
    for beta, expected in (
        (0.5, [-2, -1, 0, 1.5, 2]),
        (1.0, [-2, -1, 0, 1.5, 2]),
        (4.0, [-2, -0.25, 0, 0.375, 2]),
    ):
        np.testing.assert_array_equal(condition(slope, tf.constant(beta, tf.float64)), expected)


# --- RMSProp -------------------------------------------------------------------------------------


def test_rmsprop_matches_its_twin(gradients):
    steps, state = run(
        optimizers.rmsprop(0.02, decay=0.8, offset=0.5), [tf.constant(g) for g in gradients]
    )
    expected = twins.rmsprop(gradients, 0.02, decay=0.8, offset=0.5)
    np.testing.assert_allclose(steps, expected, rtol=1e-12)
    assert state.count == NUM_STEPS


def test_rmsprop_sees_the_raw_gradient():
    """The published method neither scales nor clips, whatever beta is."""
    slope = tf.constant([-1e6, 3.0])
    condition = optimizers.rmsprop(0.1).condition
    np.testing.assert_array_equal(condition(slope, tf.constant(50.0)), slope)


def test_rmsprop_cuts_a_slope_whose_square_overflows():
    slope = tf.constant([-1e20, 1e18, np.inf, np.nan])
    found = optimizers.rmsprop(0.1).condition(slope, tf.constant(1.0)).numpy()
    assert found[1] == np.float32(1e18)
    assert np.isnan(found[3])
    most = np.finfo(np.float32).max ** 0.5 / 2
    np.testing.assert_allclose(found[[0, 2]], [-most, most], rtol=1e-6)
    assert np.isfinite(np.square(found[:3])).all()


def test_rmsprop_forgets_a_slope_out_of_line():
    """A single one of 1e150 holds its entry up for less than two hundred steps."""
    gradients = [tf.ones([1], tf.float64) * (1e150 if i == 3 else 1.0) for i in range(230)]
    steps, _ = run(optimizers.rmsprop(0.1), gradients)
    assert abs(steps[4][0]) < 1e-3
    np.testing.assert_allclose(steps[-1], -0.05, rtol=0.05)


def test_rmsprop_goes_on_while_slopes_grow_without_end():
    """As the published weight of the entropy does while all moves are accepted."""
    optimizer = optimizers.rmsprop(0.1)
    state, one = optimizer.init(tf.zeros([1])), tf.constant(1.0)
    for exponent in np.linspace(0, 60, 600):
        slope = optimizer.condition(tf.constant([-(10.0**exponent)], tf.float32), one)
        step, state = optimizer.update(slope, state, one)
    np.testing.assert_allclose(step, 0.1, rtol=0.2)


# --- schedules -----------------------------------------------------------------------------------


def rate_at(schedule, count, progress):
    return float(schedule(tf.constant(count, tf.float64), tf.constant(progress, tf.float64)))


def test_schedules():
    assert rate_at(optimizers.constant(0.1), 7.0, 0.9) == 0.1
    assert rate_at(optimizers.linear_decay(0.1), 7.0, 0.0) == 0.1
    assert math.isclose(rate_at(optimizers.linear_decay(0.1), 7.0, 0.75), 0.025)
    assert rate_at(optimizers.linear_decay(0.1), 7.0, 1.5) == 0
    assert rate_at(optimizers.inverse_sqrt(0.1), 0.0, 0.9) == 0.1
    assert math.isclose(rate_at(optimizers.inverse_sqrt(0.1, decay=3.0), 1.0, 0.9), 0.05)


# --- controllers ---------------------------------------------------------------------------------


def update(controller, weight, signal):
    return float(
        controller.update(tf.constant(weight, tf.float64), tf.constant(signal, tf.float64))
    )


def test_acceptance_controller():
    """beta <- clip(beta (1 + rate (a - target)), bounds)."""
    controller = optimizers.acceptance_controller(0.6, rate=0.5, initial=2.0, bounds=(1.0, 3.0))
    assert controller.init == 2.0
    assert math.isclose(update(controller, 2.0, 0.6), 2.0)
    assert math.isclose(update(controller, 2.0, 1.0), 2.4)
    assert math.isclose(update(controller, 2.0, 0.0), 1.4)
    assert update(controller, 2.9, 1.0) == 3.0
    assert update(controller, 1.1, 0.0) == 1.0


def test_penalty_controller():
    """gamma <- clip(gamma + rate pen, bounds): it rises with the penalty and never falls."""
    controller = optimizers.penalty_controller(rate=2.0, initial=10.0, bounds=(5.0, 20.0))
    assert controller.init == 10.0
    assert update(controller, 10.0, 0.0) == 10.0
    assert math.isclose(update(controller, 10.0, 1.5), 13.0)
    assert update(controller, 10.0, 100.0) == 20.0


def test_fixed_weight():
    controller = optimizers.fixed_weight(0.25)
    assert controller.init == 0.25
    assert update(controller, 0.25, 1.0) == 0.25


def test_signals_of_the_acceptance_controller():
    """Probabilities or outcomes, one a chain; a lost chain gives 0 to either."""
    ratio = tf.constant([0.5, -1.0, -1.0, float('-inf')], tf.float64)
    transition = Transition(None, None, ratio, tf.constant([True, True, False, False]))
    for name, expected in (
        ('probability', [1, np.exp(-1), np.exp(-1), 0]),
        ('indicator', [1, 1, 0, 0]),
    ):
        signal = optimizers.acceptance_controller(signal=name).signal(transition)
        np.testing.assert_allclose(signal, expected, atol=1e-15)
        assert signal.dtype == tf.float64


def test_no_ceiling():
    controller = optimizers.acceptance_controller(0.5, bounds=(1.0, math.inf))
    assert update(controller, 1e20, 1.0) > 1e20


def test_default_controllers_are_the_papers_but_for_the_first_penalty():
    acceptance, penalty = optimizers.acceptance_controller(), optimizers.penalty_controller()
    assert math.isclose(update(acceptance, 1.0, 0.67), 1.0)
    assert update(acceptance, 100.0, 1.0) == 100.0
    assert update(acceptance, 0.01, 0.0) == 0.01
    assert penalty.init == 1e3
    assert update(penalty, 1e5, 1.0) == 1e5


def test_a_weight_without_a_ceiling_stays_a_number():
    controller = optimizers.acceptance_controller(0.25, bounds=(1e-4, math.inf))
    weight = tf.constant(np.finfo(np.float32).max)
    assert np.isfinite(controller.update(weight, tf.constant(1.0)))
