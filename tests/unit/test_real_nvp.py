"""preconditioners.real_nvp: the map itself. What is learned through it: test_flow_gradients."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tests.unit import flows
from tests.unit.flows import CHAINS, SIZE
from tfp_adaptive import preconditioners


@pytest.fixture
def curved(rng):
    return flows.random_real_nvp(rng)


def test_forward_is_the_documented_map(curved, rng):
    flow, parameters = curved
    z = 2 * rng.normal(size=[CHAINS, SIZE])
    q, log_det = flow.forward(parameters, tf.constant(z))
    plain = tf.nest.map_structure(lambda x: x.numpy(), parameters)
    for c in range(CHAINS):
        expected_q, expected_log_det = twins.real_nvp(*plain, z[c])
        np.testing.assert_allclose(q[c], expected_q, rtol=1e-12)
        np.testing.assert_allclose(log_det[c], expected_log_det, rtol=1e-12)


@pytest.mark.parametrize('event_size', [2, 3, 6])
def test_inverse_undoes_forward(event_size, rng):
    flow = preconditioners.real_nvp()
    parameters = tf.nest.map_structure(
        lambda x: x + tf.constant(0.3 * rng.normal(size=x.shape)),
        flow.init(event_size, tf.float64, tf.constant(0.1, tf.float64)),
    )
    z = tf.constant(2 * rng.normal(size=[50, event_size]))
    q, _ = flow.forward(parameters, z)
    np.testing.assert_allclose(flow.inverse(parameters, q), z, atol=1e-12)
    q = tf.constant(rng.normal(size=[50, event_size]))
    np.testing.assert_allclose(
        flow.forward(parameters, flow.inverse(parameters, q))[0], q, atol=1e-12
    )


def test_log_det_is_that_of_the_jacobian(curved, rng):
    flow, parameters = curved
    z = tf.constant(2 * rng.normal(size=[20, SIZE]))
    with tf.GradientTape() as tape:
        tape.watch(z)
        q, log_det = flow.forward(parameters, z)
    jacobian = tape.batch_jacobian(q, z)
    _, expected = np.linalg.slogdet(jacobian)
    np.testing.assert_allclose(log_det, expected, atol=1e-12)
    assert np.std(expected) > 0.01, 'the map is not curved'


def test_starts_as_a_scaling(rng):
    scale = np.array([0.5, 2.0, 1.0])
    flow = preconditioners.real_nvp(hidden_sizes=[7], initial_scale=scale)
    parameters = flow.init(SIZE, tf.float64, tf.constant(9.0, tf.float64))
    z = rng.normal(size=[CHAINS, SIZE])
    q, log_det = flow.forward(parameters, tf.constant(z))
    np.testing.assert_allclose(q, scale * z, rtol=1e-12)
    np.testing.assert_allclose(log_det, np.full([CHAINS], np.sum(np.log(scale))), atol=1e-12)


@pytest.mark.parametrize('dtype', [tf.float32, tf.float64])
def test_parameters_have_the_dtype_and_the_sizes_asked_for(dtype):
    flow = preconditioners.real_nvp(hidden_sizes=(5, 4, 3))
    parameters = flow.init(SIZE, dtype, tf.constant(0.1, dtype))
    assert {leaf.dtype for leaf in tf.nest.flatten(parameters)} == {dtype}
    sizes = [[tuple(w.shape) for w, _ in net] for net in (parameters.first, parameters.second)]
    assert sizes == [[(1, 5), (5, 4), (4, 3), (3, 4)], [(2, 5), (5, 4), (4, 3), (3, 2)]]


def test_both_networks_are_drawn_apart():
    parameters = preconditioners.real_nvp().init(4, tf.float64, tf.constant(0.1, tf.float64))
    assert np.max(np.abs(parameters.first[0][0] - parameters.second[0][0])) > 0.1
