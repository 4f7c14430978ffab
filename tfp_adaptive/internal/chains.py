"""Row-wise helpers on [C, ...] tensors; nothing here mixes chains."""

import tensorflow as tf


def count(x: tf.Tensor):
    """C of a tensor [C, ...]: a Python int where static, else a scalar tensor."""
    return x.shape[0] if x.shape[0] is not None else tf.shape(x)[0]


def where(mask: tf.Tensor, yes: tf.Tensor, no: tf.Tensor) -> tf.Tensor:
    """Selects whole rows: mask [C], yes and no [C, ...]."""
    return tf.where(mask if yes.shape.rank == 1 else mask[:, tf.newaxis], yes, no)


def keep(mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Rows of x [C, ...] where mask holds and zeros elsewhere: a NaN there does no harm."""
    return where(mask, x, tf.zeros_like(x))


def per_chain(x: tf.Tensor) -> tf.Tensor:
    """A scalar, or a value per chain of any shape with C entries as [C, 1]."""
    return x if x.shape.rank == 0 else tf.reshape(x, [-1, 1])


def all_finite(x: tf.Tensor) -> tf.Tensor:
    """[C, D] -> [C] whether every entry of the row is finite."""
    return tf.reduce_all(tf.math.is_finite(x), axis=-1)


def squared_norm(x: tf.Tensor) -> tf.Tensor:
    """[C, D] -> [C] sum of squares."""
    return tf.reduce_sum(tf.square(x), axis=-1)


@tf.custom_gradient
def drop_nonfinite_gradient(x):
    """Identity whose backward pass replaces non-finite cotangents by zero."""

    def backward(cotangent):
        return tf.where(tf.math.is_finite(cotangent), cotangent, tf.zeros_like(cotangent))

    return tf.identity(x), backward
