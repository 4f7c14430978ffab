"""The densities handed to peers are those of the targets."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import targets
from experiments.benchmark import densities, peers_nutpie, tensorflow_density
from experiments.benchmark.sampling import Problem
from tfp_adaptive.sampling import diagnose

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


@pytest.mark.slow
def test_a_tensorflow_density_within_jax(rng):
    """Value and gradient, of one point and mapped once and twice, are those of TensorFlow."""
    jax = pytest.importorskip('jax')
    target = targets.make('banana')
    mapped = jax.value_and_grad(tensorflow_density.in_jax(target.log_prob))
    q = rng.normal(size=[3, 4, target.event_size]).astype(np.float32)
    expected = tfp.math.value_and_gradient(target.log_prob, tf.constant(q))
    for points, wanted in (
        (q[0, 0], [one[0, 0] for one in expected]),
        (q[0], [one[0] for one in expected]),
        (q, expected),
    ):
        for found, one in zip(jax.jit(mapped)(points), wanted, strict=True):
            np.testing.assert_allclose(found, one, rtol=1e-5, atol=1e-5)
        mapped = jax.vmap(mapped)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore::RuntimeWarning')
def test_nutpie_with_a_tensorflow_density():
    """Its draws have the moments of a Gaussian, within five of their standard errors."""
    pytest.importorskip('nutpie')
    sd = np.array([0.1, 1.0, 10.0], np.float32)
    target = targets.Target(
        name='scales',
        provenance='a Gaussian',
        log_prob=lambda q: -tf.reduce_sum(tf.square(q / sd), axis=-1) / 2,
        event_size=3,
        initial_state=lambda num_chains, seed: tf.random.stateless_normal([num_chains, 3], seed),
    )
    problem = Problem(
        target=target,
        arguments=None,
        preconditioner='',
        num_chains=2,
        num_warmup_steps=300,
        num_results=400,
        num_short_results=400,
        max_seconds=100.0,
    )
    draws = peers_nutpie.low_rank(problem)(1)
    ess, ess_of_squares, _ = diagnose(draws.states, 1)
    assert np.all(np.abs(draws.states.mean(axis=(0, 1))) < 5 * sd / np.sqrt(ess))
    squares = np.square(draws.states / sd)
    assert np.all(np.abs(squares.mean(axis=(0, 1)) - 1) < 5 * np.sqrt(2 / ess_of_squares))
    assert draws.num_gradients > 400
