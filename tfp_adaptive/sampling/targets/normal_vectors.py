"""Normal vectors with a full covariance: each coordinate has its own given those before it.

With the Cholesky factor L = D + N of the covariance, where D is its diagonal, a vector is m + L u,
and a coordinate given those before it has the location (m + N u)_i and the scale d_i. With what
the data say (`location_scale`),

    D u = W (c - m - N u) + D (1 - W)^(1/2) e,

so that one triangular system leads from e to u.
"""

from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling.targets.location_scale import (
    CoordinatesBijector,
    Information,
    Parameters,
    given_data,
    log_density,
    parameters,
)


class VectorBijector(CoordinatesBijector):
    """That of normal vectors."""

    def __init__(self, distribution: Any, information: Information):
        """Initializes this bijector.

        Args:
          distribution: of the vectors, whose parameters have a factor.
          information: what the data say.
        """
        self._found = parameters(distribution)
        super().__init__(information)

    def _forward(self, x):
        return self._found.location + _product(self._found.factor, self._standardized(x))

    def _inverse(self, y):
        there = given_those_before(self._found, y)
        location, scale = given_data(there.location, there.scale, self._information)
        return (y - location) / scale

    def _forward_log_det_jacobian(self, x):
        there = _at(self._found, self._standardized(x))
        return log_density(there, self._information, x)

    def _standardized(self, x):
        """Coordinates u."""
        found = self._found
        # of D u without what comes from those before
        shift, scale = given_data(tf.zeros_like(x), found.scale, self._centred())
        ratio = self._information.precision * found.scale**2
        weight = (ratio / (1 + ratio))[..., tf.newaxis]
        diagonal = tf.linalg.diag(found.scale)
        return _solution(diagonal + weight * (found.factor - diagonal), shift + scale * x)

    def _centred(self):
        """What the data say of the distance from the location."""
        return self._information._replace(centre=self._information.centre - self._found.location)


def given_those_before(found: Parameters, x: tf.Tensor) -> Parameters:
    """Location and scale of each coordinate of vectors, given those before it.

    Args:
      found: location, scale and factor in the model.
      x: the vectors, [*batch, *event].
    """
    return _at(found, _solution(found.factor, x - found.location))


def _at(found, standardized):
    location = found.location + _product(found.factor, standardized) - found.scale * standardized
    return found._replace(location=location)


def _product(factor, x):
    return tf.linalg.matvec(factor, x)


def _solution(factor, x):
    """Solution u of L u = x."""
    factor += tf.zeros_like(x)[..., tf.newaxis]
    return tf.linalg.triangular_solve(factor, x[..., tf.newaxis])[..., 0]
