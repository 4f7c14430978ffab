"""Keeps independent operations of a small compiled step one after the other, on one thread.

When XLA on a CPU reaches a matrix product while other operations are ready too, it hands the
product to a second thread. The hand-over takes some five microseconds, several times as long as a
product of ten rows. An extra data dependency, which never changes a value, avoids it: the products
of a step then find nothing else that is ready.

It pays only as long as every operation stays on one thread. The operations of a larger target are
shared by two threads anyway, and a thread that is asked for now and then falls asleep between.
Callers give the largest size for which it pays.

Time of a step without it over the time with it; ten chains, two cores of an AMD EPYC (`python -m
experiments run core_step` measures each of its places):

    target                              L = 1 frozen, adaptive    L = 5 frozen, adaptive
    German credit, D = 25               1.57, 1.54                1.01, 0.98 (too large)
    Gaussian process, D = 51            1.94, 1.64                1.59, 1.45
    stochastic volatility, D = 2519     0.97, 1.00 (too large)    1.00, 1.00 (too large)
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import devices, graphs


def in_sequence(first: tf.Tensor, then: Any, *, since: Sequence[tf.Tensor], limit: int) -> Any:
    """`then`, which XLA uses only after it has computed `first`; its values never change.

    Args:
      first: [C], floating.
      then: a nest of tensors. Those that are neither scalar nor [C, ...] are returned unchanged.
      since: tensors of the current graph. What is computed from them up to here decides.
      limit: elements of the largest of those tensors up to which waiting pays. Nothing waits beyond
        it, where a size is not static, in eager mode, and on accelerators.
    """
    if not limit or tf.executing_eagerly() or devices.has_accelerator():
        return then
    size = _largest(since)
    if not size or size > limit:
        return then
    # no number exceeds infinity, but XLA does not know that
    never = first > float('inf')

    def wait(x):
        if not x.shape.rank:
            return tf.where(never[0], tf.zeros_like(x), x)
        if x.shape[:1] != first.shape:
            return x
        mask = tf.reshape(never, [-1] + [1] * (x.shape.rank - 1))
        return tf.where(mask, tf.zeros_like(x), x)

    return tf.nest.map_structure(wait, then)


def _largest(since) -> int | None:
    """Elements of the largest tensor; `None` with loops and shapes not static."""
    if not all(tf.is_symbolic_tensor(x) for x in since):
        return None
    operations = since[0].graph.get_operations()
    after = operations[operations.index(since[0].op) + 1 :]
    sizes = [x.shape.num_elements() for x in since]
    sizes += _sizes(after, {x.ref() for x in since})
    return None if None in sizes else max(sizes)


def _sizes(operations, derived) -> list:
    """Elements of all that is computed from the tensors `derived`; `None` for a loop."""
    sizes = []
    for operation in operations:
        if not any(x.ref() in derived for x in operation.inputs):
            continue
        if operation.type in graphs.CALLS:
            (body,) = graphs.called(operation)
            inputs = zip(body.inputs, operation.inputs, strict=True)
            own = {inner.ref() for inner, outer in inputs if outer.ref() in derived}
            sizes += _sizes(body.get_operations(), own)
        elif any('func' in attribute.type for attribute in operation.op_def.attr):
            return [None]
        derived |= {x.ref() for x in operation.outputs}
        sizes += [x.shape.num_elements() for x in operation.outputs]
    return sizes
