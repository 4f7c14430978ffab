"""The plain arguments of the drivers, checked before anything is computed or written."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

_MAX_SHOWN = 60


def shown(value: Any) -> str:
    """A value as one short line of a message."""
    line = ' '.join(repr(value).split())
    return line if len(line) <= _MAX_SHOWN else f'{line[:_MAX_SHOWN]}...'


def count(name: str, value: Any, least: int) -> int:
    """The count that an argument is; refuses what is none.

    Args:
      name: of the argument.
      value: as the user gave it.
      least: smallest that is allowed.

    Raises:
      ValueError: if it is no int of at least `least`.
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f'`{name}` must be an int of at least {least}; got {shown(value)}.')
    return int(value)


def check_flag(name: str, value: Any) -> None:
    """Refuses what is neither true nor false.

    Args:
      name: of the argument.
      value: as the user gave it.

    Raises:
      TypeError: if it is no bool.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f'`{name}` must be True or False; got {shown(value)}.')


def check_trace_fn(trace_fn: Any) -> None:
    """Refuses what cannot be called with a state and kernel results.

    Args:
      trace_fn: as the user gave it.

    Raises:
      TypeError: if it is neither `None` nor a function of two arguments.
    """
    if trace_fn is None or (callable(trace_fn) and _takes(trace_fn, 2)):
        return
    raise TypeError(
        '`trace_fn` must be a function of two arguments, such as lambda state, kernel_results: '
        f'kernel_results.is_accepted; got {shown(trace_fn)}.'
    )


def floating_dtype(dtype: Any) -> tf.DType | None:
    """`dtype` as TensorFlow's; `None` stays.

    Args:
      dtype: as the user gave it.

    Raises:
      TypeError: if it is neither float32 nor float64.
    """
    if dtype is None:
        return None
    try:
        found = tf.as_dtype(dtype)
    except TypeError:
        found = None
    if found not in (tf.float32, tf.float64):
        raise TypeError(f'`dtype` must be tf.float32 or tf.float64; got {shown(dtype)}.')
    return found


def stateless_seed(seed: Any) -> tf.Tensor:
    """int32 [2]; an int, which TFP would use to seed a stateful generator, by its two halves.

    Args:
      seed: as the user gave it.

    Raises:
      TypeError: if it is no seed.
    """
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if not -(2**63) <= int(seed) < 2**64:
            raise TypeError(f'`seed` must fit into 64 bits; got {shown(seed)}: pass a smaller one.')
        halves = np.array([(int(seed) >> 32) & 0xFFFFFFFF, int(seed) & 0xFFFFFFFF], np.uint32)
        return tf.constant(halves.view(np.int32))
    message = (
        f'`seed` must be an int or a pair of ints; got {shown(seed)}: pass, for example, seed=1.'
    )
    try:
        found = None if isinstance(seed, bool) else tfp.random.sanitize_seed(seed)
    except Exception as error:
        raise TypeError(message) from error
    if found is None or found.shape != [2]:
        raise TypeError(message)
    return found


def _takes(function: Callable, count: int) -> bool:
    """Whether a function can be called with so many arguments, as far as can be told."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def traced_tensors(traced: Any) -> Any:
    """What a `trace_fn` returned, as a nest of tensors.

    Args:
      traced: nest of tensors and numbers.

    Raises:
      TypeError: if there is anything else in it.
      ValueError: if a shape is not static.
    """
    try:
        traced = tf.nest.map_structure(tf.convert_to_tensor, traced)
    except (TypeError, ValueError) as error:
        raise TypeError(
            '`trace_fn` must return a nest of tensors and numbers, such as '
            'kernel_results.is_accepted or a dict of them; got '
            f'{type(traced).__name__} {traced!r:.80}.'
        ) from error
    for leaf in tf.nest.flatten(traced):
        if not (leaf.dtype.is_floating or leaf.dtype.is_integer or leaf.dtype.is_bool):
            raise TypeError(
                f'`trace_fn` must return tensors of numbers or bools; got {leaf.dtype.name}: leave '
                'it out.'
            )
        if not leaf.shape.is_fully_defined():
            raise ValueError(
                f'`trace_fn` must return tensors of static shape; got {leaf.shape}: use '
                'tf.ensure_shape.'
            )
    return traced
