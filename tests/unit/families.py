"""The preconditioner families of the unit tests, with generic parameters and free coordinates."""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tests.support import twins
from tfp_adaptive import preconditioners
from tfp_adaptive.preconditioners.banded import BandedParameters, BandedTangent
from tfp_adaptive.preconditioners.low_rank import LowRankParameters
from tfp_adaptive.typing import Event

SIZE = 6

EVENT = Event(sizes=(1, 3, 1, 1), names=('theta', 'path', 'drift', 'noise'))
GROUPS = ([1, 2, 3, 0], [5, 4])
"""Coordinates of the groups (path, theta) and (noise, drift) of `EVENT`."""
BLOCKS = {'blocks': ([0, 1], [2, 3], [4, 5]), 'blocks-uneven': ([0, 1, 2], [3], [4, 5])}


def _by_part(coordinates='relative', initial_scale=None):
    """Parts in groups and out of order; the first group is a band with a border."""
    scale = np.broadcast_to(np.nan if initial_scale is None else initial_scale, [SIZE])
    first, second = (None if np.isnan(scale).any() else scale[group] for group in GROUPS)
    return preconditioners.by_part(
        {
            ('path', 'theta'): preconditioners.banded(1, 1, first, coordinates=coordinates),
            ('noise', 'drift'): preconditioners.cholesky(second, coordinates=coordinates),
        }
    ).resolve(EVENT)


def _low_rank(coordinates='relative', initial_scale=None):
    """It knows relative coordinates only."""
    assert coordinates == 'relative'
    return preconditioners.low_rank(2, initial_scale)


FAMILIES = {
    'diagonal': preconditioners.diagonal,
    'cholesky': preconditioners.cholesky,
    'banded-1': functools.partial(preconditioners.banded, bandwidth=1),
    'banded-2': functools.partial(preconditioners.banded, bandwidth=2),
    'bordered-1': functools.partial(preconditioners.banded, bandwidth=1, border_size=3),
    'bordered-2': functools.partial(preconditioners.banded, bandwidth=2, border_size=3),
    'blocks': functools.partial(preconditioners.block_diagonal, 2),
    'blocks-uneven': functools.partial(preconditioners.block_diagonal, [3, 1, 2]),
    'by_part': _by_part,
    'low_rank': _low_rank,
}
COORDINATES = ('relative', 'euclidean')
CASES = [
    (family, coordinates)
    for family in FAMILIES
    for coordinates in COORDINATES
    if (family, coordinates) != ('low_rank', 'euclidean')
]


class Case(NamedTuple):
    """A preconditioner with parameters away from any special point."""

    preconditioner: object
    parameters: object

    def dense(self, parameters=None):
        """C, column by column."""
        parameters = self.parameters if parameters is None else parameters
        return dense(self.preconditioner, parameters)

    def forward(self, x):
        """C x."""
        return self.preconditioner.forward(self.preconditioner.prepare(self.parameters), x)

    def transpose(self, x):
        """C^T x."""
        return self.preconditioner.transpose(self.preconditioner.prepare(self.parameters), x)

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


def make(family, coordinates, rng) -> Case:
    """Parameters are the initial ones moved by a random relative step, for either coordinates."""
    relative = FAMILIES[family](coordinates='relative', initial_scale=0.8)
    start = Case(relative, relative.init(SIZE, tf.float64, tf.constant(1.0, tf.float64)))
    parameters = relative.retract(start.parameters, start.random_tangent(rng, scale=0.4))
    return Case(FAMILIES[family](coordinates=coordinates), parameters)


def dense(preconditioner, parameters):
    prepared = preconditioner.prepare(parameters)
    return preconditioner.forward(prepared, tf.eye(SIZE, dtype=tf.float64)).numpy().T


def documented(parameters):
    """C as the family's documentation defines it, from its parameters alone."""
    if isinstance(parameters, BandedParameters):
        return twins.bordered_factor(*(x.numpy() for x in parameters))
    if isinstance(parameters, LowRankParameters):
        return twins.low_rank_factor(*(x.numpy() for x in parameters))
    if isinstance(parameters, tuple):
        blocks = [documented(one) for one in parameters]
        return twins.direct_sum(blocks, _groups(parameters))
    if parameters.shape.rank == 3:
        return twins.block_diagonal([block.numpy() for block in parameters])
    return np.diag(parameters) if parameters.shape.rank == 1 else parameters.numpy()


def _groups(parameters):
    """Coordinates of each entry of the parameters of a direct sum."""
    is_by_part = isinstance(parameters[0], BandedParameters)
    return GROUPS if is_by_part else BLOCKS['blocks-uneven']


def inverse_pattern(parameters):
    """Where C^{-1} may differ from zero."""
    if isinstance(parameters, BandedParameters):
        bands, n = parameters.band.shape
        pattern = np.zeros([n + len(parameters.corner)] * 2)
        pattern[:n, :n] = twins.dense_band(np.ones([bands, n]))
        pattern[:n, n:] = 1
        pattern[n:, n:] = np.tril(np.ones(parameters.corner.shape))
        return pattern
    if isinstance(parameters, LowRankParameters):
        return np.ones([SIZE, SIZE])
    if isinstance(parameters, tuple):
        blocks = [inverse_pattern(one) for one in parameters]
        return twins.direct_sum(blocks, _groups(parameters))
    if parameters.shape.rank == 3:
        return twins.block_diagonal([np.tril(np.ones(block.shape)) for block in parameters])
    n = len(parameters)
    return np.eye(n) if parameters.shape.rank == 1 else np.tril(np.ones([n, n]))


def rescaled(parameters, unit):
    """Parameters of S C, S = diag(unit): the same preconditioner in other units of the state."""
    if isinstance(parameters, BandedParameters):
        return _rescaled_band(parameters, unit)
    if isinstance(parameters, LowRankParameters):
        return parameters._replace(scale=unit * parameters.scale)
    if isinstance(parameters, tuple):
        groups = _groups(parameters)
        return tuple(
            rescaled(one, unit[group]) for one, group in zip(parameters, groups, strict=True)
        )
    if parameters.shape.rank == 3:
        return unit.reshape([*parameters.shape[:2], 1]) * parameters
    return unit.reshape([-1] + [1] * (parameters.shape.rank - 1)) * parameters


def _rescaled_band(parameters, unit):
    n = parameters.band.shape[-1]
    path, rest = unit[:n], unit[n:]
    band = np.array(parameters.band)
    for j in range(len(band)):
        band[j, : n - j] /= path[j:]
    return BandedParameters(
        tf.constant(band),
        parameters.border * path / rest[:, np.newaxis],
        rest[:, np.newaxis] * parameters.corner,
    )


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
    if isinstance(tangent, LowRankParameters):
        return LowRankParameters(
            scale=np.ones(tangent.scale.shape),
            basis=np.ones(tangent.basis.shape),
            core=np.tril(np.ones(tangent.core.shape)),
        )
    if isinstance(tangent, tuple):
        return tuple(free_coordinates(one) for one in tangent)
    return np.tril(np.ones(tangent.shape)) if tangent.shape.rank >= 2 else np.ones(tangent.shape)


def _inside(shape, first):
    """Entries [j, i] of a band whose column i + j + first lies inside the matrix."""
    row, column = np.indices(shape)
    return (column + row + first < shape[1]).astype(float)
