"""A TensorFlow density within JAX: one call of its compiled program, for all chains, a gradient.

So samplers written in JAX run on any target, whose density nobody wrote a second time. What it
computes is the same program that XLA makes for samplers in TensorFlow.
"""

from collections.abc import Callable

import tensorflow as tf

from experiments import optional


def in_jax(log_prob: Callable) -> Callable:
    """A function of one chain's q [d] that `jax.grad`, `jax.vmap` and `jax.jit` take.

    Args:
      log_prob: of [C, d], in TensorFlow.
    """
    jax = optional.load('jax', 'peers')
    jax2tf = optional.load('jax.experimental.jax2tf', 'peers')

    def value_and_gradient_of_rows(q):
        rows = tf.reshape(q, [-1, q.shape[-1]])
        with tf.GradientTape() as tape:
            tape.watch(rows)
            value = log_prob(rows)
        gradient = tape.gradient(value, rows)
        return tf.reshape(value, q.shape[:-1]), tf.reshape(gradient, q.shape)

    call = jax2tf.call_tf(value_and_gradient_of_rows, has_side_effects=False)

    @jax.custom_batching.custom_vmap
    def value_and_gradient(q):
        return tuple(call(q))

    @value_and_gradient.def_vmap
    def _(axis_size, in_batched, q):
        # the mapped axis comes first, and the density takes any number of chains
        del axis_size, in_batched
        return value_and_gradient(q), (True, True)

    @jax.custom_vjp
    def density(q):
        return value_and_gradient(q)[0]

    density.defvjp(value_and_gradient, lambda gradient, cotangent: (cotangent * gradient,))
    return density
