"""Where chains start: the user's states, dispersed points, and the search for a finite density."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.sampling.kept import kept_with
from tfp_adaptive.sampling.targets.callables import from_callable
from tfp_adaptive.sampling.targets.density import Density
from tfp_adaptive.sampling.targets.dispersed import dispersed
from tfp_adaptive.sampling.targets.distributions import from_distribution
from tfp_adaptive.sampling.targets.fingerprint import fingerprint
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.models import make_model
from tfp_adaptive.sampling.targets.starts import clear_if_changed, find_start, remember

tfd = tfp.distributions

NORMAL = tfd.JointDistributionNamed(
    {'x': tfd.Sample(tfd.Normal(0.0, 1.0), 3), 'y': lambda x: tfd.Normal(x[..., 0], 1.0)}
).experimental_pin(y=1.0)


def gaussian(q):
    return -tf.reduce_sum(tf.square(q), axis=-1) / 2


def log_prob_of_parts(a, b):
    return -tf.square(a) - tf.reduce_sum(tf.square(b), axis=-1)


def start_of(target, stateless_seed, initial_state=None, num_chains=None, dtype=None):
    kept = kept_with(target)
    clear_if_changed(target, kept)
    model = make_model(target, initial_state, dtype, True, [], kept)
    return find_start(model, initial_state, num_chains, stateless_seed(), kept)


def test_states_of_chains_are_taken_as_they_are(stateless_seed):
    state = tf.random.stateless_normal([2, 3, 4], stateless_seed(1))
    for num_chains in (None, 6):
        start = start_of(gaussian, stateless_seed, state, num_chains)
        np.testing.assert_array_equal(start.state, state)
        assert start.batch_shape == (2, 3)


class Regression:
    """A logistic regression whose parts may be changed between calls."""

    def __init__(self, rng, num_rows=300):
        self.design = rng.normal(size=[num_rows, 5]).astype('f')
        self.labels = (rng.uniform(size=num_rows) < 0.5).astype('f')
        self.prior_scale, self.mixes = 1.0, False

    def log_prob(self, w):
        logits = tf.linalg.matvec(self.design, w)
        log_likelihood = tf.reduce_sum(self.labels * logits - tf.math.softplus(logits), axis=-1)
        square = tf.reduce_sum(w**2, axis=None if self.mixes else -1)
        return log_likelihood - square / (2 * self.prior_scale**2)

    def tempered(self, w):
        return self.log_prob(w) / 2


@pytest.mark.parametrize('num_rows', [100, 1000, 10_000])
def test_a_small_change_of_the_target_is_seen(num_rows, rng, stateless_seed):
    """A prior that matters little beside the likelihood."""
    target = Regression(rng, num_rows)
    state = 0.1 * tf.ones([4, 5])
    key = start_of(target.log_prob, stateless_seed, state).key
    first = kept_with(target.log_prob).get(key)
    start_of(target.log_prob, stateless_seed, state)
    assert kept_with(target.log_prob).get(key) is first
    target.prior_scale = 1.1
    start_of(target.log_prob, stateless_seed, state)
    assert kept_with(target.log_prob).get(key) is not first


def test_targets_of_one_object_keep_their_own(rng, stateless_seed):
    """The first call with one of them, or one that fails, leaves the others what they have."""
    target, state = Regression(rng), 0.1 * tf.ones([4, 5])
    key = start_of(target.log_prob, stateless_seed, state).key
    first = kept_with(target.log_prob).get(key)
    start_of(target.tempered, stateless_seed, state)
    with pytest.raises(ValueError, match='fails on a state'):
        start_of(target.tempered, stateless_seed, tf.ones([4, 3]))
    start_of(target.log_prob, stateless_seed, state)
    assert kept_with(target.log_prob).get(key) is first is not None


def test_data_of_another_shape_are_another_target(rng, stateless_seed):
    target = Regression(rng)
    start_of(target.log_prob, stateless_seed, tf.zeros([4, 5]))
    target.design = target.design[:, :3]
    assert start_of(target.log_prob, stateless_seed, tf.zeros([4, 3])).batch_shape == (4,)


@pytest.mark.parametrize('num_rows', [100, 1000])
@pytest.mark.parametrize('is_first', [True, False])
def test_a_prior_that_is_summed_over_chains_is_refused(num_rows, is_first, rng, stateless_seed):
    """In the first call, and after one with a single chain, which shows nothing."""
    target = Regression(rng, num_rows)
    target.mixes = True
    if not is_first:
        start_of(target.log_prob, stateless_seed, tf.zeros([1, 5]))
    with pytest.raises(ValueError, match='when nothing but other chains has moved'):
        start_of(target.log_prob, stateless_seed, tf.zeros([4, 5]))


def test_a_density_that_fails_as_a_whole_beside_the_start(stateless_seed):
    def log_prob(q):
        return tfd.Normal(0.0, q[..., 0], validate_args=True).log_prob(1.0) - q[..., 0]

    start = start_of(log_prob, stateless_seed, tf.fill([4, 1], 1e-4))
    assert np.all(np.isfinite(start.fingerprint.log_probs))


def test_one_point_alone_is_a_chain_without_chain_dimension(stateless_seed):
    start = start_of(gaussian, stateless_seed, tf.ones([4]))
    assert start.batch_shape == ()
    np.testing.assert_array_equal(start.state, tf.ones([4]))


def test_chains_around_a_point_fill_the_box(stateless_seed):
    start = start_of(gaussian, stateless_seed, tf.fill([2], 10.0), 1000)
    offsets = start.state.numpy() - 10
    assert start.batch_shape == (1000,)
    assert np.abs(offsets).max() <= 1
    # uniform on (-1, 1): mean 0 and variance 1/3, whose estimate has variance 4/45/n
    assert np.abs(offsets.mean(0)).max() < 4 * np.sqrt(1 / 3 / 1000)
    assert np.abs(offsets.var(0) - 1 / 3).max() < 4 * np.sqrt(4 / 45 / 1000)


def test_target_that_wants_chains_takes_a_point(stateless_seed):
    """`@` fails on a vector, so the point is tried with a chain dimension."""
    weights = tf.ones([3, 3])

    def target(q):
        return gaussian(q @ weights)

    assert start_of(target, stateless_seed, tf.zeros([3]), 5).state.shape == [5, 3]
    with pytest.raises(ValueError, match=r'`target` fails on a single point.*`num_chains`'):
        start_of(target, stateless_seed, tf.zeros([3]))


def test_structures_and_dtypes(stateless_seed):
    state = {'b': np.zeros([4, 2]), 'a': np.zeros(4)}
    start = start_of(log_prob_of_parts, stateless_seed, state, dtype=tf.float32)
    assert [part.dtype for part in start.state] == [tf.float32] * 2
    assert [part.shape for part in start.state] == [[4], [4, 2]]
    start = start_of(log_prob_of_parts, stateless_seed, (tf.zeros([]), tf.zeros([2])), 3)
    assert isinstance(start.state, tuple)
    assert [part.shape for part in start.state] == [[3], [3, 2]]


def test_models_start_on_the_box_around_zero(stateless_seed):
    start = start_of(NORMAL, stateless_seed)
    (x,) = start.state
    assert start.batch_shape == (10,)
    assert x.shape == [10, 3]
    assert 1 < np.abs(x).max() < 2
    again = start_of(NORMAL, stateless_seed)
    np.testing.assert_array_equal(x, again.state[0])


def test_models_take_states_of_their_own_space(stateless_seed):
    joint = tfd.JointDistributionNamed(
        {'scale': tfd.LogNormal(0.0, 1.0), 'y': lambda scale: tfd.Normal(0.0, scale)}
    ).experimental_pin(y=1.0)
    start = start_of(joint, stateless_seed, {'scale': np.array([1.0, 2.0])})
    np.testing.assert_allclose(start.state[0], np.log([1.0, 2.0]), atol=1e-6)
    assert start.state[0].dtype == tf.float32
    around = start_of(joint, stateless_seed, {'scale': 100.0}, 50)
    assert np.abs(around.state[0] - np.log(100.0)).max() <= 1


def test_prior_starts_from_exact_draws(stateless_seed):
    """Scale 1000, which a box of half-width 2 would never see."""
    start = start_of(tfd.JointDistributionNamed({'x': tfd.Normal(0.0, 1000.0)}), stateless_seed)
    assert np.abs(start.state[0]).max() > 100


def narrow_support(halfwidth):
    """Finite within `halfwidth` of zero in each of two coordinates."""

    def target(q):
        inside = tf.reduce_all(tf.abs(q) < halfwidth, axis=-1)
        return tf.where(inside, gaussian(q), -np.inf)

    return target


def test_search_shrinks_to_the_support(stateless_seed):
    start = start_of(narrow_support(0.01), stateless_seed, tf.zeros([2]), 20)
    assert np.abs(start.state).max() < 0.01
    assert len(np.unique(start.state.numpy()[:, 0])) == 20


def test_search_draws_only_lost_chains_again(stateless_seed):
    wide, narrow = (
        start_of(target, stateless_seed, tf.zeros([2]), 50).state.numpy()
        for target in (gaussian, narrow_support(0.5))
    )
    inside = (np.abs(wide) < 0.5).all(axis=-1)
    assert 0 < inside.sum() < 50
    np.testing.assert_array_equal(wide[inside], narrow[inside])
    assert (wide[~inside] != narrow[~inside]).all()


def test_search_minds_the_gradient(stateless_seed):
    """sqrt(|x|) has a value at zero and no gradient."""

    def target(q):
        rounded = q * tf.cast(tf.abs(q) > 0.5, q.dtype)
        return -tf.reduce_sum(tf.sqrt(tf.abs(rounded)) + tf.square(q), axis=-1)

    start = start_of(target, stateless_seed, tf.fill([1], 0.6), 40)
    assert (np.abs(start.state) > 0.5).all()


def test_search_turns_to_the_prior(stateless_seed):
    """The box never meets (50, 51), draws of the prior always do."""

    class Model:
        dtype, event_shape = tf.float32, tf.TensorShape([])
        default_event_space_bijector = tfp.bijectors.Identity()

        def unnormalized_log_prob(self, x):
            return tf.where(tf.abs(x - 50.5) < 0.5, -x, -np.inf)

        def prior_distribution(self):
            return tfd.Uniform(50.0, 51.0)

    start = start_of(Model(), stateless_seed, num_chains=5)
    assert (np.abs(start.state - 50.5) < 0.5).all()


def test_search_gives_up(stateless_seed):
    density = Density(from_distribution(NORMAL))
    never = Density(
        Model(
            log_prob_fn=lambda x: tf.reduce_sum(x, axis=-1) * np.nan,
            names=('x',),
            structure=0,
            sampler_structure=0,
            event_shapes=((3,),),
            dtype=tf.float32,
        )
    )
    assert len(dispersed(density, 4, stateless_seed())) == 1
    with pytest.raises(ValueError, match=r'4 of 4 chains.*`initial_state`'):
        dispersed(never, 4, stateless_seed())


MISUSES = {
    'no start': (dict(target=gaussian), ValueError, '`initial_state` is needed'),
    'no target': (dict(target=3.0, initial_state=0.0), TypeError, '`target`.*float'),
    'integers': (
        dict(target=gaussian, initial_state=np.zeros([2, 3], int)),
        TypeError,
        '`initial_state`.*int64.*dtype=tf.float32',
    ),
    'strings': (dict(target=gaussian, initial_state='zero'), TypeError, '`initial_state`.*string'),
    'object': (dict(target=gaussian, initial_state=object()), TypeError, '`initial_state`.*object'),
    'nothing': (dict(target=gaussian, initial_state=[]), TypeError, '`initial_state`.*no tensor'),
    'mixed dtypes': (
        dict(target=log_prob_of_parts, initial_state=[tf.zeros([2]), np.zeros([2, 2])]),
        TypeError,
        '`initial_state`.*float32 and float64.*dtype=',
    ),
    'list for one tensor': (
        dict(target=gaussian, initial_state=[0.0, 0.0]),
        TypeError,
        '`target`.*2 positional arguments.*`initial_state`',
    ),
    'wrong dtype': (
        dict(target=lambda q: gaussian(q) * tf.constant(1.0), initial_state=np.zeros([2, 3])),
        TypeError,
        '`target`.*float64.*dtype=tf.float32',
    ),
    'dtype returned': (
        dict(target=lambda q: tf.cast(gaussian(q), tf.float64), initial_state=tf.zeros([2, 3])),
        TypeError,
        '`target`.*float64.*float32',
    ),
    'returns nothing': (
        dict(target=lambda q: None, initial_state=tf.zeros([2, 3])),
        TypeError,
        '`target` must return a tensor.*NoneType',
    ),
    'sums over the chains': (
        dict(target=lambda q: tf.reduce_sum(q, 0), initial_state=tf.zeros([2, 3])),
        ValueError,
        r'`target` must return one log-density per chain.*\(3,\)',
    ),
    'sums over everything': (
        dict(target=tf.reduce_sum, initial_state=tf.zeros([3]), num_chains=4),
        ValueError,
        '`target` must return one log-density per chain',
    ),
    'other number of chains': (
        dict(target=gaussian, initial_state=tf.zeros([2, 3]), num_chains=4),
        ValueError,
        '`num_chains` is 4.*`initial_state` holds 2',
    ),
    'no chains': (
        dict(target=gaussian, initial_state=tf.zeros([0, 3])),
        ValueError,
        '`initial_state`.*at least one chain',
    ),
    'outside the support': (
        dict(target=lambda q: tf.math.log(q[..., 0]), initial_state=tf.constant([[-2.0], [-1.0]])),
        ValueError,
        r'`initial_state` for 2 of 2 chains, first for chain \(0,\)',
    ),
    'point outside the support': (
        dict(target=lambda q: tf.math.log(q[..., 0]), initial_state=-tf.ones([1]), num_chains=3),
        ValueError,
        '`initial_state`',
    ),
    'dtype of a model': (
        dict(target=NORMAL, dtype=tf.float64),
        ValueError,
        '`dtype` is float64.*float32',
    ),
    'parts of a model': (
        dict(target=NORMAL, initial_state={'z': tf.zeros([2, 3])}),
        ValueError,
        '`initial_state` must have the parts x .*got z',
    ),
    'shape of a model': (
        dict(target=NORMAL, initial_state={'x': tf.zeros([2, 4])}),
        ValueError,
        r'`initial_state`.*x \(2, 4\)',
    ),
}


@pytest.mark.parametrize('case', MISUSES)
def test_misuse_names_the_argument(case, stateless_seed):
    arguments, error, message = MISUSES[case]
    with pytest.raises(error, match=message):
        start_of(stateless_seed=stateless_seed, **arguments)


@pytest.mark.parametrize('batch', [(10,), (2, 5), ()])
@pytest.mark.parametrize(
    'other',
    [
        lambda x: -tf.reduce_sum(tf.square(x), axis=-1) / 200 - 1e5,
        lambda x: tf.where(
            tf.reduce_all(tf.abs(x) < 0.7, axis=-1),
            -tf.reduce_sum(tf.square(x), axis=-1) / 2 - 1e5,
            -np.inf,
        ),
    ],
    ids=['wider', 'bounded'],
)
def test_a_density_that_differs_far_out_is_another_one(other, batch):
    """Near the start rounding hides it: a large constant, as of many rows of data."""

    def before(x):
        return -tf.reduce_sum(tf.square(x), axis=-1) / 2 - 1e5

    state = tf.zeros([*batch, 3])
    one, two = (from_callable(density, state, None) for density in (before, other))
    found = fingerprint(one, [state])
    assert found.mismatch(one) is None
    assert found.mismatch(two, 4) is not None


def test_a_target_that_cannot_be_described_is_known_by_its_values(stateless_seed):
    class Shy:
        scale = 1.0

        @property
        def parameters(self):
            raise RuntimeError

        def __call__(self, q):
            return gaussian(q) * self.scale

    target, state = Shy(), tf.random.stateless_normal([4, 2], stateless_seed(1))
    first = start_of(target, stateless_seed, state)
    remember(target, kept_with(target))
    assert start_of(target, stateless_seed, state).density is first.density
    Shy.scale = 2.0
    assert start_of(target, stateless_seed, state).density is not first.density
