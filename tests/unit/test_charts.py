"""internal.charts and internal.triangular: units, clipping, initial scales."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive import preconditioners
from tfp_adaptive.internal import charts, triangular


def test_off_diagonal_unit_keeps_the_operator_noise_bounded(rng):
    """Unit noise in all coordinates moves the operator by as much at D = 256 as at D = 64."""
    assert triangular.coordinate_scale(4) == 1
    norms = []
    for size in (64, 256):
        noise = np.tril(rng.normal(size=[size, size]), -1)
        norms.append(np.linalg.norm(triangular.coordinate_scale(size) * noise, 2))
    np.testing.assert_allclose(norms[1], norms[0], rtol=0.15)


@pytest.mark.parametrize('size', [3, 40, 65])
def test_relative_update_is_multiplication(size, rng):
    """On both sides of the sizes where the off-diagonal unit shrinks and where blocks begin."""
    factor = np.tril(rng.normal(size=[size, size])) + 5 * np.eye(size)
    tangent = 0.1 * np.tril(rng.normal(size=[size, size]))
    scale = triangular.coordinate_scale(size)
    change = scale * np.tril(tangent, -1) + np.diag(np.exp(np.diag(tangent)))
    moved = triangular.relative_update(tf.constant(factor), tf.constant(tangent))
    np.testing.assert_allclose(moved, factor @ change, atol=1e-12)


@pytest.mark.parametrize(('min_diagonal', 'floor'), [(None, 1e-3), (0.5, 0.5)])
@pytest.mark.parametrize(
    'family', [preconditioners.diagonal, preconditioners.cholesky, preconditioners.banded]
)
def test_euclidean_steps_clip_the_diagonal(family, min_diagonal, floor):
    preconditioner = family(coordinates='euclidean', min_diagonal=min_diagonal)
    parameters = preconditioner.init(2, tf.float64, tf.constant(1.0, tf.float64))
    tangent = tf.nest.map_structure(lambda x: -10 * tf.ones_like(x), parameters)
    moved = preconditioner.retract(parameters, tangent)
    if family is preconditioners.banded:
        diagonal = moved.band[0]
    else:
        diagonal = np.diag(moved) if moved.shape.rank == 2 else moved
    np.testing.assert_array_equal(diagonal, [floor] * 2)


def test_initial_scale_vector():
    def vector(initial_scale):
        return charts.initial_scale_vector(initial_scale, 0.25, 3, tf.float32)

    np.testing.assert_array_equal(vector(None), [0.25] * 3)
    np.testing.assert_array_equal(vector(2), [2] * 3)
    np.testing.assert_array_equal(vector([2.0]), [2] * 3)
    np.testing.assert_array_equal(vector([1, 2, 3]), [1, 2, 3])
    assert vector([1, 2, 3]).dtype == tf.float32


def test_a_family_that_takes_factors_is_given_the_whole():
    """The smallest entry of a factor is a zero above its diagonal."""
    family = preconditioners.cholesky()._replace(takes_scales=False)
    factor = np.tril(np.arange(1.0, 10.0).reshape(3, 3))
    found = charts.initial_parameters(family, 3, tf.float32, tf.constant(factor))
    np.testing.assert_allclose(found, factor)
    found = charts.initial_parameters(family, 3, tf.float32, tf.constant([3.0, 2.0, 4.0]))
    np.testing.assert_allclose(found, 2 * np.eye(3))
