"""The densities handed to peers are those of the targets."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import targets
from experiments.benchmark import densities

TARGETS = (
    {'name': 'banana'},
    {'name': 'gaussian', 'kind': 'process', 'num_dims': 5},
    {'name': 'gaussian', 'kind': 'anisotropic', 'num_dims': 4, 'condition_number': 30.0},
    {'name': 'logistic_regression', 'data': 'german'},
    {'name': 'stochastic_volatility', 'num_points': 20},
)


@pytest.fixture(params=TARGETS, ids=lambda arguments: arguments.get('kind', arguments['name']))
def arguments(request, monkeypatch, rng):
    covariates, labels = rng.normal(size=[30, 3]), (rng.uniform(size=30) < 0.5).astype(float)
    monkeypatch.setattr('experiments.data.load', lambda name: (covariates, labels))
    return request.param


def test_numpy_density_is_that_of_the_target(arguments, rng):
    target = targets.make(**arguments)
    log_prob, event_size = densities.make(np, **arguments)
    assert event_size == target.event_size
    # far apart, so that a wrong term shows; the constant between the two is the same everywhere
    q = 2 * rng.normal(size=[8, event_size])
    differences = [log_prob(row) for row in q] - target.log_prob(tf.constant(q)).numpy()
    np.testing.assert_allclose(differences, differences[0], rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_jax_gradient_is_that_of_the_target(arguments, rng):
    jax = pytest.importorskip('jax')
    target = targets.make(**arguments)
    log_prob, event_size = densities.make(jax.numpy, **arguments)
    q = rng.normal(size=[8, event_size]).astype(np.float32)
    _, expected = tfp.math.value_and_gradient(target.log_prob, tf.constant(q))
    found = jax.vmap(jax.grad(log_prob))(q)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_pytensor_gradient_is_that_of_the_target(arguments, rng):
    pytensor = pytest.importorskip('pytensor')
    target = targets.make(**arguments)
    log_prob, event_size = densities.make(pytensor.tensor, **arguments)
    q = rng.normal(size=[3, event_size])
    _, expected = tfp.math.value_and_gradient(target.log_prob, tf.constant(q))
    vector = pytensor.tensor.dvector()
    gradient = pytensor.function([vector], pytensor.grad(log_prob(vector), vector))
    np.testing.assert_allclose([gradient(row) for row in q], expected, rtol=1e-8, atol=1e-8)
