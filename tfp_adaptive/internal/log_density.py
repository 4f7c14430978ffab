"""The user's log-density: its value, score and Hessian-vector products, on packed positions."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import chains, packing
from tfp_adaptive.internal.in_sequence import in_sequence
from tfp_adaptive.typing import LogDensity


def checked_value(value: Any, parts: list, name: str = 'target_log_prob_fn') -> tf.Tensor:
    """What a function of the user has returned, as a tensor.

    Args:
      value: of the function.
      parts: that it was called with.
      name: of the argument that the function is.

    Raises:
      TypeError: if it is not of the parts' floating dtype.
    """
    value = tf.convert_to_tensor(value, name='target_log_prob')
    if value.dtype != parts[0].dtype:
        raise TypeError(
            f'`{name}` must return the dtype of the state; '
            f'got {value.dtype.name} for a state of {parts[0].dtype.name}. Cast one of them.'
        )
    return value


def value_and_gradients(
    fn: Callable, parts: list, sequence_limit: int = 0
) -> tuple[tf.Tensor, list]:
    """`fn(*parts)` and its gradient with respect to every part.

    Parts pass through `tf.identity`: a value that came out of a bijector would otherwise hit the
    bijector's cache, which returns a tensor the tape has never seen.

    Args:
      fn: of the parts.
      parts: of a state.
      sequence_limit: elements of the largest tensor of `fn` up to which the gradient is computed
        after the value. Default 0: they are independent.

    Raises:
      TypeError: if the value is not of the parts' floating dtype.
      ValueError: if the value does not depend differentiably on every part.
    """
    parts = [tf.identity(part) for part in parts]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(parts)
        value = checked_value(fn(*parts), parts)
    slope = in_sequence(value, tf.ones_like(value), since=parts, limit=sequence_limit)
    gradients = tape.gradient(value, parts, output_gradients=slope)
    for index, gradient in enumerate(gradients):
        if gradient is None:
            raise ValueError(
                f'Encountered `None` gradient: `target_log_prob_fn` does not depend on part '
                f'{index} of the state through differentiable TensorFlow operations. Compute it '
                'from the tensors it is given, without NumPy, tf.py_function or tf.stop_gradient, '
                'or sample it with AdaptiveMetropolis, which needs no gradient.'
            )
    return value, [tf.convert_to_tensor(gradient) for gradient in gradients]


def packed_log_density(
    fn: Callable, layout: packing.Layout, parts: list, sequence_limit: int = 0
) -> LogDensity:
    """`fn(*parts)` as a log-density on [C, D].

    Where the value or its gradient is not finite, `value_and_score` reports -inf and a score of
    zero: a move that ends there is rejected. `score`, for places on the way, sets single entries
    to zero: it is a function of the position too, so the move stays reversible, and it needs
    neither the value nor a sum over coordinates. A move that overflows on the way is rejected.

    Args:
      fn: the user's log-density of parts [*batch, *event], returning [*batch].
      layout: how the parts are packed.
      parts: a state, for its shapes alone.
      sequence_limit: of `value_and_gradients`, for `value_and_score`.
    """
    batch_shape = packing.batch_shape_of(layout, parts[0])

    def log_prob(position):
        return tf.reshape(fn(*packing.unpack(layout, position, batch_shape, like=parts)), [-1])

    impossible = tf.constant(float('-inf'), parts[0].dtype)

    def value(position):
        values = log_prob(tf.identity(position))
        return tf.where(tf.math.is_finite(values), values, impossible)

    def value_and_score(position):
        position = chains.drop_nonfinite_gradient(position)
        values, (score,) = value_and_gradients(log_prob, [position], sequence_limit)
        usable = tf.math.is_finite(values) & chains.all_finite(score)
        return tf.where(usable, values, impossible), chains.keep(usable, score)

    def score(position):
        position = chains.drop_nonfinite_gradient(position)
        _, (score,) = value_and_gradients(log_prob, [position])
        return tf.where(tf.math.is_finite(score), score, tf.zeros_like(score))

    def hessian_vector_product(position, x):
        position = tf.identity(position)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(position)
            _, (score,) = value_and_gradients(log_prob, [position])
        # the Hessian is symmetric, so its transpose will do: on a CPU two to five times faster
        # than a forward-mode product, and it does not mind custom gradients
        return tape.gradient(
            score, position, output_gradients=x, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    return LogDensity(value, value_and_score, score, hessian_vector_product, layout.event)
