"""Models with parts whose location or scale is another part, as users of TFP write them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions


def _f32(values):
    return np.asarray(values, np.float32)


def schools(error_scale: float = 1.0) -> Any:
    """Coaching in eight schools (Rubin 1981).

    Args:
      error_scale: factor of the standard errors; far below one, the data say all.
    """
    effects = _f32([28, 8, -3, 7, -1, 1, 18, 12])
    errors = _f32([15, 10, 16, 11, 9, 11, 10, 18])

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mu = yield tfd.Normal(0.0, 5.0, name='mu')
        tau = yield tfd.HalfCauchy(0.0, 5.0, name='tau')
        theta = yield tfd.Sample(tfd.Normal(mu, tau), 8, name='theta')
        yield tfd.Normal(theta, _f32(error_scale) * errors, name='y')

    return model.experimental_pin(y=effects)


def funnel() -> Any:
    """Neal (2003), in ten dimensions, as a prior."""

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        v = yield tfd.Normal(0.0, 3.0, name='v')
        yield tfd.Sample(tfd.Normal(0.0, tf.exp(v / 2)), 9, name='x')

    return model


def levels() -> Any:
    """Measurements in 40 counties, of which some have many rows and some none; simulated."""
    rng = np.random.default_rng(151)
    county = rng.choice(40, size=800, p=rng.dirichlet(np.ones(40)))
    floor = (rng.uniform(size=800) < 0.2).astype(np.float32)
    level = 1.5 + 0.3 * rng.normal(size=40)
    y = _f32(level[county] - 0.7 * floor + 0.8 * rng.normal(size=800))

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mu = yield tfd.Normal(0.0, 10.0, name='mu')
        slope = yield tfd.Normal(0.0, 10.0, name='slope')
        tau = yield tfd.HalfNormal(1.0, name='tau')
        s = yield tfd.HalfNormal(1.0, name='s')
        level = yield tfd.Sample(tfd.Normal(mu, tau), 40, name='level')
        yield tfd.Normal(tf.gather(level, county, axis=-1) + slope * floor, s, name='y')

    return model.experimental_pin(y=y)


def slopes() -> Any:
    """Lines of 20 groups with three rows each, and correlated intercepts and slopes; simulated."""
    rng = np.random.default_rng(157)
    group, x = np.repeat(np.arange(20), 3), _f32(rng.normal(size=60))
    lines = rng.multivariate_normal([2.0, 1.0], [[1.0, -0.25], [-0.25, 0.25]], size=20)
    y = _f32(lines[group, 0] + lines[group, 1] * x + rng.normal(size=60))

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mu = yield tfd.Sample(tfd.Normal(0.0, 5.0), 2, name='mu')
        tau = yield tfd.Sample(tfd.HalfNormal(2.0), 2, name='tau')
        factor = yield tfd.CholeskyLKJ(2, 2.0, name='factor')
        s = yield tfd.HalfNormal(2.0, name='s')
        pairs = tfd.MultivariateNormalTriL(mu, tau[:, tf.newaxis] * factor)
        lines = yield tfd.Sample(pairs, 20, name='lines')
        intercept, slope = tf.unstack(tf.gather(lines, group), axis=-1)
        yield tfd.Normal(intercept + slope * x, s, name='y')

    return model.experimental_pin(y=y)


def nested() -> Any:
    """Pupils in five classes of each of 12 schools; simulated."""
    rng = np.random.default_rng(152)
    school = 0.2 * rng.normal(size=12)
    classes = np.repeat(school, 5) + 0.5 * rng.normal(size=60)
    y = _f32(np.repeat(classes, 6) + rng.normal(size=360))

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mu = yield tfd.Normal(0.0, 5.0, name='mu')
        between = yield tfd.HalfNormal(1.0, name='between')
        within = yield tfd.HalfNormal(1.0, name='within')
        school = yield tfd.Sample(tfd.Normal(mu, between), 12, name='school')
        of_class = tf.repeat(school, 5, axis=-1)
        classes = yield tfd.Normal(of_class, within * tf.ones(60), name='classes')
        yield tfd.Normal(tf.repeat(classes, 6, axis=-1), 1.0, name='y')

    return model.experimental_pin(y=y)


def rates() -> Any:
    """Counts of 30 places with exposures from 0.3 to 300, and log-normal rates; simulated."""
    rng = np.random.default_rng(153)
    exposure = _f32(10 ** rng.uniform(-0.5, 2.5, size=30))
    y = _f32(rng.poisson(exposure * np.exp(-0.5 + 0.6 * rng.normal(size=30))))

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mu = yield tfd.Normal(0.0, 2.0, name='mu')
        tau = yield tfd.HalfNormal(1.0, name='tau')
        rate = yield tfd.Sample(tfd.LogNormal(mu, tau), 30, name='rate')
        yield tfd.Poisson(exposure * rate, name='y')

    return model.experimental_pin(y=y)


def horseshoe() -> Any:
    """A regression with three coefficients of 20 that matter; simulated."""
    rng = np.random.default_rng(154)
    x = rng.normal(size=(100, 20))
    y = _f32(x[:, :3] @ np.array([3.0, -2.0, 1.0]) + rng.normal(size=100))
    x = _f32(x)

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        local = yield tfd.Sample(tfd.HalfCauchy(0.0, 1.0), 20, name='local')
        shared = yield tfd.HalfCauchy(0.0, 1.0, name='shared')
        s = yield tfd.HalfNormal(5.0, name='s')
        b = yield tfd.Normal(0.0, local * shared * s, name='b')
        yield tfd.Normal(tf.linalg.matvec(x, b), s, name='y')

    return model.experimental_pin(y=y)


def heavy_errors() -> Any:
    """A line through 80 points whose errors have heavy tails, with unknown degrees of freedom."""
    rng = np.random.default_rng(158)
    x = _f32(rng.normal(size=80))
    y = _f32(0.5 - x + 0.4 * rng.standard_t(3.0, size=80))

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        degrees = yield tfd.Gamma(2.0, 0.1, name='degrees')
        line = yield tfd.Sample(tfd.Normal(0.0, 10.0), 2, name='line')
        s = yield tfd.HalfNormal(5.0, name='s')
        yield tfd.StudentT(degrees, line[0] + line[1] * x, s, name='y')

    return model.experimental_pin(y=y)


def process() -> Any:
    """A Gaussian process with noise at 30 places, and its three scales; simulated."""
    rng = np.random.default_rng(159)
    x = np.sort(rng.uniform(-5, 5, size=30))
    y = _f32(np.cos(x) + 0.3 * rng.normal(size=30))
    squares = _f32((x[:, np.newaxis] - x) ** 2)

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        length = yield tfd.Gamma(25.0, 4.0, name='length')
        height = yield tfd.HalfNormal(2.0, name='height')
        noise = yield tfd.HalfNormal(1.0, name='noise')
        covariance = height**2 * tf.exp(-squares / (2 * length**2))
        covariance += (noise**2 + 1e-6) * tf.eye(30)
        yield tfd.MultivariateNormalTriL(tf.zeros(30), tf.linalg.cholesky(covariance), name='y')

    return model.experimental_pin(y=y)


MODELS: dict[str, Callable[[], Any]] = {
    'eight schools': schools,
    'eight schools; errors / 10': lambda: schools(0.1),
    'funnel': funnel,
    'levels': levels,
    'slopes': slopes,
    'nested': nested,
    'rates': rates,
    'horseshoe': horseshoe,
    'heavy errors': heavy_errors,
    'process': process,
}
"""label -> function that makes a joint distribution, pinned but for the funnel."""
OF_CONSTANTS = ('heavy errors', 'process')
"""Those without parts whose location or scale depends on others."""
