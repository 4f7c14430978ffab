"""What loops in XLA need to know of their variables."""

import tensorflow as tf


def varying(x: tf.Tensor) -> tf.Tensor:
    """The same value, which XLA cannot see to be that of the round before.

    XLA takes all that an auto-batched density is computed from, and that does not vary in a loop,
    for a constant of the program, and would compile anew for every seed.
    """
    return x + tf.zeros([], x.dtype)
