"""Ordinary differential equations with noise on what is seen of them."""

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


def lotka_volterra(num_years: int = 20, steps_a_year: int = 4) -> Target:
    """Predator and prey, yearly counts with log-normal noise; Runge-Kutta of fourth order.

    Args:
      num_years: number of pairs of counts.
      steps_a_year: of the integrator.
    """
    rates, start, noise = np.array([0.55, 0.028, 0.8, 0.024]), np.array([34.0, 6.0]), 0.25
    rng = np.random.default_rng(131)
    path = _runge_kutta(tf.constant(rates), tf.constant(start), num_years, steps_a_year)
    counts = path.numpy() * np.exp(noise * rng.normal(size=(num_years, 2)))

    def log_joint(rates, start, s):
        path = _runge_kutta(rates, start, num_years, steps_a_year)
        log_path = tf.math.log(path)
        shape = [num_years] + [1] * (start.shape.rank - 1) + [2]
        data = tf.reshape(constant(np.log(counts), start), shape)
        likelihood = tf.reduce_sum(normal(data, log_path, s), axis=[0, -1])
        centres = constant(np.array([1.0, 0.05, 1.0, 0.05]), rates)
        prior = normals(rates, centres, centres / 2) + normals(tf.math.log(start), np.log(10), 1.0)
        return prior + normals(tf.math.log(s), -1.0, 1.0) + likelihood

    return posterior(
        'lotka_volterra',
        'simulated',
        log_joint,
        rates=positive(4),
        start=positive(2),
        s=positive(2),
    )


def _runge_kutta(rates, state, num_years, steps_a_year):
    """Path at the end of each year [num_years, ..., 2]."""
    a, b, c, d = tf.unstack(rates, axis=-1)
    step = 1.0 / steps_a_year

    def slope(z):
        prey, predator = z[..., 0], z[..., 1]
        return tf.stack([(a - b * predator) * prey, (d * prey - c) * predator], axis=-1)

    def one(z, _):
        k1 = slope(z)
        k2 = slope(z + step / 2 * k1)
        k3 = slope(z + step / 2 * k2)
        k4 = slope(z + step * k3)
        return z + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    path = tf.scan(one, tf.range(num_years * steps_a_year), state)
    return path[steps_a_year - 1 :: steps_a_year]


def one_compartment() -> Target:
    """Drug concentrations of ten patients after an oral dose, with their own rates."""
    rng = np.random.default_rng(132)
    times, dose, num_patients = np.array([0.5, 1, 2, 4, 6, 8, 12, 24.0]), 100.0, 10
    logs = np.log([1.2, 0.15, 20.0]) + 0.2 * rng.normal(size=(num_patients, 3))
    absorb, leave, volume = np.exp(logs).T[..., np.newaxis]
    clean = dose * absorb / volume / (absorb - leave)
    clean = clean * (np.exp(-leave * times) - np.exp(-absorb * times))
    seen = np.log(clean) + 0.1 * rng.normal(size=clean.shape)

    def log_joint(centre, spread, z, s):
        shape = tf.concat([tf.shape(z)[:-1], [num_patients, 3]], axis=0)
        own = tf.reshape(z, shape)
        log_rates = tf.math.log(centre)[..., tf.newaxis, :] + spread[..., tf.newaxis, :] * own
        log_leave, log_gap, log_volume = tf.unstack(log_rates[..., tf.newaxis], axis=-2)
        leave, gap = tf.exp(log_leave), tf.exp(log_gap)
        t = constant(times, z)
        # absorption is faster than elimination by `gap`; log(e^(-leave t) - e^(-(leave + gap) t))
        log_mean = np.log(dose) + tf.math.log(leave + gap) - log_volume - log_gap
        log_mean += -leave * t + tf.math.log(-tf.math.expm1(-gap * t))
        data = tf.reduce_sum(normals(constant(seen, z), log_mean, each(each(s))), axis=-1)
        prior = normals(tf.math.log(centre), constant(np.log([0.2, 1.0, 20.0]), z), 1.0)
        return prior + normals(spread, 0, 0.5) + normals(z) + normal(s, 0, 0.5) + data

    return posterior(
        'one_compartment',
        'simulated',
        log_joint,
        centre=positive(3),
        spread=positive(3),
        z=real(3 * num_patients),
        s=positive(),
    )
