"""Coordinates of parts of a joint distribution whose location or scale depends on other parts.

Effects theta_i ~ N(mu, tau^2) that the data say little about make a funnel: they are as narrow as
tau, which differs from draw to draw. Those that the data say much about have the same place and
width whatever mu and tau are. Let the data be a Gaussian factor with centre c and precision P in a
coordinate z, which has the location m and the scale s in the model. Then

    z = m + w (c - m) + s (1 - w)^(1/2) e,    w = P s^2 / (1 + P s^2),

and e, which is what is sampled, is N(0, 1) at any m and s. With P = 0 these are the coordinates
that are called not centred, and with a large P the centred ones.

References: O. Papaspiliopoulos, G. O. Roberts, M. Skoeld. A general framework for the
parametrization of hierarchical models. Statistical Science 22, 2007. T. S. Kleppe. Dynamically
rescaled Hamiltonian Monte Carlo for Bayesian hierarchical models. JCGS 28, 2019.
"""

import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfb, tfd = tfp.bijectors, tfp.distributions

_FAMILIES = (tfd.Normal, tfd.Cauchy, tfd.Laplace, tfd.Logistic)
_TRANSFORMED = (tfd.LogNormal, tfd.LogitNormal)
_VECTORS = (
    tfd.MultivariateNormalTriL,
    tfd.MultivariateNormalFullCovariance,
    tfd.MultivariateNormalLinearOperator,
)
_MAX_SIZE = 8
"""Of vectors with a full covariance. With 15 and 60 points of a Gaussian process the coordinates of
`normal_vectors` are up to eight times worse per gradient than those of the model."""


class Information(NamedTuple):
    """What the data say about a part, before the bijector onto its support.

    Attributes:
      precision: P, [*event].
      centre: c, [*event].
    """

    precision: Any
    centre: Any


class Parameters(NamedTuple):
    """Of the distribution of a part, before the bijector onto its support.

    Attributes:
      location: m, [*batch, *event].
      scale: s, likewise.
      event_rank: number of axes of the event.
      standard: the distribution of (z - m) / s.
      factor: Cholesky factor of the covariance of normal vectors, [*batch, *event, size]; its
        diagonal is the scale. `None` for others, whose coordinates are independent.
    """

    location: tf.Tensor
    scale: tf.Tensor
    event_rank: int
    standard: Any
    factor: tf.Tensor | None = None


def parameters_or_none(distribution: Any) -> Parameters | None:
    """Location and scale of every coordinate; `None` if they are not its parameters.

    Args:
      distribution: a TFP distribution. One of a derived class may have another support.
    """
    kind: Any = type(distribution)
    if kind in _TRANSFORMED:
        return parameters_or_none(distribution.distribution)
    if kind is tfd.MultivariateNormalDiag:
        scale = distribution.scale.diag_part()
        location = tf.zeros_like(scale) if distribution.loc is None else distribution.loc
        return _of_one_shape(location, scale, 1, tfd.Normal)
    if kind in _VECTORS and isinstance(distribution.scale, tf.linalg.LinearOperatorLowerTriangular):
        scale = distribution.scale.diag_part()
        if (scale.shape[-1] or _MAX_SIZE + 1) > _MAX_SIZE:
            return None
        location = tf.zeros_like(scale) if distribution.loc is None else distribution.loc
        found = _of_one_shape(location, scale, 1, tfd.Normal)
        zeros = tf.zeros_like(found.scale)[..., tf.newaxis]
        return found._replace(factor=distribution.scale.to_dense() + zeros)
    if kind in _FAMILIES:
        return _of_one_shape(distribution.loc, distribution.scale, 0, kind)
    if kind is tfd.StudentT:
        df, loc, scale = (
            tf.convert_to_tensor(each, distribution.dtype)
            for each in (distribution.df, distribution.loc, distribution.scale)
        )
        degrees = df + tf.zeros_like(loc) + tf.zeros_like(scale)
        standard = functools.partial(tfd.StudentT, degrees)
        return _of_one_shape(loc + tf.zeros_like(degrees), scale, 0, standard)
    if isinstance(distribution, (tfd.Independent, tfd.Sample)):
        found = parameters_or_none(distribution.distribution)
        return None if found is None else _with_axes(distribution, found)
    return None


def parameters(distribution: Any) -> Parameters:
    """Location and scale of every coordinate.

    Args:
      distribution: one that has them.
    """
    found = parameters_or_none(distribution)
    assert found is not None, distribution
    return found


def _of_one_shape(location, scale, event_rank, family):
    location, scale = tf.convert_to_tensor(location), tf.convert_to_tensor(scale)
    zero = tf.zeros_like(location) + tf.zeros_like(scale)
    one = tf.ones([], scale.dtype)
    return Parameters(location + zero, scale + zero, event_rank, family(0 * one, one))


def _with_axes(distribution, found):
    """Those of a distribution that holds several of the one with these parameters."""
    is_sample = isinstance(distribution, tfd.Sample)
    axes = distribution.sample_shape if is_sample else distribution.reinterpreted_batch_ndims
    static = tf.get_static_value(axes)
    if static is None:
        return None
    if not is_sample:
        return found._replace(event_rank=found.event_rank + int(static))
    for _ in range(np.size(static)):
        location, scale = (tf.expand_dims(each, -1 - found.event_rank) for each in found[:2])
        found = found._replace(location=location, scale=scale)
        if found.factor is not None:
            found = found._replace(factor=tf.expand_dims(found.factor, -2 - found.event_rank))
        if found.standard.batch_shape.rank:
            of_event = (slice(None),) * found.event_rank
            found = found._replace(standard=found.standard[(..., tf.newaxis, *of_event)])
    return found._replace(event_rank=found.event_rank + np.size(static))


def given_data(location: Any, scale: Any, information: Information) -> tuple[tf.Tensor, tf.Tensor]:
    """Location and scale of a part given the data and the other parts.

    Args:
      location: m.
      scale: s.
      information: what the data say.
    """
    ratio = information.precision * scale**2
    weight = ratio / (1 + ratio)
    return location + weight * (information.centre - location), scale * tf.math.rsqrt(1 + ratio)


def log_density(found: Parameters, information: Information, x: tf.Tensor) -> tf.Tensor:
    """Of coordinates e of a part, given the other parts, without the data.

    That of (z - m) / s, which is found from e: the rounding of z would hide it where s is small.

    Args:
      found: location and scale in the model.
      information: what the data say.
      x: e, [*batch, *event].

    Returns:
      [*batch].
    """
    ratio = information.precision * found.scale**2
    distance = information.precision * found.scale * (information.centre - found.location)
    standardized = distance / (1 + ratio) + tf.math.rsqrt(1 + ratio) * x
    values = found.standard.log_prob(standardized) - tf.math.log1p(ratio) / 2
    return tf.reduce_sum(values, axis=list(range(-information.precision.shape.rank, 0)))


class CoordinatesBijector(tfp.bijectors.Bijector):
    """From coordinates of a part to the part.

    In the place of the log-determinant of its Jacobian it has the log-density of the coordinates,
    which the density of a model is to hold instead of that of the part.
    """

    def __init__(self, information: Information):
        """Initializes this bijector.

        Args:
          information: what the data say of the part.
        """
        self._information = information
        event_rank = information.precision.shape.rank
        super().__init__(
            forward_min_event_ndims=event_rank,
            inverse_min_event_ndims=event_rank,
            dtype=information.precision.dtype,
            name='coordinates_bijector',
        )


class PartBijector(CoordinatesBijector):
    """That of a part with a location and a scale for every coordinate."""

    def __init__(self, distribution: Any, information: Information):
        """Initializes this bijector.

        Args:
          distribution: of the part.
          information: what the data say.
        """
        self._found, inner = parameters(distribution), distribution
        while isinstance(inner, (tfd.Independent, tfd.Sample)):
            inner = inner.distribution
        # onto the support of the part
        self._outer = inner.bijector if type(inner) in _TRANSFORMED else tfb.Identity()
        super().__init__(information)

    def _forward(self, x):
        location, scale = given_data(*self._found[:2], self._information)
        return self._outer.forward(location + scale * x)

    def _inverse(self, y):
        location, scale = given_data(*self._found[:2], self._information)
        return (self._outer.inverse(y) - location) / scale

    def _forward_log_det_jacobian(self, x):
        return log_density(self._found, self._information, x)
