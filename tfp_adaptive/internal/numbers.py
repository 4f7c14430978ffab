"""Numbers that users give."""

import numbers
from typing import Any

import tensorflow as tf


def check_number(name: str, value: Any) -> None:
    """Refuses what cannot be compared with a number, such as text.

    Args:
      name: of the argument.
      value: as the user gave it.

    Raises:
      TypeError: if it is neither a real number nor a tensor or an array.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number or tf.is_tensor(value) or hasattr(value, '__array__')):
        raise TypeError(f'`{name}` must be a number; got {value!r:.60}.')


def check_accept_prob(value) -> None:
    """Strictly between 0 and 1.

    Raises:
      ValueError: for anything else.
    """
    check_number('target_accept_prob', value)
    if not 0 < value < 1:
        raise ValueError(f'`target_accept_prob` must lie strictly between 0 and 1; got {value}.')
