"""Flows of the unit tests, and what they do to a density, by brute force."""

import functools

import numpy as np
import tensorflow as tf

from tests.support import twins
from tests.unit import problems
from tfp_adaptive import objectives, preconditioners, proposals
from tfp_adaptive.internal import triangular
from tfp_adaptive.kernels.geometry import make_geometry
from tfp_adaptive.typing import Event, Flow

SIZE, CHAINS = 3, 4
WELL = problems.QuarticWell(SIZE)
STEP_SIZE = tf.constant(0.3, tf.float64)
ALL = tf.ones([CHAINS], tf.bool)


def scaling() -> Flow:
    """q = p z with the coordinates of `preconditioners.diagonal`."""
    return Flow(
        init=lambda event_size, dtype, scale: tf.fill([event_size], scale),
        forward=lambda p, z: (p * z, tf.zeros_like(z[:, 0]) + tf.reduce_sum(tf.math.log(p))),
        inverse=lambda p, q: q / p,
        retract=lambda p, tangent: p * tf.exp(tangent),
    )


def triangle() -> Flow:
    """q = F z with the coordinates of `preconditioners.cholesky`."""
    return Flow(
        init=lambda event_size, dtype, scale: scale * tf.eye(event_size, dtype=dtype),
        forward=lambda f, z: (
            tf.matmul(z, f, transpose_b=True),
            tf.zeros_like(z[:, 0]) + triangular.log_det(f),
        ),
        inverse=lambda f, q: tf.transpose(tf.linalg.triangular_solve(f, tf.transpose(q))),
        retract=triangular.relative_update,
    )


def random_real_nvp(rng):
    """(flow, parameters): the default size, every weight and bias away from its start."""
    flow = preconditioners.real_nvp(initial_scale=0.7)
    parameters = flow.init(SIZE, tf.float64, tf.constant(1.0, tf.float64))
    return flow, tf.nest.map_structure(
        lambda x: x + tf.constant(0.3 * rng.normal(size=x.shape)), parameters
    )


def setting(rng):
    """(target, state, velocity)."""
    position, velocity = rng.normal(size=[2, CHAINS, SIZE])
    target = problems.packed(WELL.log_prob, position)
    return target, problems.state_at(target, position), tf.constant(velocity)


def geometry(preconditioner, num_steps, mode='fast', objective=None):
    return make_geometry(
        Event((SIZE,), (0,)),
        proposals.leapfrog(num_steps),
        preconditioner,
        objective or objectives.generalized_speed(),
        mode,
    )


def still(parameters):
    return tf.nest.map_structure(tf.zeros_like, parameters)


def random_directions(rng, parameters):
    """One random tangent for every leaf of the parameters, zero in the others."""
    for index, leaf in enumerate(tf.nest.flatten(parameters)):
        leaves = tf.nest.flatten(still(parameters))
        leaves[index] = tf.constant(rng.normal(size=leaf.shape) / np.sqrt(np.size(leaf)))
        yield tf.nest.pack_sequence_as(parameters, leaves)


def along(flow, parameters, direction, fn, spacing=1e-5):
    """Derivative of fn(parameters), of any shape, along a tangent, by finite differences."""

    def value(t):
        tangent = tf.nest.map_structure(lambda x: t * x, direction)
        return np.asarray(fn(flow.retract(parameters, tangent)))

    return (value(spacing) - value(-spacing)) / (2 * spacing)


def inner(gradient, direction):
    """Sum over all leaves of gradient times direction."""
    products = tf.nest.map_structure(lambda a, b: np.sum(a * b), gradient, direction)
    return sum(tf.nest.flatten(products))


def jacobian(fn, x):
    """[C, D] -> [C, M, D] for a function of rows, row of the Jacobian by row."""
    x = tf.identity(x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        columns = tf.unstack(fn(x), axis=-1)
    return tf.stack([tape.gradient(column, x) for column in columns], axis=1)


class PulledBack:
    """log pi(f(z)) + log|det Df(z)| and its derivatives in z, by automatic differentiation."""

    def __init__(self, flow, parameters, log_prob=WELL.log_prob):
        self._forward = functools.partial(flow.forward, parameters)
        self._log_prob = log_prob
        self.log_prob, self.score = (
            tf.function(fn, autograph=False) for fn in (self._value, self._gradient)
        )
        """[C, D] -> [C] and [C, D] -> [C, D]."""

    def _value(self, z):
        q, log_det = self._forward(z)
        return self._log_prob(q) + log_det

    def _gradient(self, z):
        z = tf.identity(z)
        with tf.GradientTape() as tape:
            tape.watch(z)
            value = self._value(z)
        return tape.gradient(value, z)

    def hessian(self, z):
        """[C, D] -> [C, D, D]."""
        return jacobian(self._gradient, z)

    def trajectory(self, z, velocity, num_steps, step_size=float(STEP_SIZE)):
        """One chain's leapfrog of unit mass from z [D], by the textbook."""
        return twins.leapfrog(
            lambda z: -self.log_prob(tf.constant(z[np.newaxis])).numpy()[0],
            lambda z: -self.score(tf.constant(z[np.newaxis])).numpy()[0],
            z,
            velocity,
            np.eye(len(z)),
            step_size,
            num_steps,
        )
