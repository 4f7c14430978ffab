"""Densities against slow twins, their gradients against finite differences, and known moments."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import targets
from experiments.targets import gaussian, hard, logistic_regression, stochastic_volatility
from experiments.targets.posteriors import POSTERIORS, SAME_IN_OTHER_COORDINATES

tfb, tfd = tfp.bijectors, tfp.distributions


def _gradient(log_prob, q):
    with tf.GradientTape() as tape:
        tape.watch(q)
        value = log_prob(q)
    return tape.gradient(value, q)


def _finite_differences(log_prob, q, step=1e-5):
    steps = step * tf.eye(q.shape[-1], dtype=q.dtype)
    return (log_prob(q + steps) - log_prob(q - steps)) / (2 * step)


def _slow_stochastic_volatility(y):
    """The model in TFP's words: one distribution a line, one chain at a time."""
    to_phi = tfb.Chain([tfb.Shift(np.float64(-1)), tfb.Scale(np.float64(2)), tfb.Sigmoid()])

    def log_prob(q):
        h, x, mu, s = q[:-3], q[-3], q[-2], q[-1]
        phi, sigma = to_phi.forward(x), tfb.Softplus().forward(s)
        prior = (
            to_phi.inverse_log_det_jacobian(phi, 0) * -1
            + tfd.Beta(np.float64(20), np.float64(1.5)).log_prob((phi + 1) / 2)
            - np.log(2.0)
            + tfd.Cauchy(np.float64(0), np.float64(2)).log_prob(mu)
            + tfd.HalfCauchy(np.float64(0), np.float64(1)).log_prob(sigma)
            + tfb.Softplus().forward_log_det_jacobian(s, 0)
        )
        path = tfd.Normal(np.float64(0), sigma / tf.sqrt(1 - phi**2)).log_prob(h[0])
        for previous, current in itertools.pairwise(h):
            path += tfd.Normal(phi * previous, sigma).log_prob(current)
        data = tfd.Normal(np.float64(0), tf.exp((mu + h) / 2)).log_prob(y)
        return prior + path + tf.reduce_sum(data)

    return log_prob


@pytest.fixture
def volatility_positions(rng):
    q = rng.normal(size=[3, 23])
    q[:, -3:] = [[3.0, -0.5, -0.5], [-1.0, 2.0, 1.5], [6.0, -4.0, -3.0]]
    return tf.constant(q)


def test_stochastic_volatility_is_its_slow_twin(volatility_positions):
    y = stochastic_volatility.returns(20)
    fast = stochastic_volatility.make_log_prob(y)
    slow = _slow_stochastic_volatility(y)
    np.testing.assert_allclose(
        fast(volatility_positions), [slow(q) for q in volatility_positions], rtol=1e-12
    )


def test_stochastic_volatility_gradient(volatility_positions):
    log_prob = stochastic_volatility.make_log_prob(stochastic_volatility.returns(20))
    for q in volatility_positions:
        expected = _finite_differences(log_prob, q)
        np.testing.assert_allclose(_gradient(log_prob, q), expected, rtol=1e-6, atol=1e-6)


def test_stochastic_volatility_curvature_by_forward_mode(volatility_positions):
    log_prob = stochastic_volatility.make_log_prob(stochastic_volatility.returns(20))
    q, x = volatility_positions[0], volatility_positions[1]
    with tf.autodiff.ForwardAccumulator(q, x) as accumulator:
        score = _gradient(log_prob, q)
    step = 1e-6
    expected = (_gradient(log_prob, q + step * x) - _gradient(log_prob, q - step * x)) / (2 * step)
    np.testing.assert_allclose(accumulator.jvp(score), expected, rtol=1e-6, atol=1e-6)


def test_stochastic_volatility_any_batch_and_xla(volatility_positions):
    log_prob = stochastic_volatility.make_log_prob(stochastic_volatility.returns(20))
    expected = log_prob(volatility_positions).numpy()
    batched = tf.broadcast_to(volatility_positions, [2, 3, 23])
    np.testing.assert_allclose(log_prob(batched), np.stack([expected] * 2), rtol=1e-12)
    compiled = tf.function(log_prob, jit_compile=True, autograph=False)(volatility_positions)
    np.testing.assert_allclose(compiled, expected, rtol=1e-12)


def test_stochastic_volatility_returns():
    y = stochastic_volatility.returns()
    assert y.shape == (2516,)
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1.0994369], atol=1e-7)
    with pytest.raises(ValueError, match=r'num_points must lie in \[2, 2516\]; got 1'):
        stochastic_volatility.returns(1)


def test_stochastic_volatility_starts_like_its_prior_path(stateless_seed):
    target = targets.make('stochastic_volatility')
    q = target.initial_state(40, stateless_seed())
    assert q.shape == [40, target.event_size]
    phi, _, sigma = stochastic_volatility.constrain(q[:, -3:])
    innovations = (q[:, 1:2516] - phi[:, tf.newaxis] * q[:, :2515]) / sigma[:, tf.newaxis]
    # 40 x 2515 standard normals
    np.testing.assert_allclose(tf.reduce_mean(innovations**2), 1, atol=4 * np.sqrt(2 / 100_600))
    np.testing.assert_allclose(
        tf.reduce_mean(q[:, -3:], axis=0), [3, -0.5, -0.5], atol=4 * 0.5 / np.sqrt(40)
    )
    assert np.isfinite(target.log_prob(q)).all()


def test_logistic_regression_is_its_slow_twin(rng):
    design, labels = rng.normal(size=[30, 4]), rng.integers(2, size=30).astype(np.float64)
    fast = logistic_regression.make_log_prob(design, labels)
    q = tf.constant(rng.normal(size=[5, 4]))
    slow = tfd.Bernoulli(logits=q @ design.T, dtype=tf.float64).log_prob(labels)
    expected = tf.reduce_sum(slow, axis=-1) - tf.reduce_sum(q**2, axis=-1) / 2
    np.testing.assert_allclose(fast(q), expected, rtol=1e-12)
    for start in (q[0], 0 * q[0]):
        expected = _finite_differences(fast, start)
        np.testing.assert_allclose(_gradient(fast, start), expected, rtol=1e-6, atol=1e-6)


def test_logistic_regression_survives_huge_logits():
    log_prob = logistic_regression.make_log_prob(np.array([[1e4], [-1e4]]), np.array([1.0, 1.0]))
    q = tf.constant([[1.0], [-1.0]])
    np.testing.assert_allclose(log_prob(q), [-1e4 - 0.5] * 2)
    assert np.isfinite(_gradient(log_prob, q)).all()


@pytest.mark.parametrize('kind', ['iid', 'anisotropic', 'rotated', 'neal', 'process'])
def test_gaussian_hessian_has_the_stated_moments(kind):
    target = gaussian.gaussian(kind, num_dims=6, condition_number=100.0)
    gradient = _gradient(target.log_prob, tf.eye(6, dtype=tf.float64))
    covariance = np.linalg.inv(-gradient.numpy())
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), target.reference.sd, rtol=1e-6)
    if kind in ('anisotropic', 'rotated'):
        np.testing.assert_allclose(np.linalg.cond(covariance), 100.0)
    if kind == 'neal':
        np.testing.assert_allclose(target.reference.sd, np.arange(1, 7) / 6)


def test_chains_start_where_they_are_told(stateless_seed):
    target = targets.make('gaussian', kind='iid', num_dims=100, initial_scale=2.0)
    start = target.initial_state(100, stateless_seed())
    # 10,000 normals: the relative error of their standard deviation is 1 / sqrt(20,000)
    np.testing.assert_allclose(np.std(start), 2.0, rtol=4 / np.sqrt(20_000))


def test_banana_moments(rng):
    target = targets.make('banana', bend=0.1)
    z = rng.normal(size=[200_000, 2])
    first = 10 * z[:, 0]
    q = np.stack([first, z[:, 1] - 0.1 * (first**2 - 100)], axis=-1)
    np.testing.assert_allclose(target.log_prob(tf.constant(q)), -(z**2).sum(axis=-1) / 2)
    np.testing.assert_allclose(q.std(axis=0), target.reference.sd, rtol=0.03)


_ZERO, _ONE = np.float64(0), np.float64(1)


def _slow_funnel(q, centred):
    """The distributions of v and of x given v, one after the other."""
    v, x = q[:, 0], q[:, 1:]
    scale = tf.exp(v / 2)[:, tf.newaxis] if centred else _ONE
    return tfd.Normal(_ZERO, 3 * _ONE).log_prob(v) + tf.reduce_sum(
        tfd.Normal(_ZERO, scale * tf.ones_like(x)).log_prob(x), axis=-1
    )


def _slow_mixture(q):
    return tfd.Mixture(
        tfd.Categorical(probs=[0.8 * _ONE, 0.2 * _ONE]),
        [tfd.MultivariateNormalDiag(np.array([m, 0.0, 0.0])) for m in (-5.0, 5.0)],
    ).log_prob(q)


def _slow_student(q):
    return tfd.MultivariateStudentTLinearOperator(
        3 * _ONE, np.zeros(3), tf.linalg.LinearOperatorIdentity(3, dtype=tf.float64)
    ).log_prob(q)


def _slow_walls(q):
    return tf.reduce_sum(tfd.HalfNormal(_ONE).log_prob(q), axis=-1)


@pytest.mark.parametrize(
    ('target', 'slow'),
    [
        (hard.funnel(3), lambda q: _slow_funnel(q, centred=True)),
        (hard.funnel(3, centred=False), lambda q: _slow_funnel(q, centred=False)),
        (hard.heavy_tailed(3), _slow_student),
        (hard.two_modes(3), _slow_mixture),
        (hard.walled(3), _slow_walls),
    ],
    ids=['funnel', 'funnel not centred', 'heavy tails', 'two modes', 'wall'],
)
def test_hard_target_is_its_slow_twin(target, slow, rng):
    q = tf.constant(np.abs(rng.normal(size=[5, 3])) * 3)
    differences = target.log_prob(q) - slow(q)
    np.testing.assert_allclose(differences, np.full(5, differences[0]), rtol=1e-9, atol=1e-9)


def test_walls_are_walls():
    assert hard.walled(3).log_prob(tf.constant([1.0, -0.1, 2.0])) == -np.inf


@pytest.mark.parametrize('name', ['funnel', 'heavy_tailed', 'two_modes', 'walled'])
def test_first_density_has_the_first_moments(name):
    x = np.linspace(-2000, 2000, 4_000_001)
    density, moments = hard.first_density(name)(x), targets.make(name).reference
    mass, mean, square = (np.trapezoid(x**power * density, x) for power in range(3))
    # the tails of t with three degrees of freedom beyond 2000 hold a thousandth of its variance
    found = mass, mean, np.sqrt(square - mean**2)
    np.testing.assert_allclose(found, (1, moments.mean[0], moments.sd[0]), rtol=2e-3, atol=1e-6)


def test_dates_of_returns_are_those_of_known_days():
    returns = stochastic_volatility.returns()
    dates = stochastic_volatility.dates(len(returns))
    # the largest fall, and the fall after the downgrade of August 2011
    known = {np.argmin(returns): '2020-03-16', np.argmin(returns[:500]): '2011-08-08'}
    for index, day in known.items():
        assert abs(dates[index] - np.datetime64(day, 's')) <= np.timedelta64(4, 'D')
    assert dates[-1] == np.datetime64('2020-06-24', 's')
    np.testing.assert_array_equal(stochastic_volatility.dates(10), dates[-10:])


@pytest.mark.parametrize('label', SAME_IN_OTHER_COORDINATES)
def test_posteriors_in_other_coordinates_are_the_same(label, rng):
    """Their log-densities differ by the volume of the map, here by finite differences."""
    make, bring = SAME_IN_OTHER_COORDINATES[label]
    other, own = make(), POSTERIORS[label]()
    unit, step = np.eye(other.event_size), 1e-6
    for q in rng.normal(size=[3, other.event_size]) / 2:
        jacobian = (bring(q + step * unit) - bring(q - step * unit)) / (2 * step)
        volume = np.linalg.slogdet(jacobian)[1]
        difference = other.log_prob(tf.constant(q)) - own.log_prob(tf.constant(bring(q)))
        assert float(difference) == pytest.approx(volume, abs=1e-6)
