"""The second stage of a warm-up: a scale for every coordinate, from where the chains are.

Where coordinates are independent and normal with deviations sigma_i, the score of coordinate i is
-(x_i - m_i) / sigma_i^2. So the spread of x_i over the chains, divided by the spread of its score,
is sigma_i^2, however the chains are spread. This is the diagonal metric of least Fisher divergence
(`tuning.fisher`), with the median absolute deviation for the spread: a few stray chains do not
change it.
"""

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import LogDensity, Tensor

NUM_GRADIENTS = 2
MIN_CHAINS = 4
"""Fewer have no spread to speak of."""
_OFFSET = 0.1
"""Of the secant, in deviations."""
_RESOLUTION = 1e-5
"""The same, relative to the position in deviations: what a float32 can resolve."""


def first_scale(target: LogDensity, position: Tensor, may_differ: Tensor) -> Tensor:
    """Deviations s of the coordinates, times the largest factor for which s is a stable step.

    The factor is 1 / sqrt(largest curvature in coordinates x / s), by the secant along the score,
    the largest over chains. It takes `NUM_GRADIENTS` gradients a chain.

    Args:
      target: on packed positions.
      position: [C, D], where the chains are.
      may_differ: scalar bool, whether they are in the typical set. If not, or with fewer than four
        chains, all s are equal.

    Returns:
      [D], positive and finite.
    """

    def take(index, at, first, change, unit):
        log_prob, score = target.value_and_score(at)
        score = chains.where(tf.math.is_finite(log_prob), score, score * np.nan)
        first = tf.where(tf.equal(index, 0), score, first)
        unit = tf.where(may_differ, _unit(position, first), tf.ones_like(position[0]))
        shift = _secant(position / unit, unit * first)
        return index + 1, position + unit * shift, first, score - first, unit

    still = tf.zeros_like(position)
    start = (tf.constant(0), position, still, still, tf.ones_like(position[0]))
    *_, first, change, unit = tf.while_loop(
        lambda index, *_: index < NUM_GRADIENTS, take, start, maximum_iterations=NUM_GRADIENTS
    )
    offset = tf.sqrt(chains.squared_norm(_secant(position / unit, unit * first)))
    curvature = tf.sqrt(chains.squared_norm(unit * change)) / offset
    is_usable = tf.math.is_finite(curvature) & (curvature > 0)
    largest = tf.reduce_max(tf.where(is_usable, curvature, tf.zeros_like(curvature)))
    return unit * tf.math.rsqrt(tf.where(largest > 0, largest, tf.ones_like(largest)))


def _secant(position, score):
    """[C, D], a little way along the score, or along the diagonal of the axes without one."""
    length = tf.sqrt(chains.squared_norm(score))[:, tf.newaxis]
    anywhere = tf.ones_like(position) / position.shape[-1] ** 0.5
    has_slope = tf.math.is_finite(length) & (length > 0)
    direction = tf.where(has_slope, tf.math.divide_no_nan(score, length), anywhere)
    size = tf.sqrt(tf.reduce_mean(tf.square(position), axis=-1, keepdims=True))
    return (_OFFSET + _RESOLUTION * size) * direction


def _unit(position, score):
    """The scales s, [D], from the chains whose score is finite."""
    is_finite = chains.all_finite(score)
    # a chain without a score is counted as another one that has it
    other = tf.argmax(is_finite, output_type=tf.int32)
    source = tf.where(is_finite, tf.range(tf.size(is_finite)), other)
    ratio = _spread(tf.gather(position, source)) / _spread(tf.gather(score, source))
    is_usable = tf.math.is_finite(ratio) & (ratio > 0)
    is_usable &= tf.reduce_sum(tf.cast(is_finite, tf.int32)) >= MIN_CHAINS
    log_unit = tf.math.log(tf.where(is_usable, ratio, tf.ones_like(ratio))) / 2
    num_usable = tf.reduce_sum(tf.cast(is_usable, ratio.dtype))
    middle = tf.math.divide_no_nan(tf.reduce_sum(log_unit), num_usable)
    return tf.exp(tf.where(is_usable, log_unit, middle))


def _spread(x):
    """Median absolute deviation over chains, [D]."""
    return _median(tf.abs(x - _median(x)))


def _median(x):
    ordered = tf.sort(x, axis=0)
    count = x.shape[0]
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
