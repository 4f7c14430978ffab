"""Functions of tensors, traced once for every shape of their arguments."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling import cholesky, user_code


@dataclass
class XLA:
    """Whether XLA compiles the programs of a target: until it refuses one of them."""

    is_on: bool


class Compiled:
    """A function as a graph; compiled by XLA, or without it where XLA refuses."""

    def __init__(self, fn: Callable, xla: XLA | None = None):
        """Initializes this function.

        Args:
          fn: of nests of tensors, without side effects.
          xla: whether XLA is to compile it. Default `None`: no.
        """
        self._fn, self._xla = fn, xla or XLA(False)
        self._functions: dict[bool, Any] = {}
        self._traces: dict[tuple, Callable] = {}

    @property
    def is_new(self) -> bool:
        """Whether it has never returned anything."""
        return not self._traces

    def __call__(self, *args: Any) -> Any:
        """What the function returns.

        Args:
          *args: nests of tensors.
        """
        leaves = tf.nest.flatten(args, expand_composites=True)
        key = tuple((tuple(leaf.shape), leaf.dtype) for leaf in leaves)
        if key in self._traces:
            return self._traces[key](*args)
        try:
            trace = self._trace(args)
            results = trace(*args)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            if not self._xla.is_on:
                raise
            user_code.warn(
                'XLA cannot compile `target`, `kernel` or `trace_fn`; `sample` goes on without it: '
                'pass jit_compile=False to do so at once. It says: '
                f'{user_code.reason(error)}'
            )
            self._xla.is_on = False
            return self(*args)
        # XLA compiles during the first call: a trace counts once a call has returned
        self._traces[key] = trace
        return results

    def _trace(self, args):
        is_on = self._xla.is_on
        if is_on not in self._functions:
            self._functions[is_on] = tf.function(self._fn, autograph=False, jit_compile=is_on)
        # called itself, TensorFlow's function would warn that one made for every target retraces
        function = self._functions[is_on]
        if not is_on:
            return function.get_concrete_function(*args)
        with cholesky.for_xla():
            return function.get_concrete_function(*args)
