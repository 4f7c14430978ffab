"""Sums over all replicas, so that chains on many devices learn from one another."""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

_HOW = (
    'Warm up with `tfp_adaptive.distribute.sample_chain`, which loops outside the replicas, and '
    'compile the sampling with the frozen kernel alone, which pools nothing.'
)


def sum_over_replicas(tensors: list) -> list:
    """The `pool_fn` of a kernel whose chains are spread by a `tf.distribute` strategy.

    One collective sum for the whole list. Without a strategy, or on a single replica, it returns
    the list as it is.

    Args:
      tensors: sums over the chains of this replica; same shapes and dtypes on all replicas.

    Returns:
      Their sums over all replicas, the same bits on each.

    Raises:
      RuntimeError: outside `strategy.run`; in a loop, a condition or a nested function inside of
        it; or in a program compiled by XLA for CPUs. TensorFlow has no collective there.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_adaptation_steps=500,
      ...     pool_fn=tfpa.distribute.sum_over_replicas)
    """
    context = tf.distribute.get_replica_context()
    if context is None:
        raise RuntimeError(
            '`pool_fn` was called outside `strategy.run`, where there is no replica to sum for. '
            + _HOW
        )
    if context.num_replicas_in_sync == 1:
        return tensors
    if is_compiled_by_xla() and 'CPU' in tf.identity(tensors[0]).device:
        raise RuntimeError('TensorFlow cannot sum over CPU replicas in an XLA program. ' + _HOW)
    totals = dict()
    for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
        same = [tensor for tensor in tensors if tensor.dtype == dtype]
        for tensor, total in zip(same, _summed(context, same), strict=True):
            totals[id(tensor)] = total
    return [totals[id(tensor)] for tensor in tensors]


def _summed(context, tensors):
    """Sums of tensors of one dtype, sent as one vector."""
    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
    try:
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, flat)
    except RuntimeError as error:
        raise RuntimeError(
            'TensorFlow cannot sum over replicas inside a loop, a condition or a nested function '
            'of `strategy.run`, such as the loop of a wrapper around the kernel. ' + _HOW
        ) from error
    parts = tf.split(total, [tensor.shape.num_elements() for tensor in tensors])
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def is_compiled_by_xla() -> bool:
    """Whether the operations traced now end up in an XLA program.

    TensorFlow has no name for this; what it tells is that only outside XLA is a condition marked
    for lowering into the graph around it.
    """
    if tf.executing_eagerly():
        return False
    operation = tf.cond(tf.identity(True), lambda: tf.constant(1), lambda: tf.constant(0)).op
    while operation.type == 'Identity':
        operation = operation.inputs[0].op
    return '_lower_using_switch_merge' not in operation.node_def.attr


def pools(kernel: Any) -> bool:
    """Whether a kernel, or one that it wraps, sums over replicas in its steps."""
    return any(_pools(parameters) for parameters in _parameters(kernel))


def check_pooling(kernel: Any, num_replicas: int) -> None:
    """Refuses a kernel that would learn something else on every replica.

    Args:
      kernel: any `tfp.mcmc.TransitionKernel`.
      num_replicas: of all processes.

    Raises:
      ValueError: if some part of the kernel adapts without pooling.
    """
    if num_replicas == 1:
        return
    for parameters in _parameters(kernel):
        steps = tf.get_static_value(parameters.get('num_adaptation_steps', 0))
        if steps != 0 and not _pools(parameters):
            duration = 'some' if steps is None else int(steps)
            option = (
                'pool_fn=tfp_adaptive.distribute.sum_over_replicas'
                if 'pool_fn' in parameters
                else 'experimental_reduce_chain_axis_names'
            )
            raise ValueError(
                f'`kernel` adapts for {duration} steps on each of {num_replicas} replicas by '
                f'itself, to {num_replicas} different proposals; give it {option}, or freeze it.'
            )


def _pools(parameters) -> bool:
    names = ('pool_fn', 'experimental_reduce_chain_axis_names')
    return any(parameters.get(name) for name in names)


def _parameters(kernel) -> Iterator[dict]:
    """The constructor arguments of a kernel and of those it wraps."""
    parameters = getattr(kernel, 'parameters', {})
    yield parameters
    if 'make_kernel_fn' in parameters:
        yield from _parameters(parameters['make_kernel_fn'](lambda *parts: parts))
    if 'inner_kernel' in parameters:
        yield from _parameters(parameters['inner_kernel'])
