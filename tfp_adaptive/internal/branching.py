"""Steps that are taken now and then, without copies when they are not."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def when(condition: tf.Tensor, function: Callable[[Any], Any], value: Any) -> Any:
    """`function(value)` if the condition holds, else `value`, bit for bit.

    XLA copies all that goes into a conditional and all that comes out of it, on either branch,
    which at D = 256 costs more than a Metropolis step. A loop of at most one turn works in place.
    And what is computed in it is computed once: a scalar such as exp(log lambda) would else be
    fused into its product with a matrix, and be computed for every entry.

    Args:
      condition: a bool scalar.
      function: from a structure of tensors to one of the same structure, shapes and types.
      value: such a structure.
    """

    def body(_, *flat):
        changed = function(tf.nest.pack_sequence_as(value, flat))
        return (tf.constant(False), *tf.nest.flatten(changed))

    _, *flat = tf.while_loop(lambda go, *_: go, body, (condition, *tf.nest.flatten(value)))
    return tf.nest.pack_sequence_as(value, flat)
