"""What a kernel, a target or a function is, as flat text and tokens: to find it, to name a change.

Two kernels with equal signatures take the same steps, so that one compiled program serves both,
and the text of a signature is the same in another process, so that a checkpoint can say which
setting differs.
"""

import contextlib
import functools
import hashlib
import inspect
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic)
_LIBRARIES = ('tensorflow', 'tensorflow_probability', 'keras', 'tf_keras')
_UNSEEN = ('name', 'self', '__class__')
_LONG = 100
GLOBALS = 'globals'
"""In the path of a function that another one names: part of its code, and no setting."""


class Same:
    """Equal to itself alone, and keeps its object from being replaced by another of the same id."""

    def __init__(self, value: Any):
        """Initializes this token.

        Args:
          value: any object.
        """
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


class Leaf(NamedTuple):
    """One setting."""

    text: str
    """The same in every process."""
    token: Any = None
    """What tells it apart in this process, beyond the text."""


def signature(value: Any, name: str, target: Any = None) -> dict[str, Leaf]:
    """The settings of a kernel, a function or a record, by their path.

    Args:
      value: a kernel, by its `parameters`; a function, by its code and what that refers to; a
        record, a list or a dict by their items; an array by its content.
      name: of the root.
      target: an object whose text is 'target' wherever it occurs.

    Returns:
      {path: leaf}, such as {'kernel': ..., 'kernel.num_leapfrog_steps': Leaf('2')}.
    """
    found: dict[str, Leaf] = {}
    _walk(value, name, target, (), found, {})
    return found


def _walk(value, path, target, above, found, functions):
    # what refers back to itself has been described already
    if any(value is outer for outer in above):
        return

    def descend(child, name):
        _walk(child, f'{path}.{name}', target, (*above, value), found, functions)

    is_helper = inspect.isfunction(value) and value is not target
    if is_helper and functions.setdefault(value, path) != path:
        # helpers that call one another would be described once for every way to them
        found[path] = Leaf(f'{_name(value)} of {functions[value]}')
        return
    if target is not None and value is target:
        found[path] = Leaf('target')
    elif isinstance(value, _PLAIN):
        found[path] = Leaf(repr(value))
    elif isinstance(value, (np.ndarray, tf.Tensor)) and hasattr(value, '__array__'):
        found[path] = Leaf(_digest(np.asarray(value)))
    elif isinstance(value, (list, tuple)) and len(value) > _LONG and _are_plain(value):
        found[path] = Leaf(f'{len(value)} {_hash(repr(value))}')
    elif isinstance(value, (tf.DType, np.dtype, type, types.BuiltinFunctionType)):
        token = Same(value) if isinstance(value, type) else None
        found[path] = Leaf(getattr(value, '__qualname__', str(value)), token)
    else:
        token, children = _parts(value)
        found[path] = Leaf(_name(value), token)
        for name, child in children:
            descend(child, name)


def _parts(value):
    """(token, [(name, child)]) of something that has parts; without any, it is itself alone."""
    parameters = getattr(value, 'parameters', None)
    if isinstance(value, Mapping):
        return None, [(str(key), value[key]) for key in sorted(value, key=str)]
    if isinstance(value, (list, tuple)):
        names = getattr(value, '_fields', range(len(value)))
        return None, list(zip(names, value, strict=True))
    if isinstance(value, functools.partial):
        return None, [('func', value.func), ('args', value.args), *value.keywords.items()]
    if inspect.isfunction(value):
        return _function_parts(value)
    if inspect.ismethod(value):
        return None, [('func', value.__func__), ('self', value.__self__)]
    # a class that is defined once more is another
    if is_dataclass(value):
        return Same(type(value)), [
            (field.name, getattr(value, field.name)) for field in fields(value)
        ]
    if isinstance(parameters, Mapping):
        return Same(type(value)), [
            (k, v) for k, v in sorted(parameters.items()) if k not in _UNSEEN
        ]
    return (Same(value), _content(value)), []


def _content(value):
    """What may change within an object that stays the same: its numbers, texts and arrays.

    Objects of libraries keep counts of their own, which say nothing.
    """
    is_of_library = type(value).__module__.partition('.')[0] in _LIBRARIES
    if is_of_library or isinstance(value, types.ModuleType):
        return ()
    if isinstance(value, np.ndarray):
        return (_digest(value),)
    if isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    else:
        found = value if isinstance(value, dict) else getattr(value, '__dict__', {})
        items = list(found.items())
    return tuple(
        (key, _digest(each) if isinstance(each, np.ndarray) else each)
        for key, each in items
        if isinstance(each, (*_PLAIN, np.ndarray))
    )


def _function_parts(function):
    """A function is its code, its defaults, what it closes over and the globals it names.

    Functions of its own module among these are described likewise, as they name globals too.
    """
    code, module = function.__code__, function.__globals__
    children = sorted(_closed_over(function))
    children += [('defaults', function.__defaults__), ('kwdefaults', function.__kwdefaults__)]
    token = [code]
    for name in sorted(_names(code) & module.keys()):
        value = module[name]
        if inspect.isfunction(value) and value.__globals__ is module:
            children.append((f'{GLOBALS}.{name}', value))
        else:
            token.append((Same(value), _content(value)))
    return tuple(token), children


def _closed_over(function):
    """(name, value) of what a function closes over, as far as it has a value yet."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            yield name, cell.cell_contents


def _names(code):
    """Names in a piece of code and in the functions that it makes."""
    inner = (_names(x) for x in code.co_consts if inspect.iscode(x))
    return set(code.co_names).union(*inner)


def _are_plain(values):
    return all(isinstance(each, _PLAIN) for each in values)


def _hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _digest(array):
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]
    return f'{array.dtype} {array.shape} {content}'


def _name(value):
    """What a function does, whichever module it was imported from; or the type of a record."""
    if inspect.isfunction(value):
        return f'{value.__qualname__} {_code_digest(value.__code__)}'
    return f'{type(value).__module__}.{type(value).__qualname__}'


def _code_digest(code):
    return _hash(repr((code.co_code, _constant(code.co_consts), code.co_names)))


def _constant(value):
    """Text of a constant of code; strings in a set have another order in every process."""
    if inspect.iscode(value):
        return _code_digest(value)
    if isinstance(value, tuple):
        return f'({", ".join(map(_constant, value))})'
    if isinstance(value, frozenset):
        return f'{{{", ".join(sorted(map(_constant, value)))}}}'
    return repr(value)
