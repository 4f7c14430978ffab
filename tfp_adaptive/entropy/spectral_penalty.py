"""Penalty that keeps the whitened Jacobian residual D a contraction."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive.typing import Tensor


class SpectralPenalty(NamedTuple):
    """A penalty on the spectral radius and its derivative, elementwise."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def spectral_penalty(threshold: float = 0.75) -> SpectralPenalty:
    """pen(x) = 0 up to `threshold`, quadratic for one unit, linear with slope 2 after (C^1).

    Args:
      threshold: delta in (0, 1). The paper uses 0.75, and 0.95 for stochastic volatility.

    Returns:
      A `SpectralPenalty`.

    Raises:
      ValueError: if `threshold` is not in (0, 1).

    Reference: Hirt, Titsias & Dellaportas (2021), Appendix A.2, with the slope made continuous.

    Example:
      >>> penalty = tfpa.entropy.spectral_penalty(threshold=0.95)
      >>> entropy = tfpa.entropy.russian_roulette(penalty=penalty)
    """
    if not 0 < threshold < 1:
        raise ValueError(f'`threshold` must lie strictly between 0 and 1; got {threshold}.')

    def value(radius):
        excess = tf.nn.relu(radius - threshold)
        return tf.where(excess < 1, tf.square(excess), 2 * excess - 1)

    def slope(radius):
        return 2 * tf.clip_by_value(radius - threshold, 0, 1)

    return SpectralPenalty(value, slope)
