"""TFP's softplus and sigmoid with gradients that are finite wherever they are.

The bijectors of positive and bounded parts choose by `tf.where` between two formulas, one of which
overflows above 88 in float32, and its gradient is then NaN though the other is chosen. The softplus
has a custom gradient against it. A `JointDistribution...AutoBatched` maps bijectors over chains by
`tf.vectorized_map`, which drops custom gradients, and so has none at any scale, count or capacity
in raw units. The sigmoid has none anywhere (TFP 0.25).
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf
from tensorflow_probability.python.bijectors import sigmoid as sigmoid_module
from tensorflow_probability.python.bijectors import softplus as softplus_module


def softplus(x: tf.Tensor) -> tf.Tensor:
    """log(1 + exp(x)), with full relative precision where it is small."""
    x = tf.convert_to_tensor(x)
    cutoff = _cutoff(x.dtype)
    small = tf.math.log1p(tf.exp(tf.minimum(x, cutoff)))
    return tf.where(x < cutoff, small, tf.nn.softplus(x))


def sigmoid(x: tf.Tensor) -> tf.Tensor:
    """1 / (1 + exp(-x)), likewise."""
    x = tf.convert_to_tensor(x)
    cutoff = _cutoff(x.dtype)
    return tf.where(x < cutoff, tf.exp(tf.minimum(x, cutoff)), tf.math.sigmoid(x))


def _cutoff(dtype):
    """Below it TFP takes the first formula, and so does this module."""
    return tf.constant(-20.0 if dtype == tf.float64 else -9.0, dtype)


_REPLACED = (
    (softplus_module, '_stable_grad_softplus', softplus),
    (sigmoid_module, '_stable_grad_softplus', softplus),
    (sigmoid_module, '_stable_sigmoid', sigmoid),
)


@contextlib.contextmanager
def in_bijectors() -> Iterator[None]:
    """While it lasts, bijectors of TFP compute by the functions above."""
    own = [getattr(module, name) for module, name, _ in _REPLACED]
    try:
        for module, name, function in _REPLACED:
            setattr(module, name, function)
        yield
    finally:
        for (module, name, _), function in zip(_REPLACED, own, strict=True):
            setattr(module, name, function)
