"""`tf.linalg.cholesky` of a target, in a form that XLA runs fast on a CPU.

A latent Gaussian process spends its time in the factor of a covariance for every chain, for which
XLA has a slow loop of its own (`internal/factorization.py`). While a program is traced for XLA,
TensorFlow's function is replaced where models, linear operators and `tf.vectorized_map` find it.
Its values and gradients are the same but for rounding.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compat.v2 import linalg as linalg_of_tfp
from tensorflow.python.ops import linalg_ops

from tfp_adaptive.internal import devices, factorization
from tfp_adaptive.internal.replaced import replaced

_NAME = 'cholesky'
_PLACES = (tf.linalg, linalg_of_tfp, linalg_ops)
_own = linalg_ops.cholesky


def _cholesky(input: Any, name: str | None = None) -> tf.Tensor:
    """As `tf.linalg.cholesky`."""
    matrix = tf.convert_to_tensor(input)
    # what it refuses, or does with shapes that are not known, stays TensorFlow's
    rows, columns = matrix.shape[-2:].as_list() if (matrix.shape.rank or 0) > 1 else (None, None)
    is_square = bool(rows) and rows == columns
    if not is_square or not matrix.dtype.is_floating or _is_to_be_mapped(matrix):
        return _own(matrix, name=name)
    return factorization.by_blocks(matrix)


def _is_to_be_mapped(matrix) -> bool:
    """Whether `tf.vectorized_map` is reading what it maps, and has not begun to map this factor.

    A map would drop the gradient of ours. It takes TensorFlow's and comes here for that of all
    chains, within a scope named after what it read. Maps within maps are left alone.
    """
    scopes = tf.get_current_name_scope().split('/')
    graph = matrix.graph.outer_graph if tf.is_symbolic_tensor(matrix) else None
    while graph is not None:
        scopes += graph.get_name_scope().split('/')
        graph = getattr(graph, 'outer_graph', None)
    read, mapped = (
        sum(scope.startswith(name) for scope in scopes) for name in ('loop_body', 'pfor')
    )
    return read > min(mapped, 1)


def is_for_xla() -> bool:
    """Whether factors are those of this package just now."""
    return tf.linalg.cholesky is _cholesky


@contextlib.contextmanager
def for_xla() -> Iterator[None]:
    """While it lasts, Cholesky factors are those of this package."""
    if devices.has_accelerator():
        yield
        return
    with replaced([(place, _NAME, _cholesky) for place in _PLACES]):
        yield
