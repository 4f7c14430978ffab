"""Functions of TensorFlow and TFP that others take the place of for a while."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_LOCK = threading.RLock()
"""One thread at a time: of two, the second would put back what the first has set."""


@contextlib.contextmanager
def replaced(functions: Sequence[tuple[Any, str, Callable]]) -> Iterator[None]:
    """While it lasts, functions are others, for this thread and those that do not wait for it.

    Args:
      functions: (module or class, name, what takes its place) of each.
    """
    with _LOCK:
        own = [getattr(owner, name) for owner, name, _ in functions]
        try:
            for owner, name, function in functions:
                setattr(owner, name, function)
            yield
        finally:
            for (owner, name, _), function in zip(functions, own, strict=True):
                setattr(owner, name, function)
