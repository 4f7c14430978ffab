"""RealNVP preconditioner: learns curved targets with two small networks.

    f = scaling o coupling_2 o coupling_1

A coupling leaves half of the coordinates, u, alone and maps the other half, x, to
sigma(u) x + m(u), where sigma in (1/2, 2) and m are the outputs of a network with two hidden
layers; the second coupling swaps the halves. Both start as the identity, so learning begins from
the scaling alone.

Written out rather than composed of TFP's bijectors: those slice, and XLA has no second derivative
of a slice, which trajectories of more than one step need.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import charts, random
from tfp_adaptive.typing import Flow, Tensor

_SEED = (0x7265616C, 0x6E7670)


class RealNVPParameters(NamedTuple):
    """Parameters, and tangents."""

    first: list
    """Layers of the first coupling's network, pairs of weights [inputs, outputs] and biases."""
    second: list
    """The same of the second coupling."""
    log_scale: Tensor
    """[D]."""


def real_nvp(hidden_sizes: Sequence[int] = (50, 50), initial_scale=None) -> Flow:
    """Two affine couplings and a scaling.

    Args:
      hidden_sizes: widths of the hidden layers of both networks, at least one. Default (50, 50).
      initial_scale: scalar or [D], the initial scaling, in the units of the state. Default `None`:
        a safe fraction of 1 / sqrt(largest curvature) at the start.

    Returns:
      A `Flow` whose parameters are `RealNVPParameters`.

    Raises:
      ValueError: if a width is not a positive int, or if D is less than 2.

    Reference: Hirt, Titsias & Dellaportas (2021), Appendix C.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=5, num_adaptation_steps=500,
      ...     preconditioner=tfpa.preconditioners.real_nvp(hidden_sizes=[20]))
    """
    sizes = list(hidden_sizes) if isinstance(hidden_sizes, (list, tuple)) else [hidden_sizes]
    for size in sizes or [None]:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(
                f'`hidden_sizes` must be a non-empty list of positive ints; got {hidden_sizes!r}.'
            )

    def init(event_size, dtype, guess):
        if event_size < 2:
            raise ValueError('`real_nvp` needs at least 2 coordinates; the state has 1.')
        half = event_size // 2
        first_seed, second_seed = random.split(tf.constant(_SEED), 2)
        scale = charts.initial_scale_vector(initial_scale, guess, event_size, dtype)
        return RealNVPParameters(
            first=_init_network(half, sizes, event_size - half, first_seed, dtype),
            second=_init_network(event_size - half, sizes, half, second_seed, dtype),
            log_scale=tf.math.log(scale),
        )

    return Flow(init=init, forward=_forward, inverse=_inverse, retract=_retract, takes_scales=True)


def _forward(parameters, z):
    first, second, log_scale = parameters
    left, right = _halves(z)
    shift, log_sigma = _network(first, left)
    right = tf.exp(log_sigma) * right + shift
    log_det = tf.reduce_sum(log_sigma, axis=-1)
    shift, log_sigma = _network(second, right)
    left = tf.exp(log_sigma) * left + shift
    log_det += tf.reduce_sum(log_sigma, axis=-1) + tf.reduce_sum(log_scale)
    return tf.exp(log_scale) * tf.concat([left, right], axis=-1), log_det


def _inverse(parameters, q):
    first, second, log_scale = parameters
    left, right = _halves(tf.exp(-log_scale) * q)
    shift, log_sigma = _network(second, right)
    left = tf.exp(-log_sigma) * (left - shift)
    shift, log_sigma = _network(first, left)
    return tf.concat([left, tf.exp(-log_sigma) * (right - shift)], axis=-1)


def _retract(parameters, tangent):
    return tf.nest.map_structure(tf.add, parameters, tangent)


def _halves(x):
    half = x.shape[-1] // 2
    return tf.split(x, [half, x.shape[-1] - half], axis=-1)


def _init_network(num_inputs, hidden_sizes, num_outputs, seed, dtype):
    """Weights scaled by their fan-in so that every layer learns at the same rate."""
    sizes = [num_inputs, *hidden_sizes]
    seeds = random.split(seed, len(hidden_sizes))
    layers = [
        (random.normal([rows, columns], seed, dtype), tf.zeros([columns], dtype))
        for rows, columns, seed in zip(sizes, hidden_sizes, seeds, strict=False)
    ]
    zeros = tf.zeros([2 * num_outputs], dtype)
    return [*layers, (tf.zeros([sizes[-1], 2 * num_outputs], dtype), zeros)]


def _network(layers, x):
    """Shift and log sigma of a coupling from the coordinates it leaves alone."""
    for index, (weights, bias) in enumerate(layers):
        x = tf.matmul(x, weights) / weights.shape[0] ** 0.5 + bias
        if index < len(layers) - 1:
            x = tf.nn.elu(x)
    shift, gate = tf.split(x, 2, axis=-1)
    # in (1/2, 2), and 1 at rest
    return shift, tf.math.log(0.5 + 1.5 * tf.sigmoid(gate - math.log(2.0)))
