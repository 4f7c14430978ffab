"""Sums over all replicas, so that chains on many devices learn from one another."""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfp_adaptive.kernels import CyclicalKernelAdaptiveMetropolis

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
    return any(_pools(each.parameters) for each in _kernels(kernel))


def check_pooling(kernel: Any, num_replicas: int) -> None:
    """Refuses a kernel that would learn something else on every replica.

    A kernel whose chains learn each from itself alone is the same kernel wherever they are.

    Args:
      kernel: any `tfp.mcmc.TransitionKernel`.
      num_replicas: of all processes.

    Raises:
      ValueError: if some part of the kernel adapts without pooling.
    """
    if num_replicas == 1:
        return
    for each in _kernels(kernel):
        duration = _duration(each.parameters)
        if duration and not _pools(each.parameters) and not _is_of_lone_chains(each):
            raise ValueError(
                f'`kernel` adapts {duration} on each of {num_replicas} replicas by itself, to '
                f'{num_replicas} different proposals; {_remedy(each)}.'
            )


_DURATIONS = ('num_adaptation_steps', 'num_estimation_steps')
"""Parameters that say for how long a kernel adapts; `None` is for ever."""


def _duration(parameters) -> str:
    """For how long a kernel adapts, in words; '' if it does not."""
    for given in (parameters[name] for name in _DURATIONS if name in parameters):
        if given is None:
            return 'for ever'
        steps = tf.get_static_value(given)
        if steps != 0:
            return f'for {"some" if steps is None else int(steps)} steps'
    return ''


def _pools(parameters) -> bool:
    names = ('pool_fn', 'experimental_reduce_chain_axis_names')
    return any(parameters.get(name) for name in names)


def _is_of_lone_chains(kernel) -> bool:
    """Whether every chain learns from itself alone."""
    is_cyclical = isinstance(kernel, CyclicalKernelAdaptiveMetropolis)
    return is_cyclical and kernel.parameters['mode'] == 'as_published'


def _remedy(kernel) -> str:
    parameters = kernel.parameters
    if 'pool_fn' in parameters:
        return 'give it pool_fn=tfp_adaptive.distribute.sum_over_replicas, or freeze it'
    if 'experimental_reduce_chain_axis_names' in parameters:
        return 'give it experimental_reduce_chain_axis_names, or freeze it'
    return (
        f'{type(kernel).__name__} cannot pool: let it adapt on one device and spread the kernel '
        'that it wraps with what it has learned, or take one with a pool_fn, such as '
        'tfp_adaptive.WindowedHMC'
    )


def _kernels(kernel) -> Iterator:
    """A kernel and those that it wraps."""
    parameters = getattr(kernel, 'parameters', None)
    if parameters is None:
        return
    yield kernel
    if 'make_kernel_fn' in parameters:
        yield from _kernels(parameters['make_kernel_fn'](lambda *parts: parts))
    if 'inner_kernel' in parameters:
        yield from _kernels(parameters['inner_kernel'])
