"""Targets of `sample`, brought to one form: the density of free parts, and the way back."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.sampling.targets.callables import from_callable
from tfp_adaptive.sampling.targets.chains_apart import check_chains_apart
from tfp_adaptive.sampling.targets.density import Density
from tfp_adaptive.sampling.targets.distributions import from_distribution, is_distribution

tfb, tfd = tfp.bijectors, tfp.distributions

Y = tf.constant([1.0, 2.0, 3.0])


@tfd.JointDistributionCoroutineAutoBatched
def constrained():
    """A scale, a point of the simplex, and a bound that depends on the scale."""
    scale = yield tfd.HalfNormal(5.0, name='scale')
    weights = yield tfd.Dirichlet([1.0, 2.0, 3.0], name='weights')
    bound = yield tfd.Uniform(0.0, scale, name='bound')
    effects = yield tfd.Sample(tfd.Normal(bound, scale), 3, name='effects')
    yield tfd.Normal(effects + weights, 1.0, name='y')


def by_hand(scale, weights, bound, effects):
    """The density of `constrained` given Y, one distribution after the other, on free parts."""
    log_prob = 0.0

    def constrain(distribution, free, event_ndims=0):
        nonlocal log_prob
        bijector = distribution.experimental_default_event_space_bijector()
        value = bijector.forward(free)
        log_prob += distribution.log_prob(value)
        log_prob += bijector.forward_log_det_jacobian(free, event_ndims=event_ndims)
        return value

    scale = constrain(tfd.HalfNormal(5.0), scale)
    weights = constrain(tfd.Dirichlet([1.0, 2.0, 3.0]), weights, event_ndims=1)
    bound = constrain(tfd.Uniform(tf.zeros_like(scale), scale), bound)
    rest = tfd.Normal(bound[:, None], scale[:, None]).log_prob(effects)
    rest += tfd.Normal(effects + weights, 1.0).log_prob(Y)
    return log_prob + tf.reduce_sum(rest, axis=-1)


def normal_parts(model, num_chains, seed):
    return [
        tf.random.stateless_normal([num_chains, *shape], [seed, i], dtype=model.dtype)
        for i, shape in enumerate(model.event_shapes)
    ]


@pytest.fixture(scope='module')
def model():
    return from_distribution(constrained.experimental_pin(y=Y))


@pytest.mark.parametrize('jit', [None, False, True], ids=['eager', 'graph', 'xla'])
def test_joint_distribution_on_free_parts(model, jit, seed):
    parts = normal_parts(model, 5, seed)
    fn = model.log_prob_fn
    fn = fn if jit is None else tf.function(fn, jit_compile=jit, autograph=False)
    np.testing.assert_allclose(fn(*parts), by_hand(*parts), rtol=1e-5)


@pytest.mark.parametrize('is_one', [False, True])
def test_repeated_sets_of_bounded_numbers(is_one, seed):
    """TFP counts their Jacobian three times."""
    gammas = tfd.Independent(tfd.Gamma([2.0, 3.0], 1.0), 1)
    repeated = tfd.Sample(gammas, 3)
    target = repeated if is_one else tfd.JointDistributionSequentialAutoBatched([repeated])
    x = tf.random.stateless_normal([4, 3, 2], [seed, 0])
    expected = repeated.log_prob(tf.nn.softplus(x)) + tf.reduce_sum(tf.math.log_sigmoid(x), [1, 2])
    np.testing.assert_allclose(from_distribution(target).log_prob_fn(x), expected, rtol=1e-5)


@pytest.mark.parametrize('is_bounded', [False, True])
@pytest.mark.parametrize('num_chains', [1, 3, 4])
def test_repeated_sets_of_bounded_numbers_in_a_batch(is_bounded, num_chains, seed):
    """With parameters, and bounds, that another part decides for every chain."""

    @tfd.JointDistributionCoroutine
    def target():
        s = yield tfd.JointDistributionCoroutine.Root(tfd.LogNormal(0.0, 1.0, name='s'))
        top = s[..., tf.newaxis] * tf.ones(2)
        each = tfd.Uniform(0.0, top) if is_bounded else tfd.Gamma(2.0, top)
        yield tfd.Sample(tfd.Independent(each, 1), 3, name='x')

    u = tf.random.stateless_normal([num_chains], [seed, 0])
    x = tf.random.stateless_normal([num_chains, 3, 2], [seed, 1])
    s = tf.exp(u)[:, tf.newaxis, tf.newaxis]
    if is_bounded:
        values = tf.math.log_sigmoid(x) + tf.math.log_sigmoid(-x)
    else:
        values = tfd.Gamma(2.0, s).log_prob(tf.nn.softplus(x)) + tf.math.log_sigmoid(x)
    expected = tfd.Normal(0.0, 1.0).log_prob(u) + tf.reduce_sum(values, [1, 2])
    found = from_distribution(target).log_prob_fn(u, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_joint_distribution_says_what_it_is(model):
    assert model.names == ('scale', 'weights', 'bound', 'effects')
    assert model.event_shapes == ((), (2,), (), (3,))
    assert model.own_event_ranks == (0, 1, 0, 1)
    assert not model.is_prior
    assert model.is_vectorized


def test_constrained_parts_lie_in_the_support_and_come_back(model, seed):
    parts = normal_parts(model, 7, seed)
    scale, weights, bound, _ = own = model.constrain(parts)
    assert (scale.numpy() > 0).all()
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), np.ones(7), rtol=1e-5)
    assert (bound.numpy() < scale.numpy()).all()
    for part, again in zip(parts, model.unconstrain(own), strict=True):
        np.testing.assert_allclose(part, again, rtol=1e-3, atol=1e-4)


def test_jacobian_is_that_of_the_map_back(seed):
    """log|det J| by automatic differentiation of the free parts, one chain at a time."""
    joint = tfd.JointDistributionSequential(
        [tfd.LogNormal(0.0, 1.0), lambda m: tfd.WishartTriL(5.0, tf.eye(3, dtype=m.dtype))]
    )
    model = from_distribution(joint)
    assert model.event_shapes == ((), (6,))
    parts = normal_parts(model, 4, seed)
    lower = np.tril_indices(3)

    def flat(packed):
        location, factor = model.constrain([packed[0], packed[1:]])
        entries = tf.gather_nd(factor, np.stack(lower, axis=-1))
        return tf.concat([location[None], entries], axis=0)

    packed = tf.concat([parts[0][:, None], parts[1]], axis=1)
    with_jacobian = model.log_prob_fn(*parts)
    plain = joint.log_prob(tf.nest.pack_sequence_as(joint.dtype, model.constrain(parts)))
    for row, difference in zip(packed, with_jacobian - plain, strict=True):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(row)
            image = flat(row)
        _, log_det = np.linalg.slogdet(tape.jacobian(image, row, experimental_use_pfor=False))
        np.testing.assert_allclose(difference, log_det, rtol=1e-3, atol=1e-4)


def test_names_of_parts():
    sequential = tfd.JointDistributionSequential(
        [tfd.Normal(0.0, 1.0), tfd.HalfNormal(1.0), lambda tau, mu: tfd.Normal(mu, tau)]
    )
    assert from_distribution(sequential.experimental_pin(None, None, 1.0)).names == ('mu', 'tau')
    inner = tfd.JointDistributionNamed({'a': tfd.Normal(0.0, 1.0), 'b': tfd.HalfNormal(1.0)})
    outer = tfd.JointDistributionNamed(
        {'z': inner, 'y': lambda z: tfd.Normal(z['a'], z['b'])}
    ).experimental_pin(y=1.0)
    model = from_distribution(outer)
    assert model.names == ('z.a', 'z.b')
    free = [tf.zeros([2]), tf.zeros([2])]
    z = dict(zip('ab', model.constrain(free), strict=True))
    np.testing.assert_allclose(z['b'], tf.math.softplus(free[1]), rtol=1e-6)
    np.testing.assert_allclose(
        model.log_prob_fn(*free),
        outer.unnormalized_log_prob({'z': z}) + tf.math.log_sigmoid(free[1]),
        rtol=1e-5,
    )


class GymModel:
    """The attributes of an Inference Gym model, without the Inference Gym."""

    def __init__(self):
        self.dtype = {'rate': tf.float64, 'path': tf.float64}
        self.event_shape = {'rate': tf.TensorShape([]), 'path': (2, 3)}
        self.default_event_space_bijector = {'rate': tfb.Exp(), 'path': tfb.Identity()}

    def unnormalized_log_prob(self, state):
        rate, path = state['rate'], state['path']
        return tf.math.log(rate) - rate - tf.reduce_sum(tf.square(path), axis=[-1, -2]) / 2


def test_gym_model(seed):
    target = GymModel()
    assert is_distribution(target)
    model = from_distribution(target)
    assert (model.names, model.event_shapes) == (('path', 'rate'), ((2, 3), ()))
    path, log_rate = parts = normal_parts(model, 4, seed)
    expected = 2 * log_rate - tf.exp(log_rate) - tf.reduce_sum(tf.square(path), axis=[1, 2]) / 2
    np.testing.assert_allclose(model.log_prob_fn(*parts), expected, rtol=1e-12)
    assert model.prior is None


def test_gym_model_of_one_part():
    inference_gym = pytest.importorskip('inference_gym.using_tensorflow')
    target = inference_gym.targets.VectorModel(
        inference_gym.targets.EightSchools(), flatten_sample_transformations=True
    )
    model = from_distribution(target)
    assert (model.names, model.event_shapes, model.sampler_structure) == (('x',), ((10,),), 0)
    x = tf.linspace(-1.0, 1.0, 10)[None]
    np.testing.assert_allclose(model.log_prob_fn(x), target.unnormalized_log_prob(x), rtol=1e-5)


Point = collections.namedtuple('Point', ['x', 'y'])


@pytest.mark.parametrize(
    ('state', 'names', 'log_prob'),
    [
        (tf.ones([2, 3]), ('x',), lambda q: tf.reduce_sum(q, -1)),
        ([tf.ones([2]), tf.ones([2])], ('x0', 'x1'), lambda a, b: a + 2 * b),
        (Point(tf.ones([2]), tf.ones([2])), ('x', 'y'), lambda x, y: x + 2 * y),
        ({'b': tf.ones([2]), 'a': tf.ones([2])}, ('a', 'b'), lambda b, a: a + 2 * b),
        ({'a': {'c': tf.ones([2])}, 'b': tf.ones([2])}, ('a.c', 'b'), lambda b, a: a['c'] + 2 * b),
    ],
    ids=['tensor', 'list', 'namedtuple', 'dict', 'nested'],
)
def test_callable_takes_the_users_structure(state, names, log_prob):
    model = from_callable(log_prob, state)
    assert model.names == names
    parts = [tf.ones([2]) * (i + 1) for i in range(len(names))]
    if len(names) > 1:
        np.testing.assert_array_equal(model.log_prob_fn(*parts), [5.0, 5.0])
    rebuilt = tf.nest.pack_sequence_as(model.structure, parts)
    tf.nest.assert_same_structure(rebuilt, state)


def test_callable_that_cannot_be_called():
    with pytest.raises(TypeError, match=r'`target`.*3 positional arguments.*`initial_state`'):
        from_callable(lambda q: q, [0.0, 0.0, 0.0])
    with pytest.raises(TypeError, match=r'`target`.*keywords a'):
        from_callable(lambda q: q, {'a': 0.0})


def test_integer_parts_are_refused():
    joint = tfd.JointDistributionNamed(
        {'k': tfd.Categorical([0.0, 0.0]), 'x': tfd.Normal(0.0, 1.0)}
    )
    with pytest.raises(TypeError, match=r'`target`.*k is of dtype int32.*experimental_pin'):
        from_distribution(joint)


def test_mixed_dtypes_are_refused():
    joint = tfd.JointDistributionNamed(
        {'x': tfd.Normal(0.0, 1.0), 'y': tfd.Normal(tf.constant(0.0, tf.float64), 1.0)}
    )
    with pytest.raises(TypeError, match=r'`target`.*one dtype.*x float32.*y float64'):
        from_distribution(joint)


def test_batch_shapes_are_refused():
    with pytest.raises(ValueError, match=r'`target`.*batch shape.*AutoBatched'):
        from_distribution(tfd.Normal([0.0, 1.0], 1.0))


@pytest.mark.parametrize('joint', ['JointDistributionNamed', 'JointDistributionNamedAutoBatched'])
def test_model_that_mixes_chains_is_refused(joint):
    """A scalar per chain against ten observations: ten chains broadcast along the data."""
    model = from_distribution(
        getattr(tfd, joint)(
            {
                'm': tfd.Normal(0.0, 1.0),
                'y': lambda m: tfd.Independent(tfd.Normal(m * tf.ones(10), 1.0), 1),
            }
        ).experimental_pin(y=tf.ones(10))
    )
    parts = [tf.linspace(-1.0, 1.0, 10)]
    density = Density(model)
    log_probs, _ = density.evaluate(parts)
    if 'AutoBatched' in joint:
        check_chains_apart(density, parts, log_probs)
    else:
        with pytest.raises(ValueError, match=r'`target` mixes chains.*AutoBatched'):
            check_chains_apart(density, parts, log_probs)


def test_model_that_gives_every_chain_a_datum_is_refused():
    """As many data as chains, and no event dimension: nothing is mixed, and everything wrong."""

    def joint():
        loc = yield tfd.JointDistributionCoroutine.Root(tfd.Normal(0.0, 10.0, name='loc'))
        yield tfd.Normal(loc, 1.0, name='y')

    data = np.arange(10, dtype=np.float32)
    model = from_distribution(tfd.JointDistributionCoroutine(joint).experimental_pin(y=data))
    density, parts = Density(model), [tf.linspace(-1.0, 1.0, 10)]
    log_probs, _ = density.evaluate(parts)
    with pytest.raises(ValueError, match=r'`target` mixes chains.*alone'):
        check_chains_apart(density, parts, log_probs)


@pytest.mark.parametrize('scale', [1.0, 1e8])
def test_function_that_mixes_chains_is_refused_in_any_units(scale):
    model = from_callable(
        lambda q: -tf.square((q - tf.reduce_mean(q)) / scale), tf.zeros([4]), tf.float32
    )
    density, parts = Density(model), [scale * tf.linspace(1.0, 2.0, 4)]
    with pytest.raises(ValueError, match='nothing but other chains has moved'):
        check_chains_apart(density, parts, density.evaluate(parts)[0])
