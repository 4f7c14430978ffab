"""Small inputs of the unit tests: one non-Gaussian target, states, factors, packed targets."""

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import log_density, packing
from tfp_adaptive.typing import ChainState, LinearMap, LogDensity


class QuarticWell:
    """U(q) = q^T P q / 2 + strength sum(q^4) / 4 with a dense P: everything known by hand."""

    def __init__(self, size, strength=0.3):
        index = np.arange(size)
        self.precision = np.eye(size) + 0.5 ** (1 + abs(index[:, None] - index))
        self.strength = strength

    def log_prob(self, q):
        """[..., D] -> [...], in TensorFlow."""
        quadratic = tf.reduce_sum(q * tf.linalg.matvec(self.precision, q), axis=-1) / 2
        return -quadratic - self.strength / 4 * tf.reduce_sum(q**4, axis=-1)

    def potential(self, q):
        return q @ self.precision @ q / 2 + self.strength / 4 * np.sum(q**4)

    def gradient(self, q):
        """Of the potential, one chain, in NumPy."""
        return self.precision @ q + self.strength * q**3

    def hessian(self, q):
        """Of the potential, one chain, in NumPy."""
        return self.precision + 3 * self.strength * np.diag(q**2)


def packed(log_prob_fn, position) -> LogDensity:
    """`log_prob_fn` of one part as the target on packed positions [C, D]."""
    parts = [tf.convert_to_tensor(position)]
    layout = packing.make_layout(parts, tf.TensorShape(position.shape[:1]))
    return log_density.packed_log_density(log_prob_fn, layout, parts)


def state_at(target: LogDensity, position) -> ChainState:
    position = tf.convert_to_tensor(position)
    return ChainState(position, *target.value_and_score(position))


def linear_map(matrix) -> LinearMap:
    """A dense factor F."""
    return LinearMap(forward=lambda x: x @ tf.transpose(matrix), transpose=lambda x: x @ matrix)


def random_factor(rng, size, scale=0.3):
    """A well-conditioned dense lower triangular matrix with positive diagonal."""
    lower = np.tril(rng.normal(size=[size, size]), -1) / np.sqrt(size)
    return scale * (lower + np.diag(np.exp(0.3 * rng.normal(size=size))))


def counting(target: LogDensity):
    """The target, and a list that grows by one at every evaluation of it (eagerly)."""
    calls = []

    def counted(fn):
        def wrapper(position):
            calls.append(position)
            return fn(position)

        return wrapper

    counting = {
        name: counted(getattr(target, name)) for name in ('value', 'value_and_score', 'score')
    }
    return target._replace(**counting), calls
