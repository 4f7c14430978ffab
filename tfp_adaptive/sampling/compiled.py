"""Functions of tensors, traced once for every shape of their arguments."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class Compiled:
    """`tf.function` without its warning that a function made anew for every target retraces."""

    def __init__(self, fn: Callable, jit_compile: bool = False):
        """Initializes this function.

        Args:
          fn: of nests of tensors.
          jit_compile: whether to compile with XLA.
        """
        self._function = tf.function(fn, autograph=False, jit_compile=jit_compile)
        self._traces: dict[tuple, Callable] = {}

    @property
    def is_new(self) -> bool:
        """Whether it has never been called."""
        return not self._traces

    def __call__(self, *args: Any) -> Any:
        """What the function returns.

        Args:
          *args: nests of tensors.
        """
        leaves = tf.nest.flatten(args, expand_composites=True)
        key = tuple((tuple(leaf.shape), leaf.dtype) for leaf in leaves)
        if key not in self._traces:
            self._traces[key] = self._function.get_concrete_function(*args)
        return self._traces[key](*args)
