"""The functions that the operations of a graph call."""

from collections.abc import Iterator, Set

import tensorflow as tf

CALLS = ('PartitionedCall', 'StatefulPartitionedCall')
"""Operations that call a function once; others that have one are loops, branches and the like."""

LOOPS = frozenset({'While', 'StatelessWhile'})


def called(operation: tf.Operation) -> list[tf.Graph]:
    """The graphs of all functions that an operation calls, such as the body of a loop.

    Args:
      operation: of a graph within a `tf.function`.
    """
    names = []
    for attribute in operation.op_def.attr:
        if attribute.type == 'func':
            names.append(operation.get_attr(attribute.name).name)
        elif attribute.type == 'list(func)':
            names += [function.name for function in operation.get_attr(attribute.name)]
    return [operation.graph._get_function(name).graph for name in names]


def every_operation(graph: tf.Graph) -> Iterator[tf.Operation]:
    """The operations of a graph and of the functions that it calls.

    Args:
      graph: of a `tf.function`.
    """
    for operation in graph.get_operations():
        yield operation
        for body in called(operation):
            yield from every_operation(body)


def holds(graph: tf.Graph, types: Set[str]) -> bool:
    """Whether a graph, or a function that it calls, has an operation of one of these types.

    Args:
      graph: of a `tf.function`.
      types: such as 'Cholesky'.
    """
    return any(operation.type in types for operation in every_operation(graph))


def holds_nested_lists(graph: tf.Graph) -> bool:
    """Whether a graph, or a function that it calls, has lists of lists of tensors.

    Args:
      graph: of a `tf.function`.
    """
    return any(
        operation.type == 'TensorListReserve' and operation.get_attr('element_dtype') == tf.variant
        for operation in every_operation(graph)
    )
