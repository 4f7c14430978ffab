"""The limited-memory BFGS matrix of many chains at once, each with a memory of its own.

Notation: pairs (s_i, y_i) of steps and of changes of the gradient of U, oldest first, with
rho_i = 1 / s_i^T y_i. H is the inverse Hessian of U that they stand for, from H_0 = gamma I:

    H_{i+1} = (I - rho_i s_i y_i^T) H_i (I - rho_i y_i s_i^T) + rho_i s_i s_i^T

(Nocedal & Wright, Numerical Optimization, 2006, equation 7.16). Nothing of size D x D is made.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import Tensor


class Memory(NamedTuple):
    """The pairs of each chain, oldest first; both are divided by |s_i|, which leaves H as it is."""

    steps: Tensor
    """[C, m, D] s_i; 0 where there is no pair yet."""
    changes: Tensor
    """[C, m, D] y_i; likewise."""
    curvature: Tensor
    """[C, m] s_i^T y_i; likewise."""
    scale: Tensor
    """[C] gamma."""


def empty(position: Tensor, scale: Tensor, num_pairs: int) -> Memory:
    """No pairs: H = gamma I.

    Args:
      position: [C, D], for its shape.
      scale: gamma [C].
      num_pairs: m.
    """
    pairs = tf.stack([tf.zeros_like(position)] * num_pairs, axis=1)
    return Memory(pairs, pairs, tf.zeros_like(pairs[..., 0]), scale)


def push(memory: Memory, is_new: Tensor, step: Tensor, change: Tensor) -> Memory:
    """Adds a pair to the chains `is_new` that have seen positive curvature; their oldest goes.

    Args:
      memory: of C chains.
      is_new: [C] bool.
      step: s [C, D].
      change: y [C, D].
    """
    length = tf.sqrt(chains.squared_norm(step))
    inverse = tf.math.divide_no_nan(tf.ones_like(length), length)[:, tf.newaxis]
    step, change = step * inverse, change * inverse
    curvature, square = _dot(step, change), chains.squared_norm(change)
    smallest = 10 * np.finfo(step.dtype.as_numpy_dtype).eps * tf.sqrt(square)
    is_new &= tf.math.is_finite(square) & (curvature > smallest)
    step, change = (chains.keep(is_new, x) for x in (step, change))

    def shift(kept, row):
        return select(is_new, tf.concat([kept[:, 1:], row[:, tf.newaxis]], axis=1), kept)

    return Memory(
        shift(memory.steps, step),
        shift(memory.changes, change),
        shift(memory.curvature, curvature),
        tf.where(is_new, tf.math.divide_no_nan(curvature, square), memory.scale),
    )


def product(memory: Memory, x: Tensor) -> Tensor:
    """H x of x [C, D], by the two loops of Nocedal & Wright, algorithm 7.4."""
    num_pairs = memory.curvature.shape[1]

    def back(index, x, weights):
        step, change, rho = _pair(memory, num_pairs - 1 - index)
        weight = rho * _dot(step, x)
        # the newest first
        weights = tf.concat([weight[:, tf.newaxis], weights[:, :-1]], axis=1)
        return index + 1, x - weight[:, tf.newaxis] * change, weights

    def forth(index, x):
        step, change, rho = _pair(memory, index)
        weight = tf.gather(weights, index, axis=1)
        return index + 1, x + (weight - rho * _dot(change, x))[:, tf.newaxis] * step

    _, x, weights = _for_pairs(num_pairs, back, x, tf.zeros_like(memory.curvature))
    _, x = _for_pairs(num_pairs, forth, memory.scale[:, tf.newaxis] * x)
    return x


def draw(memory: Memory, normal: Tensor) -> Tensor:
    """N(0, H), by the recursion of H: x <- x - rho_i (y_i^T x) s_i + sqrt(rho_i) e_i s_i.

    Args:
      memory: of C chains.
      normal: standard normal [..., C, D + m]; the last m are e.

    Returns:
      [..., C, D].
    """
    num_dims = memory.steps.shape[-1]

    def add(index, x):
        step, change, rho = _pair(memory, index)
        noise = tf.gather(normal, num_dims + index, axis=-1)
        weight = tf.sqrt(rho) * noise - rho * _dot(change, x)
        return index + 1, x + weight[..., tf.newaxis] * step

    start = tf.sqrt(memory.scale)[:, tf.newaxis] * normal[..., :num_dims]
    return _for_pairs(memory.curvature.shape[1], add, start)[1]


def log_det(memory: Memory) -> Tensor:
    """The logarithm of det H, [C].

    From the compact form (Byrd, Nocedal & Schnabel 1994, theorem 2.3): with S and Y the pairs as
    columns and L the part of S^T Y below its diagonal diag(s_i^T y_i),
    log det H = D log gamma - sum_i log(s_i^T y_i) + log det(S^T S / gamma + L diag^{-1} L^T).
    In double precision: where curvatures differ much, rows of that matrix hardly differ.
    """
    dtype = memory.scale.dtype
    memory = tf.nest.map_structure(lambda x: tf.cast(x, tf.float64), memory)
    steps, changes, curvature, _ = memory
    rho = tf.math.divide_no_nan(tf.ones_like(curvature), curvature)
    gram = tf.matmul(steps, steps, transpose_b=True) / memory.scale[:, tf.newaxis, tf.newaxis]
    mixed = tf.matmul(steps, changes, transpose_b=True)
    index = tf.range(curvature.shape[1])
    lower = tf.where(index[:, tf.newaxis] > index, mixed, tf.zeros_like(mixed))
    matrix = gram + tf.matmul(lower * rho[:, tf.newaxis], lower, transpose_b=True)
    is_empty = tf.cast(curvature <= 0, curvature.dtype)
    # in units of its diagonal
    diagonal = tf.linalg.diag_part(matrix) + is_empty
    size = tf.math.rsqrt(diagonal)
    matrix = size[:, :, tf.newaxis] * matrix * size[:, tf.newaxis] + tf.linalg.diag(is_empty)
    root = tf.linalg.diag_part(tf.linalg.cholesky(matrix))
    of_pairs = 2 * tf.math.log(root) + tf.math.log(diagonal)
    of_pairs -= tf.math.log(tf.where(curvature > 0, curvature, tf.ones_like(curvature)))
    num_dims = tf.cast(tf.shape(steps)[-1], curvature.dtype)
    log_det = num_dims * tf.math.log(memory.scale) + tf.reduce_sum(of_pairs, axis=-1)
    return tf.cast(log_det, dtype)


def select(mask: Tensor, yes, no):
    """Selects by chain: mask [C], yes and no nests of tensors [C, ...]."""

    def one(yes, no):
        return tf.where(tf.reshape(mask, [-1] + [1] * (yes.shape.rank - 1)), yes, no)

    return tf.nest.map_structure(one, yes, no)


def _for_pairs(num_pairs, body, *start):
    """A loop, not a program for every pair: what compiles once takes a fraction of the time."""
    return tf.while_loop(
        lambda index, *_: index < num_pairs,
        body,
        (tf.constant(0), *start),
        maximum_iterations=num_pairs,
    )


def _pair(memory, index):
    """(s_i, y_i, rho_i)."""
    step, change, curvature = (
        tf.gather(x, index, axis=1) for x in (memory.steps, memory.changes, memory.curvature)
    )
    return step, change, tf.math.divide_no_nan(tf.ones_like(curvature), curvature)


def _dot(x, y):
    """[C, D] and [..., C, D] -> [..., C]."""
    return chains.sum_of_row(x * y)
