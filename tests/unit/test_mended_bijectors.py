"""Bijectors of TFP that are mended while a model is evaluated."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.sampling.targets import bijectors
from tfp_adaptive.sampling.targets.distributions import from_distribution

tfb, tfd = tfp.bijectors, tfp.distributions
_GRID = np.array([-1e4, -300, -90, -21, -15, -9.5, -8.5, -1, 0, 1, 15, 90, 300, 1e4])


def _sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


@pytest.mark.parametrize('is_mapped', [False, True])
@pytest.mark.parametrize('dtype', ['float32', 'float64'])
@pytest.mark.parametrize(
    ('function', 'expected', 'slope'),
    [
        (bijectors.softplus, lambda x: np.logaddexp(0, x), _sigmoid),
        (bijectors.sigmoid, _sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x)),
    ],
    ids=['softplus', 'sigmoid'],
)
def test_values_and_gradients_are_those_of_numpy(function, expected, slope, dtype, is_mapped):
    def mapped(x):
        return tf.vectorized_map(function, x) if is_mapped else function(x)

    x = tf.constant(_GRID, dtype)
    value, gradient = tfp.math.value_and_gradient(mapped, x)
    # TFP's formulas leave out exp(x) beside 1 below their cutoff, of -9 or -20
    rtol = 2e-4 if dtype == 'float32' else 4e-9
    np.testing.assert_allclose(value, expected(_GRID), rtol=rtol, atol=np.finfo(dtype).tiny)
    atol = np.finfo(dtype).eps  # of 1 less a sigmoid
    np.testing.assert_allclose(gradient, slope(_GRID), rtol=rtol, atol=atol)


@pytest.mark.parametrize('bijector', [tfb.Softplus(), tfb.Sigmoid(1.0, 3.0)], ids=lambda b: b.name)
def test_bijectors_take_them_while_it_lasts(bijector):
    x = tf.constant([-95.0, 95.0])

    def gradients():
        def forward(x):
            return bijector.forward(x) + bijector.forward_log_det_jacobian(x)

        return tfp.math.value_and_gradient(lambda x: tf.vectorized_map(forward, x), x)[1]

    assert np.isnan(gradients()).any()  # TFP's own; once it is not, this module may go
    with bijectors.mended():
        assert np.isfinite(gradients()).all()
    assert np.isnan(gradients()).any()


def test_models_in_raw_units_have_gradients():
    @tfd.JointDistributionCoroutineAutoBatched
    def joint():
        scale = yield tfd.HalfNormal(1e4, name='scale')
        share = yield tfd.Uniform(0.0, 1.0, name='share')
        yield tfd.Normal(tf.zeros(3), scale * (1 + share), name='y')

    model = from_distribution(joint.experimental_pin(y=tf.constant([3000.0, -2000.0, 4000.0])))
    parts = [tf.constant([1.0, 90.0, 3000.0]), tf.constant([0.0, 95.0, -95.0])]
    _, gradients = tfp.math.value_and_gradient(model.log_prob_fn, parts)
    for each in gradients:
        assert np.isfinite(each).all()
    # -3 / s + sum(y / (1 + share))^2 / s^3 - s / 1e8: so far out a scale is its unconstrained part
    scale, share = 3000.0, _sigmoid(-95.0)
    squares = 29e6 / (1 + share) ** 2
    expected = -3 / scale + squares / scale**3 - scale / 1e8
    np.testing.assert_allclose(gradients[0][2], expected, rtol=1e-4)


@pytest.mark.parametrize('input_output_cholesky', [False, True])
@pytest.mark.parametrize('is_mapped', [False, True])
def test_small_covariances_have_a_place(input_output_cholesky, is_mapped):
    """A draw of a Wishart distribution goes to the unconstrained space and back."""

    def wishart():
        scale = 1e-3 * np.eye(3, dtype=np.float32)
        return tfd.WishartTriL(5.0, scale, input_output_cholesky=input_output_cholesky)

    def joint():
        yield wishart() if is_mapped else tfd.JointDistributionCoroutine.Root(wishart())

    kinds = tfd.JointDistributionCoroutine, tfd.JointDistributionCoroutineAutoBatched
    model = from_distribution(kinds[is_mapped](joint))
    draws = model.prior(64, (0, 1))
    free = model.unconstrain(draws)
    assert np.isfinite(free).all()
    (again,) = model.constrain(free)
    np.testing.assert_allclose(again, draws[0], rtol=1e-3, atol=1e-9)
    value, gradient = tfp.math.value_and_gradient(lambda x: model.log_prob_fn(x), free[0])
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    # TFP's own: a draw has no place; once it has one, this repair may go
    assert np.isnan(wishart().experimental_default_event_space_bijector().inverse(draws[0])).any()
