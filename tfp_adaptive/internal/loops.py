"""What TensorFlow's loops need: under XLA of their variables, and where functions raise."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


def varying(loop_vars: Any) -> Any:
    """The same values, which XLA cannot see to be those of the round before.

    XLA takes every argument of the function calls that `tf.vectorized_map` makes, within an
    auto-batched density, to be a compile-time constant; so by whatever it is computed from, such as
    the seed, unless it varies in the loop. It would compile the program anew for every value.

    Args:
      loop_vars: a nest of tensors.
    """

    def same(x):
        return tf.logical_or(x, False) if x.dtype == tf.bool else x + tf.zeros([], x.dtype)

    leaves = tf.nest.flatten(loop_vars, expand_composites=True)
    return tf.nest.pack_sequence_as(loop_vars, [same(x) for x in leaves], expand_composites=True)


@contextlib.contextmanager
def errors_leave_no_trace() -> Iterator[None]:
    """Around `tf.map_fn` and `tf.foldl` of functions that users write.

    These give the thread's variable scope a caching device, and take it away again unless the
    function raises. TFP's `sample_chain` would then fail outside of graphs, whatever it samples.
    """
    scope = tf.compat.v1.get_variable_scope()
    device = scope.caching_device
    try:
        yield
    finally:
        if scope.caching_device is not device:
            scope.set_caching_device(device)
