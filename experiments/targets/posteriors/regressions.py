"""Regressions on data as people have them: raw units, years, covariates that go together."""

import numpy as np
import tensorflow as tf

from experiments.targets.base import Target
from experiments.targets.posteriors.parts import (
    cauchy,
    constant,
    each,
    normal,
    normals,
    positive,
    posterior,
    real,
)


def line_through_years() -> Target:
    """Temperatures against the calendar year: intercept and slope correlate by almost -1."""
    rng = np.random.default_rng(101)
    year = np.arange(1950, 2021.0)
    temperature = 14 + 0.012 * (year - 1985) + 0.2 * rng.normal(size=year.size)

    def log_joint(a, b, s):
        mean = each(a) + each(b) * constant(year, a)
        prior = normal(a, 0, 100) + normal(b, 0, 10) + normal(s, 0, 5)
        return prior + normals(constant(temperature, a) - mean, 0.0, each(s))

    return posterior('line_through_years', 'simulated', log_joint, a=real(), b=real(), s=positive())


def raw_units(scale: float) -> Target:
    """A straight line whose outcome is in units of `scale`, with a vague prior.

    Args:
      scale: size of the intercept, the slope and the noise.
    """
    rng = np.random.default_rng(102)
    x = 5 + 2 * rng.normal(size=100)
    y = scale * (2 + 3 * x + 5 * rng.normal(size=100))

    def log_joint(a, b, s):
        prior = normal(a, 0, 100 * scale) + normal(b, 0, 100 * scale) + cauchy(s, 10 * scale)
        mean = each(a) + each(b) * constant(x, a)
        return prior + normals(constant(y, a) - mean, 0.0, each(s))

    name = f'raw_units_{scale:.0e}'
    return posterior(name, 'simulated', log_joint, a=real(), b=real(), s=positive())


def unscaled_covariates() -> Target:
    """Seven covariates with means up to 1,000 and deviations from 0.1 to 100."""
    rng = np.random.default_rng(103)
    sd = np.array([0.1, 1, 10, 100, 5, 50, 3])
    mean = np.array([0, 10, 100, 1000, 3, 200, 0])
    x = rng.normal(size=(200, 7)) * sd + mean
    y = x @ np.array([300, -200, 50, 2, -7, 3, 10]) + 300 * rng.normal(size=200)

    def log_joint(a, b, s):
        fitted = each(a) + tf.linalg.matvec(constant(x, a), b)
        prior = normal(a, 0, 1e4) + normals(b, 0, 1e3) + cauchy(s, 1e3)
        return prior + normals(constant(y, a) - fitted, 0.0, each(s))

    return posterior(
        'unscaled_covariates', 'simulated', log_joint, a=real(), b=real(7), s=positive()
    )


def collinear(num_covariates: int = 24, num_rows: int = 2000) -> Target:
    """Covariates that are one and the same but for 5 per cent.

    Args:
      num_covariates: number of coefficients.
      num_rows: of data.
    """
    rng = np.random.default_rng(104)
    x = rng.normal(size=(num_rows, 1)) + 0.05 * rng.normal(size=(num_rows, num_covariates))
    y = x @ np.linspace(-1, 1, num_covariates) + rng.normal(size=num_rows)

    def log_joint(b, s):
        fitted = tf.linalg.matvec(constant(x, b), b)
        return normals(b, 0, 10) + normal(s) + normals(constant(y, b) - fitted, 0.0, each(s))

    return posterior('collinear', 'simulated', log_joint, b=real(num_covariates), s=positive())


def raw_logistic() -> Target:
    """A logistic regression on age in years, income in dollars and a rate in per mille."""
    rng = np.random.default_rng(105)
    x = np.stack(
        [20 + 60 * rng.uniform(size=500), rng.lognormal(10.5, 0.5, 500), rng.gamma(2, 4e-3, 500)],
        axis=-1,
    )
    logits = -4 + x @ np.array([0.04, 4e-5, 60.0])
    y = (rng.uniform(size=500) < 1 / (1 + np.exp(-logits))).astype(float)

    def log_joint(a, b):
        eta = each(a) + tf.linalg.matvec(constant(x, a), b)
        prior = normal(a, 0, 10) + normals(b, 0, constant(np.array([1, 0.01, 1000]), b))
        return prior + tf.reduce_sum(constant(y, a) * eta - tf.nn.softplus(eta), axis=-1)

    return posterior('raw_logistic', 'simulated', log_joint, a=real(), b=real(3))


def robust_regression() -> Target:
    """Student-t noise with unknown degrees of freedom, and a few outliers."""
    rng = np.random.default_rng(106)
    x = rng.normal(size=(120, 3))
    y = 1 + x @ np.array([2, -1, 0.5]) + rng.standard_t(3, size=120)

    def log_joint(a, b, s, nu):
        z = (constant(y, a) - each(a) - tf.linalg.matvec(constant(x, a), b)) / each(s)
        half = nu / 2
        norm = tf.math.lgamma(half + 0.5) - tf.math.lgamma(half) - tf.math.log(nu) / 2
        terms = tf.reduce_sum(tf.math.log1p(z**2 / each(nu)), axis=-1)
        likelihood = 120 * (norm - tf.math.log(s)) - (half + 0.5) * terms
        prior = normal(a, 0, 10) + normals(b, 0, 10) + normal(s, 0, 5)
        return prior + tf.math.log(nu) - 0.1 * nu + likelihood

    return posterior(
        'robust_regression',
        'simulated',
        log_joint,
        a=real(),
        b=real(3),
        s=positive(),
        nu=positive(),
    )
