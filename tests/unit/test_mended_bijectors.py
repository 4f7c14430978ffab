"""Bijectors of TFP that are mended while a model is evaluated."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability.python.bijectors import softplus as softplus_module

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


_POSITIVE = {
    'gamma': tfd.Gamma(2.0, 0.5),
    'exponential': tfd.Exponential(0.1),
    'half normal': tfd.HalfNormal(3.0),
    'weibull': tfd.Weibull(1.5, 2.0),
    'chi2': tfd.Chi2(3.0),
    'inverse gamma': tfd.InverseGamma(3.0, 2.0),
    'pareto': tfd.Pareto(3.0, 2.0),
    'sample': tfd.Sample(tfd.Gamma(2.0, 0.5), 3),
    'independent': tfd.Independent(tfd.Gamma([2.0, 3.0], 0.5), 1),
}


@pytest.mark.parametrize('label', _POSITIVE)
def test_positive_parts_are_logarithms(label):
    """The space is the same, and so is the density, with the Jacobian of the logarithm."""
    distribution = _POSITIVE[label]
    plain, model = (from_distribution(distribution, takes_logs=on) for on in (False, True))
    draws = distribution.sample(6, seed=(0, 1))
    (free,) = model.unconstrain([draws])
    offset = 2.0 if label == 'pareto' else 0.0
    sign = -1.0 if label == 'inverse gamma' else 1.0
    np.testing.assert_allclose(free, sign * np.log(draws - offset), rtol=1e-4, atol=1e-5)
    (again,) = model.constrain([free])
    np.testing.assert_allclose(again, draws, rtol=1e-5)
    jacobian = np.log(np.abs(draws - offset if sign > 0 else draws)).reshape([6, -1]).sum(axis=-1)
    expected = np.asarray(distribution.log_prob(draws)) + jacobian
    np.testing.assert_allclose(model.log_prob_fn(free), expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(plain.unconstrain([draws])[0], free)


@pytest.mark.parametrize(
    'distribution',
    [
        tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Softplus()),
        tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Chain([tfb.Exp(), tfb.Softplus()])),
        tfd.Beta(2.0, 3.0),
        tfd.Normal(0.0, 1.0),
        tfd.LogNormal(0.0, 1.0),
        tfd.Dirichlet([1.0, 2.0]),
    ],
    ids=['of the user', 'chain of the user', 'beta', 'normal', 'log-normal', 'dirichlet'],
)
def test_other_parts_keep_their_bijector(distribution):
    draws = distribution.sample(6, seed=(0, 1))
    plain, model = (from_distribution(distribution, takes_logs=on) for on in (False, True))
    for one, other in zip(plain.unconstrain([draws]), model.unconstrain([draws]), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize('kind', ['', 'AutoBatched'])
def test_positive_parts_of_joint_distributions_are_logarithms(kind):
    """Whatever other parts they depend on."""

    def joint():
        rate = yield tfd.JointDistributionCoroutine.Root(tfd.Gamma(2.0, 0.5, name='rate'))
        yield tfd.Exponential(rate, name='time')

    model = from_distribution(
        getattr(tfd, f'JointDistributionCoroutine{kind}')(joint), takes_logs=True
    )
    parts = model.prior(5, (0, 1))
    free = model.unconstrain(parts)
    for one, other in zip(free, parts, strict=True):
        np.testing.assert_allclose(one, np.log(other), rtol=1e-5, atol=1e-6)
    expected = tfd.Gamma(2.0, 0.5).log_prob(parts[0]) + tfd.Exponential(parts[0]).log_prob(parts[1])
    np.testing.assert_allclose(
        model.log_prob_fn(*free), expected + free[0] + free[1], rtol=1e-4, atol=1e-4
    )


_EYE = np.diag([1.0, 2.0, 0.5])
_CURVED = {
    'lkj': tfd.LKJ(3, tf.constant(1.5, tf.float64)),
    'lkj, factor': tfd.LKJ(3, tf.constant(1.5, tf.float64), input_output_cholesky=True),
    'cholesky lkj': tfd.CholeskyLKJ(3, tf.constant(1.5, tf.float64)),
    'wishart': tfd.WishartTriL(tf.constant(5.0, tf.float64), _EYE),
    'wishart, factor': tfd.WishartTriL(
        tf.constant(5.0, tf.float64), _EYE, input_output_cholesky=True
    ),
    'von mises-fisher': tfd.VonMisesFisher(tf.constant([0.0, 0.6, -0.8], tf.float64), 2.0),
    'power spherical': tfd.PowerSpherical(tf.constant([0.0, 0.6, -0.8], tf.float64), 2.0),
    'sphere': tfd.SphericalUniform(3, dtype=tf.float64),
}


def _entries(label, draw):
    """That the density is of: of factors of a matrix those of the matrix."""
    if draw.shape.rank == 1:
        return draw
    if 'factor' in label:
        draw = tf.linalg.matmul(draw, draw, transpose_b=True)
    rows, columns = np.tril_indices(3, -1 if 'lkj' in label else 0)
    return tf.gather_nd(draw, np.stack([rows, columns], axis=-1))


@pytest.mark.parametrize('label', _CURVED)
def test_densities_count_the_volume_that_they_are_of(label):
    """By the derivatives of the entries: half the log-determinant of J^T J."""
    distribution = _CURVED[label]
    model = from_distribution(distribution, takes_logs=True)
    draws = distribution.sample(4, seed=(0, 1))
    (free,) = model.unconstrain([draws])
    (again,) = model.constrain([free])
    np.testing.assert_allclose(again, draws, rtol=1e-5, atol=1e-6)
    values = model.log_prob_fn(free)
    for x, draw, value in zip(free, draws, values, strict=True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            entries = _entries(label, model.constrain([x[tf.newaxis]])[0][0])
        jacobian = tape.jacobian(entries, x).numpy()
        volume = np.linalg.slogdet(jacobian.T @ jacobian)[1] / 2
        np.testing.assert_allclose(value, distribution.log_prob(draw) + volume, rtol=1e-5)


def test_two_threads_leave_tfp_as_it_was():
    """The second to enter must not put back what the first has set."""
    before = softplus_module._stable_grad_softplus
    first_is_inside, second_began, first_has_left = (threading.Event() for _ in range(3))

    def first():
        with bijectors.mended():
            first_is_inside.set()
            second_began.wait(10)
            # without a lock the second is inside before the first leaves
            time.sleep(0.2)
        first_has_left.set()

    def second():
        first_is_inside.wait(10)
        second_began.set()
        with bijectors.mended():
            first_has_left.wait(10)

    threads = [threading.Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert softplus_module._stable_grad_softplus is before
