"""In many dimensions, a dense metric for the warm-up to begin with: the Hessian at one place.

A chain takes D / C products of the Hessian with unit vectors, so that C chains have all of it. On
a Gaussian the metric is exact, whatever the condition number, and the warm-up has nothing to learn
but the step size. In hundreds of dimensions it would not learn the directions in a thousand steps.
"""

import math

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import loops
from tfp_adaptive.typing import LogDensity, Tensor

MANY_DIMENSIONS = 50
"""In fewer the warm-up learns the metric itself, and needs no second derivatives for it."""
_ROUNDING = 8
"""Curvatures below so many units of rounding of the largest are noise."""


def num_gradients(num_chains: int, event_size: int) -> int:
    """Gradients that `hessian` takes of a chain; a product counts as two.

    Args:
      num_chains: C.
      event_size: D.
    """
    return 2 * math.ceil(event_size / num_chains) + 2


def hessian(target: LogDensity, position: Tensor, scale: Tensor) -> Tensor:
    """-(Hessian of log pi) in coordinates x / scale, where the density is the highest.

    That is at one of the chains or at their mean. Every chain computes other rows of it.

    Args:
      target: on packed positions.
      position: [C, D], where the chains are.
      scale: [D], of the coordinates.

    Returns:
      [D, D], as symmetric as rounding leaves it; not finite where a product is not.
    """
    num_chains, size = position.shape
    mean = tf.broadcast_to(tf.reduce_mean(position, axis=0), position.shape)
    places = tf.concat([position, mean[:1]], axis=0)
    log_prob = tf.concat([target.value(position), target.value(mean)[:1]], axis=0)
    place = tf.broadcast_to(tf.gather(places, tf.argmax(log_prob)), position.shape)
    num_rows = math.ceil(size / num_chains)

    def product(index, rows, place):
        which = index * num_chains + tf.range(num_chains)
        unit = tf.one_hot(which, size, dtype=scale.dtype)
        row = -scale * target.hessian_vector_product(place, scale * unit)
        rows = tf.tensor_scatter_nd_update(rows, [[index]], row[tf.newaxis])
        return index + 1, rows, loops.varying(place)

    _, rows, _ = tf.while_loop(
        lambda index, *_: index < num_rows,
        product,
        (tf.constant(0), tf.zeros([num_rows, num_chains, size], scale.dtype), place),
        maximum_iterations=num_rows,
    )
    return tf.reshape(rows, [num_rows * num_chains, size])[:size]


def factor(curvature: Tensor) -> np.ndarray | None:
    """Lower triangular L with L L^T the inverse of a Hessian of -log pi.

    Negative curvatures, as they are in a place that is no mode, count by their size.

    Args:
      curvature: [D, D], of `hessian`.

    Returns:
      [D, D] float64, or `None` where the Hessian is not finite or zero.
    """
    matrix = np.asarray(curvature, np.float64)
    if not np.isfinite(matrix).all():
        return None
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    sizes = np.abs(values)
    if not sizes.max() > 0:
        return None
    resolved = _ROUNDING * np.finfo(curvature.dtype.as_numpy_dtype).eps * sizes.max()
    root = vectors / np.sqrt(np.maximum(sizes, resolved))
    # root root^T = upper^T upper, with no loss of digits by a product
    upper = np.asarray(np.linalg.qr(root.T, mode='r'))
    return upper.T * np.sign(np.diag(upper))
