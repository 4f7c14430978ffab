"""In many dimensions, a dense metric for the warm-up to begin with: the Hessian at one place.

A chain takes D / C products of the Hessian with unit vectors, so that C chains have all of it.
Its eigenvectors are kept, and the scale along each of them is found as in `first_scale`: by the
spread of the chains there over that of their scores. One place does not tell: where U = sum(q^4),
the curvature is zero at the place of the highest density. On a Gaussian the metric is exact,
whatever the condition number, and the warm-up has nothing to learn but the step size. In hundreds
of dimensions it would not learn the directions in a thousand steps.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import loops
from tfp_adaptive.typing import LogDensity, Tensor

MANY_DIMENSIONS = 50
"""In fewer the warm-up learns the metric itself, and needs no second derivatives for it."""
_ROUNDING = 8
"""Curvatures below so many units of rounding of the largest are noise."""


def num_gradients(num_chains: int, event_size: int) -> int:
    """Gradients that `measure` takes of a chain; a product counts as two.

    Args:
      num_chains: C.
      event_size: D.
    """
    return 2 * math.ceil(event_size / num_chains) + 2


class Measured(NamedTuple):
    """What is known of a density where chains have arrived, in coordinates x / scale."""

    hessian: Tensor
    """[D, D], of -log pi, as symmetric as rounding leaves it; not finite where a product is not."""
    position: Tensor
    """[C, D], of the chains."""
    score: Tensor
    """[C, D], likewise."""


def measure(target: LogDensity, position: Tensor, scale: Tensor) -> Measured:
    """The Hessian where the density is the highest: at one of the chains, or at their mean.

    Every chain computes other rows of it.

    Args:
      target: on packed positions.
      position: [C, D], where the chains are.
      scale: [D], of the coordinates.
    """
    num_chains, size = position.shape
    mean = tf.broadcast_to(tf.reduce_mean(position, axis=0), position.shape)
    places = tf.concat([position, mean[:1]], axis=0)
    log_prob, score = target.value_and_score(position)
    log_prob = tf.concat([log_prob, target.value(mean)[:1]], axis=0)
    place = tf.broadcast_to(tf.gather(places, tf.argmax(log_prob)), position.shape)
    num_rows = math.ceil(size / num_chains)

    def products(index):
        which = index * num_chains + tf.range(num_chains)
        unit = tf.one_hot(which, size, dtype=scale.dtype)
        return -scale * target.hessian_vector_product(place, scale * unit)

    with loops.errors_leave_no_trace():
        rows = tf.map_fn(products, tf.range(num_rows), fn_output_signature=scale.dtype)
    hessian = tf.reshape(rows, [num_rows * num_chains, size])[:size]
    return Measured(hessian, position / scale, score * scale)


def factor(measured: Measured) -> np.ndarray | None:
    """Lower triangular L with columns of the scales of the chains along the Hessian's eigenvectors.

    Negative curvatures, as they are in a place that is no mode, count by their size.

    Args:
      measured: of at least `first_scale.MIN_CHAINS` chains.

    Returns:
      [D, D] float64, or `None` where the Hessian is zero, or something is not finite.
    """
    matrix, position, score = (np.asarray(x, np.float64) for x in measured)
    if not all(np.isfinite(x).all() for x in (matrix, position, score)):
        return None
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    sizes = np.abs(values)
    if not sizes.max() > 0:
        return None
    resolved = _ROUNDING * np.finfo(measured.hessian.dtype.as_numpy_dtype).eps * sizes.max()
    scales = 1 / np.sqrt(np.maximum(sizes, resolved))
    of_position, of_score = _spread(position @ vectors / scales), _spread(score @ vectors * scales)
    # chains that start at one point, and stay there, have the Hessian alone to go by
    is_known = (of_position > 0) & (of_score > 0)
    ratio = np.divide(of_position, of_score, out=np.ones_like(scales), where=is_known)
    root = vectors * (scales * np.sqrt(ratio))
    # root root^T = upper^T upper, with no loss of digits by a product
    upper = np.asarray(np.linalg.qr(root.T, mode='r'))
    return upper.T * np.sign(np.diag(upper))


def _spread(x):
    """Median absolute deviation over chains, [D]."""
    return np.median(np.abs(x - np.median(x, axis=0)), axis=0)
