"""Parts of joint distributions in coordinates of their own: where, which, and the same density."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support.schools import EFFECTS, ERRORS, schools
from tfp_adaptive.sampling.targets import information
from tfp_adaptive.sampling.targets.dependence import places_that_others_change
from tfp_adaptive.sampling.targets.distributions import from_distribution
from tfp_adaptive.sampling.targets.information import in_own_coordinates
from tfp_adaptive.sampling.targets.location_scale import Information
from tfp_adaptive.sampling.targets.own_coordinates import OwnCoordinates
from tfp_adaptive.tuning.arrive import arrive

tfd = tfp.distributions
ROOT = tfd.JointDistributionCoroutine.Root


@tfd.JointDistributionCoroutineAutoBatched
def families():
    mu = yield tfd.Normal(0.0, 1.0, name='mu')
    tau = yield tfd.HalfNormal(2.0, name='tau')
    yield tfd.Sample(tfd.Normal(mu, tau), [2, 3], name='repeated')
    yield tfd.StudentT(5.0, mu * tf.ones(3), tau, name='heavy')
    yield tfd.LogNormal(mu, tau, name='positive')
    yield tfd.Sample(tfd.LogitNormal(mu, tau), 2, name='share')
    yield tfd.Sample(tfd.MultivariateNormalDiag(tf.stack([mu, 1.0]), [1.0, 2.0]), 3, name='pairs')
    yield tfd.Independent(tfd.Laplace(mu, tau * tf.ones(2)), 1, name='sharp')
    yield tfd.MultivariateNormalDiag(scale_diag=tau * tf.ones(2), name='around_zero')


@tfd.JointDistributionCoroutine
def with_root():
    mu = yield ROOT(tfd.Normal(0.0, 1.0, name='mu'))
    tau = yield ROOT(tfd.HalfNormal(2.0, name='tau'))
    degrees = yield ROOT(tfd.Gamma(20.0, 4.0, name='degrees'))
    levels = tfd.Normal(mu[..., tf.newaxis], tau[..., tf.newaxis] * tf.ones(4))
    yield tfd.Independent(levels, 1, name='levels')
    yield tfd.Sample(tfd.Normal(mu, tau), 3, name='others')
    yield tfd.Sample(tfd.StudentT(degrees, mu, tau), [2, 3], name='heavy')
    many = tfd.StudentT(degrees[..., tf.newaxis] + [1.0, 2.0], mu[..., tf.newaxis], 1.0)
    yield tfd.Sample(tfd.Independent(many, 1), 2, name='unlike')
    factor = tau[..., tf.newaxis, tf.newaxis] * tf.constant([[1.0, 0.0], [-2.0, 1.0]])
    pairs = tfd.MultivariateNormalTriL(mu[..., tf.newaxis] * tf.ones(2), factor)
    yield tfd.Sample(pairs, 3, name='pairs')


NAMED = tfd.JointDistributionNamedAutoBatched(
    {
        # not in the order of the names
        'zeta': tfd.Normal(0.0, 1.0),
        'tau': lambda zeta: tfd.LogNormal(zeta, 1.0),
        'effects': lambda zeta, tau: tfd.Sample(tfd.Normal(zeta, tau), 4),
    }
)
SEQUENTIAL = tfd.JointDistributionSequentialAutoBatched(
    [
        tfd.HalfNormal(1.0),
        lambda tau: tfd.Sample(tfd.Normal(0.0, tau), 3),
        lambda x, tau: tfd.Normal(x, 1.0),
    ]
).experimental_pin([None, None, np.ones(3, 'f')])


@tfd.JointDistributionCoroutineAutoBatched
def nested():
    inner = tfd.JointDistributionNamedAutoBatched({'tau': tfd.LogNormal(0.0, 1.0)})
    scales = yield inner
    a = yield tfd.Normal(0.0, scales['tau'], name='a')
    yield tfd.Normal(a, scales['tau'], name='b')


@tfd.JointDistributionCoroutineAutoBatched
def vectors():
    mu = yield tfd.Normal(tf.zeros(2), 1.0, name='mu')
    scale = yield tfd.Sample(tfd.HalfNormal(1.0), 2, name='scale')
    factor = yield tfd.CholeskyLKJ(2, 2.0, name='factor')
    yield tfd.Sample(
        tfd.MultivariateNormalTriL(mu, scale[:, tf.newaxis] * factor), [2, 3], name='slopes'
    )
    covariances = scale[0] * tf.constant([[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.9], [-0.9, 1.0]]])
    unlike = tfd.MultivariateNormalFullCovariance(mu, covariances)
    yield tfd.Independent(unlike, 1, name='unlike')
    factor = tf.linalg.LinearOperatorLowerTriangular(scale[1] * tf.constant([[1.0, 0], [3, 0.5]]))
    yield tfd.MultivariateNormalLinearOperator(scale=factor, name='around_zero')
    factor = tf.constant([[-1.0, 0.0], [0.5, 2.0]])
    shifted = tfd.MultivariateNormalTriL(mu + tf.zeros([3, 1]), factor)
    yield tfd.Sample(tfd.Independent(shifted, 1), 2, name='sets')
    unlike = tfd.StudentT(tf.constant([4.0, 5.0]), tf.zeros([3, 2]), scale[0])
    yield tfd.Sample(tfd.Independent(unlike, 2), 2, name='heavy_sets')


MODELS = {
    'nested': (nested, {1, 2}),
    'families': (families, {2, 3, 4, 5, 6, 7, 8}),
    'with a root': (with_root, {3, 4, 5, 6, 7}),
    'named': (NAMED, {0, 1}),
    'sequential': (SEQUENTIAL, {1}),
    'vectors': (vectors, {3, 4, 5, 6, 7}),
}
each = pytest.mark.parametrize('name', MODELS)


def places(target):
    return places_that_others_change(target, from_distribution(target))


@each
def test_parts_that_others_change(name):
    target, expected = MODELS[name]
    found = places(target)
    assert {place for place in found if place is not None} == expected


def in_coordinates(target, seed):
    """The model with coordinates for random precisions and centres."""
    rng = np.random.default_rng(seed)
    shapes = from_distribution(target).event_shapes
    where = places(target)
    informations = [
        Information(
            tf.constant(rng.gamma(0.5, 2.0, shapes[place]), tf.float32),
            tf.constant(rng.normal(size=shapes[place]), tf.float32),
        )
        for place in where
        if place is not None
    ]
    return from_distribution(target, OwnCoordinates(where, informations))


@each
def test_density_is_that_of_the_model(name, seed):
    """The twin: the density of the model at the same place, and a Jacobian by differentiation."""
    target, _ = MODELS[name]
    plain, own = from_distribution(target), in_coordinates(target, seed)
    assert own.event_shapes == plain.event_shapes
    shapes, sizes = own.event_shapes, [int(np.prod(shape)) for shape in own.event_shapes]

    def split(flat):
        pieces = tf.split(flat, sizes, axis=-1)
        return [tf.reshape(x, [*flat.shape[:-1], *s]) for x, s in zip(pieces, shapes, strict=True)]

    def there(flat):
        """Coordinates of the plain model."""
        parts = plain.unconstrain(own.constrain(split(flat)))
        return tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)

    flat = 0.7 * tf.random.stateless_normal([3, sum(sizes)], [seed, 0])
    found = own.log_prob_fn(*split(flat))
    assert found.shape == [3]
    for chain, value in zip(flat, found, strict=True):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(chain)
            moved = there(chain)
        jacobian = tape.jacobian(moved, chain, experimental_use_pfor=False)
        log_det = np.linalg.slogdet(np.asarray(jacobian, float))[1]
        expected = plain.log_prob_fn(*split(moved)) + log_det
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-5)
    back = own.unconstrain(own.constrain(split(flat)))
    for part, again in zip(split(flat), back, strict=True):
        np.testing.assert_allclose(again, part, rtol=2e-3, atol=2e-3)


@each
def test_xla_and_second_derivatives(name, seed):
    target, _ = MODELS[name]
    own = in_coordinates(target, seed)
    parts = [tf.random.stateless_normal([2, *shape], [seed, 1]) for shape in own.event_shapes]

    def curvatures(*parts):
        with tf.GradientTape() as outer:
            outer.watch(parts)
            with tf.GradientTape() as inner:
                inner.watch(parts)
                value = own.log_prob_fn(*parts)
            first = inner.gradient(value, parts)
            total = sum(tf.reduce_sum(part) for part in first)
        return outer.gradient(total, parts, unconnected_gradients='zero')

    plain = tf.function(curvatures, autograph=False)(*parts)
    compiled = tf.function(curvatures, autograph=False, jit_compile=True)(*parts)
    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


def test_nothing_to_do():
    @tfd.JointDistributionCoroutineAutoBatched
    def constants():
        x = yield tfd.Normal(1.0, 2.0, name='x')
        yield tfd.Gamma(1.0, tf.exp(x), name='y')

    @tfd.JointDistributionCoroutineAutoBatched
    def chain():
        s = yield tfd.HalfNormal(1.0, name='s')
        yield tfd.MarkovChain(tfd.Normal(0.0, s), lambda _, h: tfd.Normal(h, s), 5, name='h')

    @tfd.JointDistributionCoroutineAutoBatched
    def nested():
        inner = {'tau': tfd.LogNormal(0.0, 1.0), 'other': tfd.Normal(0.0, 1.0)}
        scales = yield tfd.JointDistributionNamedAutoBatched(inner, name='scales')
        yield tfd.Normal(0.0, scales['tau'], name='a')

    alone = tfd.JointDistributionNamedAutoBatched(
        {
            'a': tfd.JointDistributionNamedAutoBatched({'tau': tfd.LogNormal(0.0, 1.0)}),
            'x': lambda a: tfd.Normal(0.0, a['tau']),
        }
    )

    class Folded(tfd.Normal):
        """With a support of its own."""

    @tfd.JointDistributionCoroutineAutoBatched
    def folded():
        s = yield tfd.HalfNormal(1.0, name='s')
        yield Folded(0.0, s, name='x')

    @tfd.JointDistributionCoroutineAutoBatched
    def long():
        s = yield tfd.HalfNormal(1.0, name='s')
        yield tfd.MultivariateNormalTriL(scale_tril=s * tf.eye(9), name='x')

    @tfd.JointDistributionCoroutineAutoBatched
    def full():
        s = yield tfd.HalfNormal(1.0, name='s')
        factor = tf.linalg.LinearOperatorFullMatrix(s * tf.eye(2))
        yield tfd.MultivariateNormalLinearOperator(scale=factor, name='x')

    for target in (constants, chain, nested, alone, folded, long, full, tfd.Normal(0.0, 1.0)):
        model = from_distribution(target)
        assert in_own_coordinates(target, model) is model


def informations_of(target):
    """What `in_own_coordinates` has found, of every part that it changes."""
    return in_own_coordinates(target, from_distribution(target, takes_logs=True)).informations


def test_what_eight_schools_say():
    """A normal likelihood: its precisions and means."""
    [found] = informations_of(schools.experimental_pin(effect=EFFECTS))
    np.testing.assert_allclose(found.precision * ERRORS**2, 1.0, rtol=0.05)
    assert np.abs((found.centre - EFFECTS) / ERRORS).max() < 0.1


@pytest.mark.parametrize('dtype', [tf.float32, tf.float64])
@pytest.mark.parametrize('family', [tfd.Normal, tfd.Laplace, tfd.Logistic, 'student'])
def test_what_the_data_say_whatever_the_prior(family, dtype):
    """It is the curvature without that of the prior, which is no constant but for the normal."""
    y, errors = np.linspace(-3.0, 3.0, 6), np.geomspace(0.2, 2.0, 6)
    prior = (
        functools.partial(tfd.StudentT, tf.constant(5.0, dtype)) if family == 'student' else family
    )

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        tau = yield tfd.HalfNormal(tf.constant(2.0, dtype), name='tau')
        effects = yield tfd.Sample(prior(tf.constant(0.0, dtype), tau), 6, name='effects')
        yield tfd.Normal(effects, tf.constant(errors, dtype), name='y')

    [found] = informations_of(model.experimental_pin(y=tf.constant(y, dtype)))
    assert found.precision.dtype == dtype
    # a coordinate near the kink of a Laplace distribution is told by the difference across it
    some = np.abs(y) > 2 * errors if family is tfd.Laplace else np.full(6, True)
    np.testing.assert_allclose((found.precision * errors**2)[some], 1.0, rtol=0.1)
    assert np.abs(((found.centre - y) / errors)[some]).max() < 0.1


@pytest.mark.parametrize('is_vector', [False, True])
def test_scales_of_either_sign(is_vector):
    """A loading: the scale of a part is its absolute value."""
    y = np.array([1.0, -1.0, 2.0, 0.5], 'f')

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        b = yield tfd.Normal(0.0, 1.0, name='b')
        if is_vector:
            x = yield tfd.MultivariateNormalTriL(scale_tril=b * tf.eye(4), name='x')
        else:
            x = yield tfd.MultivariateNormalDiag(scale_diag=b * tf.ones(4), name='x')
        yield tfd.Normal(x, 0.05, name='y')

    [found] = informations_of(model.experimental_pin(y=y))
    np.testing.assert_allclose(found.precision, 400, rtol=0.05)
    np.testing.assert_allclose(found.centre, y, atol=0.01)


def test_a_funnel_on_the_way_changes_nothing(monkeypatch):
    """Places are the ends of descents, also of those that are taken for a funnel's."""

    @tfd.JointDistributionCoroutineAutoBatched
    def joint():
        tau = yield tfd.HalfNormal(1.0, name='tau')
        noise = yield tfd.HalfNormal(1.0, name='noise')
        z = yield tfd.Sample(tfd.Normal(0.0, tau), 3, name='z')
        yield tfd.Normal(z, noise * tf.ones([20, 3]), name='y')

    y = np.array([-1.0, 0.5, 1.0]) + 0.1 * np.random.default_rng(0).normal(size=[20, 3])
    target = joint.experimental_pin(y=y.astype(np.float32))
    [expected] = informations_of(target)
    np.testing.assert_allclose(expected.precision, 20 / 0.1**2, rtol=0.5)

    def in_funnel(density, position, *others):
        found = arrive(density, position, *others)
        return found._replace(is_funnel=tf.constant(True), position=position)

    monkeypatch.setattr(information, 'arrive', in_funnel)
    [found] = informations_of(target)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_two_levels_say():
    """Of a school, its classes say as much as they know: 1 / (s^2 + e^2) each."""
    num_classes, s, e = 4, 0.7, 0.3

    @tfd.JointDistributionCoroutineAutoBatched
    def nested():
        tau = yield tfd.HalfNormal(5.0, name='tau')
        school = yield tfd.Sample(tfd.Normal(0.0, tau), 3, name='school')
        classes = yield tfd.Normal(
            tf.repeat(school, num_classes, axis=-1), s * tf.ones(3 * num_classes), name='classes'
        )
        yield tfd.Normal(classes, e, name='y')

    y = np.repeat([-2.0, 0.5, 3.0], num_classes).astype('f')
    of_schools, of_classes = informations_of(nested.experimental_pin(y=y))
    expected = num_classes / (s**2 + e**2)
    np.testing.assert_allclose(of_schools.precision, expected, rtol=0.1)
    np.testing.assert_allclose(of_classes.precision, e**-2, rtol=0.1)
    assert np.abs(of_schools.centre - [-2.0, 0.5, 3.0]).max() < 2 * expected**-0.5
    # from coordinates that are not centred the data seem to say 3.7 times as much
    assert num_classes / e**2 > 3.7 * expected


def test_what_was_found_is_taken_again():
    target = schools.experimental_pin(effect=EFFECTS)
    model = from_distribution(target, takes_logs=True)
    assert information.as_arrays(model) == []
    found = in_own_coordinates(target, model)
    arrays = information.as_arrays(found)
    # those of a run in another dtype are taken as well: it is what is refused, and not they
    again = in_own_coordinates(target, model, [np.asarray(each, float) for each in arrays])
    assert again.num_gradients == found.num_gradients > 0
    parts = [tf.ones([3, *shape]) for shape in model.event_shapes]
    np.testing.assert_array_equal(found.log_prob_fn(*parts), again.log_prob_fn(*parts))
    arrays[1] = arrays[1] + 1
    moved = in_own_coordinates(target, model, arrays)
    assert np.all(moved.log_prob_fn(*parts) != found.log_prob_fn(*parts))


def test_coordinates_that_cannot_be_found(monkeypatch):
    target = SEQUENTIAL
    model = from_distribution(target, takes_logs=True)

    def fails(*_):
        raise ValueError('no start')

    with monkeypatch.context() as patch:
        patch.setattr(information, 'dispersed', fails)
        with pytest.warns(UserWarning, match=r'cannot be found \(no start\)'):
            assert in_own_coordinates(target, model) is model

    # a density that is another one is not taken
    def double(*args):
        found = from_distribution(*args)
        return dataclasses.replace(found, log_prob_fn=lambda *p: 2 * found.log_prob_fn(*p))

    monkeypatch.setattr(information, 'from_distribution', double)
    with pytest.warns(UserWarning, match='the density is another one'):
        assert in_own_coordinates(target, model) is model


@pytest.mark.parametrize('location', [0.0, 2e4])
def test_prior_of_coordinates_where_the_scale_is_below_rounding(location):
    """At a location of 20,000, float32 tells nothing smaller than 0.002 apart."""

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mu = yield tfd.Normal(location, 5.0, name='mu')
        tau = yield tfd.LogNormal(0.0, 5.0, name='tau')
        yield tfd.Sample(tfd.Normal(mu, tau), 4, name='x')
        factor = tau * tf.linalg.band_part(tf.ones([3, 3]), -1, 0)
        yield tfd.MultivariateNormalTriL(mu * tf.ones(3), factor, name='v')

    informations = [
        Information(tf.fill([size], precision), tf.fill([size], location))
        for size, precision in ((4, 0.0), (3, 1e-6))
    ]
    own = from_distribution(model, OwnCoordinates([None, None, 2, 3], informations))
    fixed = [tf.fill([2], location), tf.fill([2], -15.0)]
    near = own.log_prob_fn(*fixed, tf.zeros([2, 4]), tf.zeros([2, 3]))
    far = own.log_prob_fn(*fixed, tf.fill([2, 4], 3.0), tf.fill([2, 3], 3.0))
    np.testing.assert_allclose(near - far, 7 * 4.5, rtol=1e-3)
