"""Functions of the scalar product x^T z."""

import tensorflow as tf

from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.kernel_functions.records import KernelFunction


def linear() -> KernelFunction:
    """k(x, z) = x^T z, with which a kernel-adaptive sampler is an adaptive Metropolis sampler.

    Returns:
      A `KernelFunction` whose gradient is z, wherever x is.

    Reference: Sejdinovic et al. Kernel adaptive Metropolis-Hastings. ICML 2014. Section 4.2.

    Example:
      >>> k = tfpa.kernel_functions.linear()
      >>> float(k.value(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])))
      11.0
    """
    return KernelFunction(
        value=lambda x, z: tf.reduce_sum(x * z, axis=-1),
        gradient=lambda x, z: z + tf.zeros_like(x),
    )


def polynomial(degree: int = 2, offset: float = 1.0) -> KernelFunction:
    """k(x, z) = (x^T z + offset)^degree.

    Args:
      degree: at least 1, a Python int. Default 2.
      offset: not negative. Default 1.

    Returns:
      A `KernelFunction` whose gradient is degree (x^T z + offset)^(degree - 1) z.

    Raises:
      TypeError: if an argument is not a number.
      ValueError: if an argument is out of its range.

    Reference: Sejdinovic et al. Kernel adaptive Metropolis-Hastings. ICML 2014. Section 4.2.

    Example:
      >>> k = tfpa.kernel_functions.polynomial(degree=2)
      >>> float(k.value(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])))
      144.0
    """
    if isinstance(degree, bool) or not isinstance(degree, int):
        raise TypeError(f'`degree` must be a Python int; got {degree!r:.60}.')
    check_number('offset', offset)
    if degree < 1:
        raise ValueError(f'`degree` must be at least 1; got {degree}.')
    if not offset >= 0:
        raise ValueError(f'`offset` must not be negative; got {offset}.')

    def base(x, z):
        return tf.reduce_sum(x * z, axis=-1) + offset

    def gradient(x, z):
        # a product of its factors: 0^0 is 1, and the power of a tensor may be NaN there
        slope = tf.ones_like(base(x, z))
        for _ in range(degree - 1):
            slope *= base(x, z)
        return degree * slope[..., tf.newaxis] * z

    return KernelFunction(lambda x, z: base(x, z) ** degree, gradient)
