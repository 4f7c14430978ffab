"""Latent Gaussian processes."""

import numpy as np
import tensorflow as tf

from experiments.targets.base import Target
from experiments.targets.posteriors.parts import (
    constant,
    each,
    normal,
    normals,
    positive,
    posterior,
    real,
)

_NUM_POINTS = 11
_JITTER = 1e-4


def gaussian_process_regression() -> Target:
    """Length scale, amplitude and noise of a Gaussian process that is seen at 11 points."""
    x, f, rng = _curve(141)
    y = f + 0.3 * rng.normal(size=_NUM_POINTS)

    def log_joint(length, amplitude, s):
        root = _root(x, length, amplitude, s**2)
        z = tf.linalg.triangular_solve(root, each(constant(y, s) + tf.zeros_like(root[..., 0])))
        log_det = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(root)), axis=-1)
        likelihood = normals(z[..., 0]) - log_det
        return _prior(length, amplitude) + normal(s) + likelihood

    return posterior(
        'gaussian_process_regression',
        'simulated',
        log_joint,
        length=positive(),
        amplitude=positive(),
        s=positive(),
    )


def poisson_process() -> Target:
    """Counts whose log rate is a Gaussian process: its standard normals and two hyperparameters."""
    x, f, rng = _curve(142)
    counts = rng.poisson(np.exp(1 + f)).astype(float)

    def log_joint(length, amplitude, z):
        root = _root(x, length, amplitude, 0.0)
        log_rate = tf.linalg.matvec(root, z)
        data = tf.reduce_sum(constant(counts, z) * log_rate - tf.exp(log_rate), axis=-1)
        return _prior(length, amplitude) + normals(z) + data

    return posterior(
        'poisson_process',
        'simulated',
        log_joint,
        length=positive(),
        amplitude=positive(),
        z=real(_NUM_POINTS),
    )


def _curve(seed):
    rng = np.random.default_rng(seed)
    x = np.linspace(-10, 10, _NUM_POINTS)
    return x, 1.5 * np.sin(x / 3), rng


def _prior(length, amplitude):
    gamma = 24 * tf.math.log(length) - 4 * length
    return gamma + normal(amplitude, 0, 2)


def _root(x, length, amplitude, noise):
    squares = constant((x[:, np.newaxis] - x) ** 2, length)
    noise = tf.convert_to_tensor(noise, length.dtype)
    covariance = each(each(amplitude**2)) * tf.exp(-squares / (2 * each(each(length)) ** 2))
    diagonal = each(each(noise + _JITTER)) * tf.eye(x.size, dtype=length.dtype)
    return tf.linalg.cholesky(covariance + diagonal)
