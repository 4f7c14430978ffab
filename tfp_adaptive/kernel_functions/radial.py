"""Functions of the distance r = |z - x|, whose gradient in x is g(r) (z - x)."""

import math
from collections.abc import Callable

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.kernel_functions.records import KernelFunction

_POLYNOMIALS = {
    1.5: ((1.0, 1.0), (1.0,)),
    2.5: ((1.0, 1.0, 1.0 / 3), (1.0, 1.0)),
    3.5: ((1.0, 1.0, 0.4, 1.0 / 15), (1.0, 1.0, 1.0 / 3)),
}
"""Smoothness -> coefficients in u of k exp(u), and of g exp(u) / g(0)."""


def gaussian(length_scale: float = 1.0) -> KernelFunction:
    """k(x, z) = exp(-|x - z|^2 / (2 l^2)).

    Args:
      length_scale: l, positive. Default 1.

    Returns:
      A `KernelFunction` whose gradient is k(x, z) (z - x) / l^2.

    Raises:
      TypeError: if `length_scale` is not a number.
      ValueError: if it is not positive.

    Reference: Sejdinovic et al. Kernel adaptive Metropolis-Hastings. ICML 2014. Section 4.2.

    Example:
      >>> k = tfpa.kernel_functions.gaussian(length_scale=2.0)
      >>> round(float(k.value(tf.constant([0.0]), tf.constant([2.0]))), 4)
      0.6065
    """
    _check_positive('length_scale', length_scale)
    precision = 1 / length_scale**2

    def value(x, z):
        return tf.exp(-0.5 * precision * tf.reduce_sum(tf.math.squared_difference(x, z), axis=-1))

    return KernelFunction(value, lambda x, z: precision * value(x, z)[..., tf.newaxis] * (z - x))


def matern(smoothness: float = 4.0, length_scale: float = 1.0) -> KernelFunction:
    """The Matern function of smoothness v: a process with it is ceil(v) - 1 times differentiable.

        k(x, z) = u^v K_v(u) / (Gamma(v) 2^(v - 1)),   u = sqrt(2 v) |x - z| / l
        gradient in x = (2 v / l^2) u^(v - 1) K_{v-1}(u) / (Gamma(v) 2^(v - 1)) (z - x)

    The gradient printed by Li, Zeng and Guo has the length-scale of the wrong order; this is the
    gradient of k.

    Args:
      smoothness: v > 1; at 3/2, 5/2 and 7/2 polynomials times exponentials, else Bessel functions.
        Default 4.
      length_scale: l, positive. Default 1.

    Returns:
      A `KernelFunction`; its gradient is zero where x = z.

    Raises:
      TypeError: if an argument is not a number.
      ValueError: if `length_scale` is not positive or `smoothness` not above 1, below which the
        slope g(r) is not bounded.

    Reference: C. Rasmussen, C. Williams. Gaussian processes for machine learning. 2006. Equation
    4.14; Li, Zeng & Guo. Cyclical kernel adaptive Metropolis.

    Example:
      >>> k = tfpa.kernel_functions.matern(smoothness=1.5)
      >>> round(float(k.value(tf.constant([0.0]), tf.constant([1.0]))), 4)
      0.4834
    """
    _check_positive('length_scale', length_scale)
    check_number('smoothness', smoothness)
    if not 1 < smoothness < math.inf:
        raise ValueError(f'`smoothness` must be finite and above 1; got {smoothness}.')
    if smoothness in _POLYNOMIALS:
        value, slope = (_damped_polynomial(c) for c in _POLYNOMIALS[smoothness])
    else:
        value, slope = _damped_bessel(smoothness), _damped_bessel(smoothness - 1)
    steepest = smoothness / ((smoothness - 1) * length_scale**2)

    def scaled_distance(x, z):
        square = tf.reduce_sum(tf.math.squared_difference(x, z), axis=-1)
        return tf.sqrt(2 * smoothness * square) / length_scale

    return KernelFunction(
        value=lambda x, z: value(scaled_distance(x, z)),
        gradient=lambda x, z: steepest * slope(scaled_distance(x, z))[..., tf.newaxis] * (z - x),
    )


def _damped_polynomial(coefficients) -> Callable:
    def function(u):
        return tf.math.polyval([tf.constant(c, u.dtype) for c in coefficients[::-1]], u) * tf.exp(
            -u
        )

    return function


def _damped_bessel(order) -> Callable:
    """The function u^v K_v(u) / (Gamma(v) 2^(v - 1)) of u, which is 1 at 0."""
    log_constant = math.lgamma(order) + (order - 1) * math.log(2)

    def function(u):
        # below this K overflows, and the function is 1 to rounding
        least = tf.constant(1e-3, u.dtype)
        safe = tf.maximum(u, least)
        log_bessel = tfp.math.log_bessel_kve(tf.constant(order, u.dtype), safe) - safe
        value = tf.exp(order * tf.math.log(safe) + log_bessel - log_constant)
        return tf.where(u < least, tf.ones_like(u), value)

    return function


def _check_positive(name, value):
    check_number(name, value)
    if not 0 < value < math.inf:
        raise ValueError(f'`{name}` must be positive and finite; got {value}.')
