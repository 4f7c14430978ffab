"""Dependencies that no data ask for, which make independent operations run one after the other.

When XLA on a CPU comes to a product of matrices while anything else is ready to be computed, it
hands the product to another thread. That takes some five microseconds, several times what a product
of ten rows takes; one that comes when nothing else is ready stays where it is. With operations that
wait for each other a step of ten chains takes up to a third less time, and one core instead of two.

That pays only if all of them stay: a thread that is now and then asked for falls asleep between,
and to wake it takes longer than to keep it busy. How much of a target is small enough thus depends
on how many gradients a step takes.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfp_adaptive.internal import devices


class Order:
    """Whether the operations of one step wait for each other; for one trace of one step."""

    def __init__(self, size: int | None):
        """Initializes an order in which nothing waits.

        Args:
          size: elements of the state; `None` if not static.
        """
        self._limit = 0
        self._size = size

    def permit(self, limit: int) -> None:
        """Lets operations wait where no tensor is known to have more than `limit` elements."""
        self._limit = limit

    def observe(self, compute: Callable, inputs: Sequence[tf.Tensor]):
        """`compute()`, and remembers how large a tensor it derives from `inputs`."""
        if tf.executing_eagerly():
            return compute()
        graph = inputs[0].graph
        num_before = len(graph.get_operations())
        result = compute()
        largest = _largest(graph.get_operations()[num_before:], inputs)
        if largest is None or self._size is None:
            self._size = None
        else:
            self._size = max(largest, self._size)
        return result

    def after(self, first: tf.Tensor, then: tf.Tensor) -> tf.Tensor:
        """`then`, which nothing can use until `first` has been computed, if that pays.

        Args:
          first: floating; its leftmost dimensions are those of `then`, or the other way round. If
            not, nothing waits.
          then: what is to wait. Its values are never changed.
        """
        if self._size is None or self._size > self._limit:
            return then
        if tf.executing_eagerly() or devices.has_accelerator() or not _fit(first, then):
            return then
        # never, but that is nothing that XLA knows
        never = first > float('inf')
        while never.shape.rank < then.shape.rank:
            never = never[..., tf.newaxis]
        while never.shape.rank > then.shape.rank:
            never = never[..., 0]
        return tf.where(never, tf.zeros_like(then), then)


def _fit(first, then) -> bool:
    """Whether the shapes are equal up to the rank of the shorter one, and hold anything."""
    rank = min(first.shape.rank, then.shape.rank)
    return bool(first.shape.num_elements()) and first.shape[:rank] == then.shape[:rank]


def _largest(operations, inputs) -> int | None:
    """`None` for what cannot be seen: functions, loops, shapes that are not static."""
    derived = {x.ref() for x in inputs}
    largest = 0
    for operation in operations:
        if not any(x.ref() in derived for x in operation.inputs):
            continue
        derived |= {x.ref() for x in operation.outputs}
        sizes = [x.shape.num_elements() for x in operation.outputs]
        if None in sizes or any('func' in attribute.type for attribute in operation.op_def.attr):
            return None
        largest = max([largest, *sizes])
    return largest
