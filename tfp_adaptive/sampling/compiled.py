"""Functions of tensors, traced once for every shape of their arguments."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling import cholesky


class Compiled:
    """`tf.function` without its warning that a function made anew for every target retraces."""

    def __init__(self, fn: Callable, jit_compile: bool = False):
        """Initializes this function.

        Args:
          fn: of nests of tensors.
          jit_compile: whether to compile with XLA.
        """
        self._jit_compile = jit_compile
        self._function = tf.function(fn, autograph=False, jit_compile=jit_compile)
        self._traces: dict[tuple, Callable] = {}

    @property
    def is_new(self) -> bool:
        """Whether it has never returned anything."""
        return not self._traces

    @property
    def is_compiling(self) -> bool:
        """Whether XLA compiles it when it is called next."""
        return self._jit_compile and self.is_new

    def __call__(self, *args: Any) -> Any:
        """What the function returns.

        Args:
          *args: nests of tensors.
        """
        leaves = tf.nest.flatten(args, expand_composites=True)
        key = tuple((tuple(leaf.shape), leaf.dtype) for leaf in leaves)
        trace = self._traces.get(key) or self._trace(args)
        results = trace(*args)
        # XLA compiles during the first call: a trace counts once a call has returned
        self._traces[key] = trace
        return results

    def _trace(self, args):
        if not self._jit_compile:
            return self._function.get_concrete_function(*args)
        with cholesky.for_xla():
            return self._function.get_concrete_function(*args)
