"""Where XLA pays."""

import os
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import devices, graphs
from tfp_adaptive.sampling import user_code
from tfp_adaptive.sampling.targets.traced import Traced

_LEGACY = '--xla_cpu_use_fusion_emitters=false'
_MAX_TERMS = 1e10
"""Operations of one term: with fewer XLA has compiled all that was tried, in seconds."""
_ALONE = {
    *('MatMul', 'BatchMatMul', 'BatchMatMulV2', 'BatchMatMulV3', 'Einsum', 'Cholesky'),
    *('MatrixTriangularSolve', 'Sum', 'Max', 'Min', 'Prod', 'Mean', 'All', 'Any', 'Cumsum'),
    *('Cumprod', 'Const', 'Shape', 'Range', 'Fill', *graphs.LOOPS),
}
"""What is computed once, whoever uses it."""


def compiles(kernel: Any, state: Any) -> bool:
    """Whether XLA comes to an end with the density of a kernel; warns if it does not.

    XLA on a CPU joins operations on elements into one piece of code, and in TensorFlow 2.21 such a
    piece computes a value anew for every use. Written out as one term the density of an ordinary
    model has up to 1e5 operations. Where every step of a recursion uses the one before
    more than once, that number grows by a factor at each step: by a hundred with a Runge-Kutta step
    for two species. The gradient takes 3.7 ms after four such steps written one after another
    (3e9 operations) and 120 ms after five (3e11); after eight nobody has seen it end.

    Args:
      kernel: the one that warms up.
      state: of the chains.
    """
    if devices.has_accelerator() or _LEGACY in os.environ.get('XLA_FLAGS', ''):
        return True
    density = getattr(kernel, 'target_log_prob_fn', None)
    if not isinstance(density, Traced):
        return True
    num_terms = _num_terms(density.graph(tf.nest.flatten(state)))
    if num_terms < _MAX_TERMS:
        return True
    user_code.warn(
        '`target` is not compiled, as XLA would not come to an end. Steps of a recursion, such as '
        'those of a differential equation, are written out one after another in it: as one term '
        f'they have {num_terms:.0e} operations. Write them as a `tf.while_loop` or `tf.scan`, or '
        f'set the environment variable XLA_FLAGS={_LEGACY} before TensorFlow is imported.'
    )
    return False


def arrives_faster(kernel: Any, state: Any) -> bool:
    """Whether chains arrive sooner where XLA compiles that: only where the density holds a loop.

    They need some hundreds of evaluations. TensorFlow runs through the operations of a density
    without loops in less time than XLA takes to compile them: ten chains of the eight schools have
    arrived after 2.6 s, and after 11 s with XLA.

    Args:
      kernel: the one that warms up.
      state: of the chains.
    """
    density = getattr(kernel, 'target_log_prob_fn', None)
    if not isinstance(density, Traced):
        return True
    return graphs.holds(density.graph(tf.nest.flatten(state)), graphs.LOOPS)


def _num_terms(graph, of_inputs=()) -> float:
    """Operations of the largest term of a graph, with all that is used twice written out twice."""
    terms = {x.ref(): count for x, count in zip(graph.inputs, of_inputs, strict=False)}
    largest = 0.0
    for operation in graph.get_operations():
        counts = [terms.get(x.ref(), 0.0) for x in operation.inputs]
        own = 0.0 if operation.type in _ALONE else 1 + sum(counts)
        is_call = operation.type in graphs.CALLS
        within = [_num_terms(body, counts if is_call else ()) for body in graphs.called(operation)]
        largest = max(largest, own, *within)
        for x in operation.outputs:
            terms.setdefault(x.ref(), max(own, *within) if is_call else own)
    return largest
