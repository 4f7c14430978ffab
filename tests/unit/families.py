"""The preconditioner families of the unit tests, with generic parameters and free coordinates."""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive import preconditioners
from tfp_adaptive.preconditioners.banded import BandedParameters, BandedTangent

SIZE = 6

FAMILIES = {
    'diagonal': preconditioners.diagonal,
    'cholesky': preconditioners.cholesky,
    'banded-1': functools.partial(preconditioners.banded, bandwidth=1),
    'banded-2': functools.partial(preconditioners.banded, bandwidth=2),
    'bordered-1': functools.partial(preconditioners.banded, bandwidth=1, border_size=3),
    'bordered-2': functools.partial(preconditioners.banded, bandwidth=2, border_size=3),
}
COORDINATES = ('relative', 'euclidean')


class Case(NamedTuple):
    """A preconditioner with parameters away from any special point."""

    preconditioner: object
    parameters: object

    def dense(self, parameters=None):
        """C, column by column."""
        parameters = self.parameters if parameters is None else parameters
        return dense(self.preconditioner, parameters)

    def still(self):
        """The zero tangent."""
        return tf.nest.map_structure(
            tf.zeros_like, self.preconditioner.log_det_gradient(self.parameters)
        )

    def random_tangent(self, rng, scale=1.0):
        """Normal in every free coordinate, zero elsewhere."""
        return tf.nest.map_structure(
            lambda free: tf.constant(scale * rng.normal(size=free.shape) * free),
            free_coordinates(self.still()),
        )


def make(family, coordinates, rng, size=SIZE) -> Case:
    """Parameters are the initial ones moved by a random relative step, for either coordinates."""
    relative = FAMILIES[family](coordinates='relative', initial_scale=0.8)
    start = Case(relative, relative.init(size, tf.float64, tf.constant(1.0, tf.float64)))
    parameters = relative.retract(start.parameters, start.random_tangent(rng, scale=0.4))
    return Case(FAMILIES[family](coordinates=coordinates), parameters)


def dense(preconditioner, parameters):
    num_rows = sum(_event_sizes(parameters))
    return preconditioner.forward(parameters, tf.eye(num_rows, dtype=tf.float64)).numpy().T


def _event_sizes(parameters):
    if isinstance(parameters, BandedParameters):
        return [parameters.band.shape[-1], parameters.corner.shape[-1]]
    return [parameters.shape[0]]


def free_coordinates(tangent):
    """1 where a coordinate of the tangent is free and 0 where the structure fixes it."""
    if isinstance(tangent, BandedTangent):
        return tangent._replace(
            rows=np.ones(tangent.rows.shape),
            band=_inside(tangent.band.shape, first=1),
            border=np.ones(tangent.border.shape),
            corner=np.tril(np.ones(tangent.corner.shape)),
        )
    if isinstance(tangent, BandedParameters):
        return tangent._replace(
            band=_inside(tangent.band.shape, first=0),
            border=np.ones(tangent.border.shape),
            corner=np.tril(np.ones(tangent.corner.shape)),
        )
    return np.tril(np.ones(tangent.shape)) if tangent.shape.rank == 2 else np.ones(tangent.shape)


def _inside(shape, first):
    """Entries [j, i] of a band whose column i + j + first lies inside the matrix."""
    row, column = np.indices(shape)
    return (column + row + first < shape[1]).astype(float)
