"""Sub-sampled likelihoods against all rows."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.statistics import largest_z
from tfp_adaptive import estimators

RNG = np.random.default_rng(11)
X = RNG.standard_normal([400, 2])
LABELS = np.sign(1 / (1 + np.exp(-X @ [0.7, -0.4])) - RNG.uniform(size=400))
REFERENCE = tf.constant([0.6, -0.3], tf.float64)
THETA = np.array([0.95, -0.6])


def by_row(rows, theta):
    """Logistic regression, y in {-1, 1}."""
    x, y = rows
    return tf.math.log_sigmoid(y * tf.reduce_sum(x * theta[..., None, :], axis=-1))


def exact(theta):
    return -np.sum(np.log1p(np.exp(-LABELS * (X @ theta))))


def make(num_rows=40, **settings):
    data = tf.constant(X), tf.constant(LABELS)
    settings = {'reference': REFERENCE, **settings}
    return estimators.subsampling(by_row, data, num_rows, **settings)


def estimates(estimator, seed, num=20_000, theta=THETA):
    noise = tf.random.stateless_normal([num, estimator.noise_size], [seed, 4], dtype=tf.float64)
    return np.asarray(estimator.log_likelihood(noise, tf.constant(np.tile(theta, [num, 1]))))


def slow_twin(noise, theta, num_rows, seed=0):
    """One row at a time, derivatives written out by hand."""
    order = tf.random.experimental.stateless_shuffle(tf.range(400), seed=[0, seed])
    x, y = X[order.numpy()], LABELS[order.numpy()]
    ratio, centre = 400 // num_rows, REFERENCE.numpy()
    step = theta - centre

    def value(i, at):
        return -np.log1p(np.exp(-y[i] * (x[i] @ at)))

    def control(i):
        p = 1 / (1 + np.exp(-x[i] @ centre))
        slope = ((y[i] > 0) - p) * x[i]
        return value(i, centre) + slope @ step - p * (1 - p) * (x[i] @ step) ** 2 / 2

    from scipy.stats import norm

    rows = [ratio * j + int(ratio * norm.cdf(noise[j])) for j in range(num_rows)]
    d = np.array([value(i, theta) - control(i) for i in rows])
    total = sum(control(i) for i in range(400)) + ratio * d.sum()
    return total - ratio**2 * num_rows * (1 - 1 / ratio) * d.var(ddof=1) / 2


def test_against_its_slow_twin(rng):
    noise = rng.standard_normal([3, 40])
    found = make().log_likelihood(tf.constant(noise), tf.constant(np.tile(THETA, [3, 1])))
    np.testing.assert_allclose(found, [slow_twin(u, THETA, 40) for u in noise], rtol=1e-10)


def test_all_rows_are_exact():
    found = estimates(make(400), seed=1, num=3)
    np.testing.assert_allclose(found, exact(THETA), rtol=1e-12)


def test_the_error_of_the_likelihood_is_below_its_noise(seed):
    """Mean of exp(log p-hat) over p: one but for a few parts in a thousand."""
    value = estimates(make(), seed)
    ratio = np.exp(value - exact(THETA))
    error = ratio.std() / np.sqrt(ratio.size)
    assert 0.01 < value.std() < 0.7
    # the correction leaves a bias of third order in the noise, which the strata bound
    assert abs(ratio.mean() - 1) < largest_z(1) * error + value.var() / 5
    uncorrected = np.exp(value - value.mean()).mean()
    assert uncorrected > 1 + 3 * error


def law(log_likelihood, grid):
    """Mean and standard deviation of the density on a grid, flat prior."""
    weights = np.exp(log_likelihood - np.max(log_likelihood))
    mean = np.sum(weights * grid) / np.sum(weights)
    return mean, np.sqrt(np.sum(weights * (grid - mean) ** 2) / np.sum(weights))


def test_the_posterior_of_either_estimate(seed):
    """The law of a chain is E[p-hat]: nearly that of all rows, or, as published, of n rows.

    Along the first coefficient, with the other at the reference, and by quadrature.
    """
    grid = np.linspace(-3, 5, 101)
    places = np.stack([grid, np.full(101, REFERENCE[1])], axis=-1)
    mean, sd = law([exact(theta) for theta in places], grid)

    def law_of(estimator):
        compiled = estimator._replace(
            log_likelihood=tf.function(estimator.log_likelihood, jit_compile=True, autograph=False)
        )
        values = np.stack([estimates(compiled, seed, 2000, theta) for theta in places])
        peak = values.max()
        return law(np.log(np.mean(np.exp(values - peak), axis=1) + 1e-300) + peak, grid)

    corrected = law_of(make())
    assert abs(corrected[0] - mean) < 0.05 * sd
    assert abs(corrected[1] / sd - 1) < 0.05
    # wider than it should be by sqrt(N / n) = 3.2, and by the spread of the subsets' own modes
    assert law_of(make(mode='as_published'))[1] / sd > 2.5


def test_rows_that_are_drawn(seed):
    """Unsorted every row has the same chance; sorted, independent noises share most rows."""

    def rows_of(mode):
        data = tf.range(400, dtype=tf.float64)
        seen = []

        def record(rows, theta):
            seen.append(np.asarray(rows))
            return 0 * rows + theta[..., None]

        one = estimators.subsampling(
            record, data, 40, reference=tf.zeros([], tf.float64), mode=mode
        )
        noise = tf.random.stateless_normal([2000, 40], [seed, 5], dtype=tf.float64)
        one.log_likelihood(noise, tf.zeros([2000], tf.float64))
        return seen[-1].astype(int)

    drawn = rows_of('difference')
    counts = np.bincount(drawn.ravel(), minlength=400)
    z = (counts - 200) / np.sqrt(2000 * 0.1 * 0.9)
    assert np.max(np.abs(z)) < largest_z(400)
    drawn = rows_of('as_published')
    overlap = np.mean(
        [len(np.intersect1d(a, b)) for a, b in zip(drawn[:500], drawn[500:], strict=False)]
    )
    assert overlap / 40 > 0.3


@pytest.mark.parametrize('batch', [[], [2, 2]])
@pytest.mark.parametrize('mode', ['difference', 'as_published'])
def test_chain_dimensions_xla_and_score(batch, mode, seed):
    estimator = make(40, mode=mode)
    noise = tf.random.stateless_normal([*batch, 40], [seed, 1], dtype=tf.float64)
    theta = tf.broadcast_to(tf.constant(THETA), [*batch, 2])

    def both(noise, theta):
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = estimator.log_likelihood(noise, theta)
        return value, tape.gradient(value, theta)

    value, score = both(noise, theta)
    assert value.shape == batch
    compiled = tf.function(both, jit_compile=True, autograph=False)(noise, theta)
    np.testing.assert_allclose(compiled[0], value, rtol=1e-9)
    np.testing.assert_allclose(compiled[1], score, rtol=1e-7)
    for i in range(2):
        step = 1e-5 * np.eye(2)[i]
        up, down = (estimator.log_likelihood(noise, theta + s) for s in (step, -step))
        np.testing.assert_allclose((up - down) / 2e-5, score[..., i], rtol=1e-5)


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({'num_rows': 7}, '`num_rows`'),
        ({'num_rows': 1}, '`num_rows`'),
        ({'mode': 'plain'}, '`mode`'),
        ({'reference': None}, '`reference`'),
    ],
)
def test_misuse(settings, words):
    with pytest.raises(ValueError, match=words):
        make(**settings)
