"""How often a target is evaluated, and what the graphs of its programs hold."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class Counter:
    """A log-density that counts how often it is traced, and how often it is run."""

    def __init__(self, log_prob: Callable):
        """Wraps `log_prob`; XLA cannot compile the result."""
        self._log_prob = log_prob
        self.num_traced = 0
        self.num_run = 0

    def __call__(self, x):
        """The log-density at x."""
        self.num_traced += 1
        tf.numpy_function(self._count, [], [])  # stateful: TensorFlow never prunes it
        return self._log_prob(x)

    def _count(self):
        self.num_run += 1

    def spent_by(self, function: Callable, *args, **kwargs) -> tuple[int, Any]:
        """(runs, result) of a call."""
        before = self.num_run
        result = function(*args, **kwargs)
        tf.nest.map_structure(np.asarray, result)
        return self.num_run - before, result


class TraceCounter:
    """A log-density that counts its copies in graphs, eager calls apart; XLA compiles it."""

    def __init__(self, log_prob: Callable):
        """Wraps `log_prob`."""
        self._log_prob = log_prob
        self.num_traced = 0

    def __call__(self, x):
        """The log-density at x."""
        self.num_traced += not tf.executing_eagerly()
        return self._log_prob(x)


class Operation(NamedTuple):
    """A node of a graph: its type and the static shapes of its outputs, -1 where unknown."""

    kind: str
    shapes: list[tuple[int, ...]]


_GENERATOR = 'threefry_rounds'


def operations(program: Any) -> list[Operation]:
    """All operations of a concrete function, those in loop bodies and branches included.

    Not so the inside of the random generator, which is elementwise and traced for all shapes.
    """
    graph = program.graph.as_graph_def(add_shapes=True)
    functions = [
        inner for inner in graph.library.function if _GENERATOR not in inner.signature.name
    ]
    nodes = [*graph.node, *(node for inner in functions for node in inner.node_def)]
    return [
        Operation(
            node.op,
            [
                (-1,) if shape.unknown_rank else tuple(dim.size for dim in shape.dim)
                for shape in node.attr['_output_shapes'].list.shape
            ],
        )
        for node in nodes
    ]


def largest_tensor(program: Any) -> int:
    """Elements of the largest tensor of known shape in the graph of a concrete function."""
    return max(math.prod(shape) for operation in operations(program) for shape in operation.shapes)
