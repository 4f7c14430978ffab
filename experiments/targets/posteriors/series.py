"""Time series: ARMA, GARCH and an autoregression."""

import numpy as np
import tensorflow as tf

from experiments.targets.base import Target
from experiments.targets.posteriors.parts import (
    cauchy,
    constant,
    correlation,
    each,
    normal,
    normals,
    positive,
    posterior,
    probability,
    real,
)


def arma(num_steps: int = 200) -> Target:
    """ARMA(1, 1), its errors by recursion.

    Args:
      num_steps: length of the series.
    """
    rng = np.random.default_rng(121)
    noise, y = 0.3 * rng.normal(size=num_steps), np.zeros(num_steps)
    for t in range(1, num_steps):
        y[t] = 0.2 + 0.8 * y[t - 1] + 0.4 * noise[t - 1] + noise[t]

    def log_joint(mu, phi, theta, s):
        data = constant(y, mu)

        def step(error, pair):
            return pair[1] - mu - phi * pair[0] - theta * error

        start = data[0] - mu - phi * mu
        errors = tf.scan(step, tf.stack([data[:-1], data[1:]], axis=-1), start)
        errors = tf.concat([start[tf.newaxis], errors], axis=0)
        prior = normal(mu, 0, 10) + normal(phi, 0, 2) + normal(theta, 0, 2) + cauchy(s, 2.5)
        return prior + tf.reduce_sum(normal(errors, 0.0, s), axis=0)

    return posterior(
        'arma', 'simulated', log_joint, mu=real(), phi=real(), theta=real(), s=positive()
    )


def garch(num_steps: int = 300) -> Target:
    """GARCH(1, 1) with a share that keeps it stationary.

    Args:
      num_steps: length of the series.
    """
    rng = np.random.default_rng(122)
    variance, seen = 1.0, []
    for _ in range(num_steps):
        seen.append(0.5 + np.sqrt(variance) * rng.normal())
        variance = 0.3 + 0.3 * (seen[-1] - 0.5) ** 2 + 0.5 * variance
    y = np.array(seen)

    def log_joint(mu, a0, a1, share):
        data = constant(y, mu)
        b1 = share * (1 - a1)

        def step(variance, value):
            return a0 + a1 * (value - mu) ** 2 + b1 * variance

        start = a0 / (1 - a1 - b1)
        variances = tf.scan(step, data[:-1], start)
        variances = tf.concat([start[tf.newaxis], variances], axis=0)
        shape = [num_steps] + [1] * mu.shape.rank
        terms = normal(tf.reshape(data, shape) - mu, 0.0, tf.sqrt(variances))
        return normal(mu, 0, 5) + normal(a0, 0, 2) + tf.reduce_sum(terms, axis=0)

    return posterior(
        'garch',
        'simulated',
        log_joint,
        mu=real(),
        a0=positive(),
        a1=probability(),
        share=probability(),
    )


def autoregression(order: int = 5, num_steps: int = 200) -> Target:
    """AR(5) on a level far from zero.

    Args:
      order: number of lags.
      num_steps: length of the series.
    """
    rng = np.random.default_rng(123)
    y = 1000 + np.cumsum(rng.normal(size=num_steps)) * 0.5 + rng.normal(size=num_steps)
    lags = np.stack([y[order - k - 1 : -k - 1] for k in range(order)], axis=-1)

    def log_joint(a, b, s):
        fitted = each(a) + tf.linalg.matvec(constant(lags, a), b)
        prior = normal(a, 0, 1000) + normals(b, 0, 10) + cauchy(s, 2.5)
        return prior + normals(constant(y[order:], a) - fitted, 0.0, each(s))

    return posterior(
        'autoregression', 'simulated', log_joint, a=real(), b=real(order), s=positive()
    )


def small_volatility(num_steps: int = 100) -> Target:
    """Stochastic volatility, centred, with a path of 100 steps.

    Args:
      num_steps: length of the path.
    """
    rng = np.random.default_rng(124)
    h = np.zeros(num_steps)
    for t in range(1, num_steps):
        h[t] = 0.95 * h[t - 1] + 0.25 * rng.normal()
    y = np.exp((h - 1) / 2) * rng.normal(size=num_steps)

    def log_joint(h, mu, phi, s):
        deviation = h - each(mu)
        start = normal(deviation[..., 0], 0.0, s / tf.sqrt(1 - phi**2))
        moves = normals(deviation[..., 1:] - each(phi) * deviation[..., :-1], 0.0, each(s))
        data = normals(constant(y, h), 0.0, tf.exp(h / 2))
        prior = cauchy(mu, 10.0) + cauchy(s, 5.0)
        return prior + start + moves + data

    return posterior(
        'small_volatility',
        'simulated',
        log_joint,
        h=real(num_steps),
        mu=real(),
        phi=correlation(),
        s=positive(),
    )
