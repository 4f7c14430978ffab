"""Errors inside what the user wrote, in terms of the arguments of `sample`."""

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

_MAX_REASON = 140
_OURS = re.compile(r'`\w+`|.*`(target|initial_state|kernel|trace_fn)`')
_REMEDIES = (
    (
        r'as a Python `bool`|as a Python `int`|[Ii]terating over a symbolic',
        'use tf.where and other TensorFlow operations in place of Python `if` and `for`',
    ),
    (
        r'ymbolic|to a numpy array',
        'compute with TensorFlow operations alone, without NumPy, float() and .numpy()',
    ),
)
_SHAPES = r'[Dd]imension|[Ii]ncompatible shapes|[Ss]hapes? must|\brank\b'
_CHATTER = (
    r" for '?\{\{.*| This error may indicate.*| You can attempt.*| Two shapes are compat.* is 1\."
    r'| when trying to compile graph \S+'
)
_PREAMBLE = re.compile(r'Graph execution error:|Detected at node|<stack traces|  File |\s*$')


def is_ours(error: Exception) -> bool:
    """Whether an error already names an argument of `sample`."""
    return bool(_OURS.match(str(error)))


@contextlib.contextmanager
def explained(
    argument: str,
    parts: Sequence[Any] = (),
    *,
    shapes: str = '',
    remedy: str = 'the error above says where',
) -> Iterator[None]:
    """Says which argument an error comes from, and what to do; the error itself is its cause.

    Args:
      argument: name of the argument of `sample` whose code runs here.
      parts: of the state that it runs on. Default: none.
      shapes: what to do if shapes do not fit. Default: `remedy`.
      remedy: what to do if the error itself does not suggest it. Default: to look at the cause.

    Raises:
      TypeError: for a `TypeError`.
      ValueError: for any other error but those of memory.
    """
    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except Exception as error:
        if is_ours(error) and isinstance(error, (TypeError, ValueError)):
            raise
        message = _sentence(argument, parts, error, shapes, remedy)
        raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error


def reason(error: Exception) -> str:
    """What an error says, without the names and attributes of graph nodes.

    Args:
      error: of TensorFlow or of anybody.
    """
    lines = str(error).strip().split('\n')
    line = next((line for line in lines if not _PREAMBLE.match(line)), lines[0])
    line = re.sub(_CHATTER, '', line)
    line = re.sub(r'\{\{.*?\}\}', '', line).strip(' .')
    return line if len(line) <= _MAX_REASON else f'{line[:_MAX_REASON]}...'


def _sentence(argument, parts, error, shapes, remedy):
    found = ', '.join(f'{part.dtype.name} {tuple(part.shape)}' for part in parts)
    where = f' on a state of {found}' if parts else ''
    remedies = (*_REMEDIES, (_SHAPES, shapes or remedy), ('', remedy))
    remedy = next(advice for pattern, advice in remedies if re.search(pattern, str(error)))
    return f'`{argument}` fails{where} with {type(error).__name__} ({reason(error)}): {remedy}.'


@contextlib.contextmanager
def renamed() -> Iterator[None]:
    """Complaints of a kernel with the names that its arguments have in `sample`."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        if message.startswith('Encountered `None` gradient.'):
            message = (
                '`target` does not depend on all parts of the state through differentiable '
                'TensorFlow operations: compute it from them without NumPy, tf.py_function or '
                'tf.stop_gradient, or pass a `kernel` without gradients, such as '
                'tfp_adaptive.AdaptiveMetropolis.'
            )
        message = message.replace('`target_log_prob_fn`', '`target`')
        message = message.replace('`current_state`', '`initial_state`')
        if message == str(error):
            raise
        raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning that names the line of the user which called into the package.

    Args:
      message: a sentence.
      category: of the warning. Default `UserWarning`.
    """
    package, level, frame = __name__.partition('.')[0], 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get('__name__', '').partition('.')[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
