"""Checks of the arguments that all kernels share."""

import numpy as np
import tensorflow as tf


def check_num_adaptation_steps(steps) -> None:
    """A count, or a tensor.

    Raises:
      ValueError: for anything else.
    """
    if tf.is_tensor(steps):
        return
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 0:
        raise ValueError(f'`num_adaptation_steps` must be an int of at least 0; got {steps!r}.')


def check_step_size(step_size) -> None:
    """Positive and finite, as far as that is known before a graph runs.

    Raises:
      ValueError: for anything else.
    """
    try:
        tensor = tf.convert_to_tensor(step_size)
    except (TypeError, ValueError):
        is_positive = False
    else:
        value = tf.get_static_value(tensor)
        is_number = tensor.dtype.is_floating or tensor.dtype.is_integer
        is_positive = is_number and (
            value is None or bool((np.isfinite(value) & (value > 0)).all())
        )
    if not is_positive:
        raise ValueError(
            '`step_size` must be positive and finite, a scalar or one value per chain; '
            f'got {step_size!r}.'
        )


def initial_step_size(step_size, log_prob: tf.Tensor) -> tf.Tensor:
    """The step size as a tensor of the dtype of `log_prob` [*batch].

    Raises:
      ValueError: if it is neither a scalar nor one value per chain.
    """
    step_size = tf.convert_to_tensor(step_size, log_prob.dtype, name='step_size')
    given, num_chains = step_size.shape.num_elements(), log_prob.shape.num_elements()
    if step_size.shape.rank and None not in (given, num_chains) and given != num_chains:
        raise ValueError(
            f'`step_size` must be a scalar or hold one value for each of the {num_chains} '
            f'chains; got shape {step_size.shape}.'
        )
    return step_size
