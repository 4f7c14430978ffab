"""The log-Gaussian Cox process: its density, its data and its constant metric."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import targets
from experiments.errors import ExperimentError
from experiments.targets import cox_process

tfd = tfp.distributions

_MEAN = np.log(126.0) - 1.91 / 2


def _value_and_gradient(log_prob, q):
    with tf.GradientTape() as tape:
        tape.watch(q)
        value = log_prob(q)
    return value, tape.gradient(value, q)


def _positions(rng, num_cells):
    return _MEAN + rng.normal(size=[4, num_cells])


@pytest.fixture(params=[(3, 'printed'), (3, 'code'), (8, 'code')], ids=str)
def model(request):
    return request.param


def test_density_is_its_slow_twin(model, rng):
    """A normal field and Poisson counts, up to one constant."""
    prior, counts = cox_process.prior_covariance(*model), cox_process.simulate(*model, 1)
    q = tf.constant(_positions(rng, len(counts)))
    slow = tfd.MultivariateNormalTriL(
        np.full(len(counts), _MEAN), np.linalg.cholesky(prior)
    ).log_prob(q) + tf.reduce_sum(
        tfd.Poisson(log_rate=q - np.log(len(counts))).log_prob(counts.astype(float)), axis=-1
    )
    target = cox_process.cox_process(*model, data_seed=1)
    difference = target.log_prob(q) - slow
    np.testing.assert_allclose(difference, np.full(4, difference[0]), rtol=1e-9)


def test_gradient_is_that_of_finite_differences(model, rng):
    target = cox_process.cox_process(*model)
    q = tf.constant(_positions(rng, target.event_size)[0])
    steps = 1e-5 * tf.eye(target.event_size, dtype=q.dtype)
    differences = (target.log_prob(q + steps) - target.log_prob(q - steps)) / 2e-5
    _, gradient = _value_and_gradient(target.log_prob, q)
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize('covariance', ['printed', 'code'])
def test_float32_is_enough(covariance, rng):
    """Energies are compared with 1, and gradients with the largest curvature's."""
    target = cox_process.cox_process(16, covariance)
    root = np.linalg.cholesky(cox_process.prior_covariance(16, covariance))
    q = (_MEAN + rng.normal(size=[4, 256]) @ root.T).astype(np.float32)
    single, double = (
        _value_and_gradient(target.log_prob, tf.constant(q.astype(dtype)))
        for dtype in (np.float32, np.float64)
    )
    np.testing.assert_allclose(single[0], double[0], atol=1e-3)
    np.testing.assert_allclose(single[1], double[1], atol=1e-3)


def test_lengths_of_correlation_are_the_printed_and_the_coded_ones():
    """Neighbours of an 8 x 8 grid are 8 / 33 and 64 / 33 of a correlation length apart."""
    for covariance, length in (('printed', 8 / 33), ('code', 64 / 33)):
        prior = cox_process.prior_covariance(8, covariance)
        for other, distance in ((0, 0.0), (1, 1.0), (8, 1.0), (9, 2**0.5), (63, 98**0.5)):
            jitter = 1e-5 * (other == 0)
            expected = 1.91 * np.exp(-distance / length) + jitter
            np.testing.assert_allclose(prior[0, other], expected, rtol=1e-12)


def test_metric_is_the_curvature_where_the_intensity_is_the_stated_one():
    """M = -Hessian of the log-density at q = mu + S_ii."""
    target = cox_process.cox_process(3, 'code')
    prior = cox_process.prior_covariance(3, 'code')
    q = tf.constant(_MEAN + np.diag(prior))
    with tf.GradientTape() as tape:
        tape.watch(q)
        _, gradient = _value_and_gradient(target.log_prob, q)
    hessian = tape.jacobian(gradient, q)
    np.testing.assert_allclose(
        -hessian.numpy(), cox_process.riemannian_metric(3, 'code'), rtol=1e-9, atol=1e-9
    )


def test_data_are_those_of_their_seed():
    first, again, other = (cox_process.simulate(8, 'code', seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_field_has_the_stated_mean_and_variance():
    """Over 400 fields, whose cells are nearly independent, the mean count is 126 / n^2."""
    counts = np.stack([cox_process.simulate(8, 'printed', seed) for seed in range(400)])
    mean, square = 126 / 64, np.exp(1.91) * (126 / 64) ** 2 + 126 / 64
    error = np.sqrt((square - mean**2) / counts.size)
    assert abs(counts.mean() - mean) < 4 * error


def test_another_covariance_is_refused():
    with pytest.raises(ExperimentError, match=r"one of printed, code; got 'matern'"):
        targets.make('cox_process', covariance='matern')
