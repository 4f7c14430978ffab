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

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfb, tfd = tfp.bijectors, tfp.distributions

_FAMILIES = (tfd.Normal, tfd.StudentT, tfd.Cauchy, tfd.Laplace, tfd.Logistic)
_TRANSFORMED = (tfd.LogNormal, tfd.LogitNormal)


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
    """

    location: tf.Tensor
    scale: tf.Tensor
    event_rank: int


def parameters_or_none(distribution: Any) -> Parameters | None:
    """Location and scale of every coordinate; `None` if they are not its parameters.

    Args:
      distribution: a TFP distribution.
    """
    if isinstance(distribution, _TRANSFORMED):
        return parameters_or_none(distribution.distribution)
    if isinstance(distribution, tfd.MultivariateNormalDiag):
        return _of_one_shape(distribution.loc, distribution.scale.diag_part(), event_rank=1)
    if isinstance(distribution, _FAMILIES):
        return _of_one_shape(distribution.loc, distribution.scale, event_rank=0)
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


def _of_one_shape(location, scale, event_rank):
    zero = tf.zeros_like(location) + tf.zeros_like(scale)
    return Parameters(location + zero, scale + zero, event_rank)


def _with_axes(distribution, found):
    """Those of a distribution that holds several of the one with these parameters."""
    is_sample = isinstance(distribution, tfd.Sample)
    axes = distribution.sample_shape if is_sample else distribution.reinterpreted_batch_ndims
    static = tf.get_static_value(axes)
    if static is None:
        return None
    if not is_sample:
        return found._replace(event_rank=found.event_rank + int(static))
    location, scale, event_rank = found
    for _ in range(np.size(static)):
        location = tf.expand_dims(location, -1 - event_rank)
        scale = tf.expand_dims(scale, -1 - event_rank)
    return Parameters(location, scale, event_rank + np.size(static))


def outer_bijector(distribution: Any) -> Any:
    """From coordinates that have a location and a scale to those of a part.

    Args:
      distribution: of the part.
    """
    while isinstance(distribution, (tfd.Independent, tfd.Sample)):
        distribution = distribution.distribution
    is_transformed = isinstance(distribution, _TRANSFORMED)
    return distribution.bijector if is_transformed else tfb.Identity()


def given_data(found: Parameters, information: Information) -> tuple[tf.Tensor, tf.Tensor]:
    """Location and scale of a part given the data and the other parts.

    Args:
      found: location and scale in the model.
      information: what the data say.
    """
    ratio = information.precision * found.scale**2
    weight = ratio / (1 + ratio)
    location = found.location + weight * (information.centre - found.location)
    return location, found.scale * tf.math.rsqrt(1 + ratio)
