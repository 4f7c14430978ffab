"""internal.log_density: value, score and Hessian-vector product of the user's function."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from tests.unit import problems
from tfp_adaptive.internal import log_density, packing

WELL = problems.QuarticWell(4)


def test_value_score_and_hessian_vector_product(rng):
    position, x = rng.normal(size=[2, 5, 4])
    target = problems.packed(WELL.log_prob, position)
    value, score = target.value_and_score(tf.constant(position))
    np.testing.assert_array_equal(target.value(tf.constant(position)), value)
    product = target.hessian_vector_product(tf.constant(position), tf.constant(x))
    for c, q in enumerate(position):
        np.testing.assert_allclose(value[c], -WELL.potential(q), atol=1e-12)
        np.testing.assert_allclose(score[c], -WELL.gradient(q), atol=1e-12)
        np.testing.assert_allclose(product[c], -WELL.hessian(q) @ x[c], atol=1e-12)


def test_parts_and_chain_dimensions(rng):
    """A function of two parts with two chain dimensions is one density on packed rows."""
    parts = [tf.constant(rng.normal(size=[2, 3])), tf.constant(rng.normal(size=[2, 3, 3]))]

    def log_prob(scalar, vector):
        assert scalar.shape == [2, 3]
        assert vector.shape == [2, 3, 3]
        return WELL.log_prob(tf.concat([scalar[..., tf.newaxis], vector], axis=-1))

    layout = packing.make_layout(parts, tf.TensorShape([2, 3]))
    position = packing.pack(layout, parts)
    target = log_density.packed_log_density(log_prob, layout, parts)
    value, score = target.value_and_score(position)
    expected_value, expected_score = problems.packed(WELL.log_prob, position).value_and_score(
        position
    )
    np.testing.assert_allclose(value, expected_value, atol=1e-12)
    np.testing.assert_allclose(score, expected_score, atol=1e-12)


def nan_above_one(q):
    return tf.reduce_sum(tf.sqrt(1 - q), axis=-1)


def infinite_slope(q):
    return tf.reduce_sum(tf.sqrt(tf.abs(q)), axis=-1)


def test_value_alone_is_minus_infinity_where_it_is_not_finite():
    position = np.array([[0.5, 0.25], [2.0, 0.25]])
    value = problems.packed(nan_above_one, position).value(tf.constant(position))
    assert np.isfinite(value[0])
    assert value[1] == float('-inf')


@pytest.mark.parametrize(
    ('log_prob', 'bad'),
    [
        (nan_above_one, 2.0),
        (lambda q: tf.reduce_sum(tf.math.log(q), axis=-1), 0.0),
        (infinite_slope, 0.0),
    ],
    ids=['NaN', '-inf', 'infinite slope'],
)
def test_not_finite_is_minus_infinity_with_zero_score(log_prob, bad):
    position = np.array([[0.5, 0.25], [bad, 0.25]])
    target = problems.packed(log_prob, position)
    value, score = target.value_and_score(tf.constant(position))
    assert np.isfinite(value[0])
    assert np.isfinite(score[0]).all()
    assert value[1] == float('-inf')
    np.testing.assert_array_equal(score[1], [0, 0])


def test_a_score_on_the_way_drops_its_entries_that_are_not_finite():
    position = tf.constant([[0.5, 0.25], [0.0, 0.25]], tf.float64)
    target = problems.packed(infinite_slope, position)
    score = target.score(position)
    np.testing.assert_array_equal(score[0], target.value_and_score(position)[1][0])
    assert score[1, 0] == 0
    assert score[1, 1] == score[0, 1] != 0


@pytest.mark.parametrize('log_prob', [nan_above_one, infinite_slope])
def test_derivatives_of_a_lost_chain_are_zero(log_prob):
    """A second derivative through the value and the score stays a number for every chain."""
    position = tf.constant([[0.5, 0.25], [2.0 if log_prob is nan_above_one else 0.0, 0.25]])
    target = problems.packed(log_prob, position)
    with tf.GradientTape() as tape:
        tape.watch(position)
        value, score = target.value_and_score(position)
        total = value[0] + tf.reduce_sum(score**2)
    gradient = tape.gradient(total, position).numpy()
    assert np.isfinite(gradient).all()
    assert gradient[0].all()
    np.testing.assert_array_equal(gradient[1], [0, 0])


def test_linear_density_has_zero_hessian(rng):
    position = tf.constant(rng.normal(size=[3, 2]))
    target = problems.packed(lambda q: tf.reduce_sum(q, axis=-1), position)
    product = target.hessian_vector_product(position, tf.ones_like(position))
    np.testing.assert_array_equal(product, np.zeros([3, 2]))


def test_refuses_what_it_cannot_differentiate():
    parts = [tf.zeros([3]), tf.zeros([3])]
    with pytest.raises(ValueError, match=r'None` gradient.*part 1'):
        log_density.value_and_gradients(lambda a, b: -(a**2), parts)
    with pytest.raises(ValueError, match=r'None` gradient.*part 0'):
        log_density.value_and_gradients(lambda a, b: tf.stop_gradient(a) + b, parts)


def test_refuses_another_dtype():
    with pytest.raises(TypeError, match=r'`target_log_prob_fn`.*float64.*float32'):
        log_density.value_and_gradients(lambda a: tf.cast(a, tf.float64), [tf.zeros([3])])


def test_a_graph_is_freed_with_its_density():
    """TensorFlow keeps the graphs of custom gradients; those of users may hold gigabytes."""

    def weak_graph():
        density = problems.packed(WELL.log_prob, np.zeros([2, 4]))
        trace = tf.function(density.value_and_score, autograph=False)
        return weakref.ref(trace.get_concrete_function(tf.zeros([2, 4], tf.float64)).graph)

    graph = weak_graph()
    gc.collect()
    assert graph() is None
