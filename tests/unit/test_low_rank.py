"""preconditioners.low_rank: its basis stays a basis. The rest is in test_preconditioners."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.preconditioners import low_rank
from tfp_adaptive.typing import Pairs

SIZE, RANK = 20, 3


def _start(dtype=tf.float64):
    preconditioner = low_rank(RANK)
    return preconditioner, preconditioner.init(SIZE, dtype, tf.constant(0.5, dtype))


def _random_tangent(rng, parameters, scale):
    return tf.nest.map_structure(
        lambda x: tf.constant(scale * rng.normal(size=x.shape), x.dtype), parameters
    )


def _gram_error(basis):
    return np.max(np.abs(np.matmul(np.transpose(basis), basis) - np.eye(RANK)))


@pytest.mark.parametrize(('dtype', 'rounding'), [(tf.float32, 1e-6), (tf.float64, 1e-15)])
@pytest.mark.parametrize('scale', [0.03, 3.0])
def test_the_basis_stays_orthonormal_over_many_steps(dtype, rounding, scale, rng):
    """Errors do not add up: every step makes it orthonormal anew."""
    preconditioner, parameters = _start(dtype)
    first = parameters.basis
    retract = tf.function(preconditioner.retract, autograph=False)
    for _ in range(500):
        tangent = _random_tangent(rng, parameters, scale)._replace(
            scale=tf.zeros([SIZE], dtype), core=tf.zeros([RANK, RANK], dtype)
        )
        parameters = retract(parameters, tangent)
        assert _gram_error(parameters.basis) < 10 * rounding
    overlap = np.matmul(np.transpose(first), parameters.basis)
    assert np.linalg.norm(overlap, 2) < 0.99, 'the basis has not moved'


def test_a_turn_within_the_span_changes_nothing(rng):
    """Only what is orthogonal to the basis turns it, and the gradient has nothing else."""
    preconditioner, parameters = _start()
    core = tf.constant(np.tril(rng.normal(size=[RANK, RANK]), -1) + np.diag([3.0, 0.5, 2.0]))
    parameters = parameters._replace(core=core)
    inside = parameters.basis @ tf.constant(rng.normal(size=[RANK, RANK]))
    still = tf.nest.map_structure(tf.zeros_like, parameters)
    moved = preconditioner.retract(parameters, still._replace(basis=inside))
    np.testing.assert_allclose(moved.basis, parameters.basis, atol=1e-14)
    pairs = Pairs(*((tf.constant(rows),) for rows in rng.normal(size=[2, 5, SIZE])))
    gradient = preconditioner.gradient(parameters, pairs).basis
    assert np.max(np.abs(gradient)) > 0.01
    np.testing.assert_allclose(
        tf.transpose(parameters.basis) @ gradient, np.zeros([RANK] * 2), atol=1e-14
    )


def test_first_basis_is_random_and_the_same_in_every_process():
    _, parameters = _start()
    assert _gram_error(parameters.basis) < 1e-14
    _, again = _start()
    np.testing.assert_array_equal(parameters.basis, again.basis)
    # a random direction of the unit sphere: no coordinate is favoured
    assert np.max(np.abs(parameters.basis)) < 0.9
