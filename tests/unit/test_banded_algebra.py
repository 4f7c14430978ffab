"""internal.banded against dense NumPy, eagerly and under XLA, values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tfp_adaptive.internal import banded

SIZE, ROWS = 7, 4


def random_band(rng, bandwidth, size=SIZE):
    """Rows of T with a dominant diagonal; entries outside the matrix are zero."""
    band = 0.4 * rng.normal(size=[bandwidth + 1, size])
    band[0] = rng.uniform(0.7, 1.6, size=size)
    for j in range(1, bandwidth + 1):
        band[j, size - j :] = 0
    return band


DENSE = {
    'multiply': lambda t, x: x @ t.T,
    'multiply_transpose': lambda t, x: x @ t,
    'solve': lambda t, x: np.linalg.solve(t, x.T).T,
    'solve_transpose': lambda t, x: np.linalg.solve(t.T, x.T).T,
}


@pytest.mark.parametrize('bandwidth', [1, 2, 3])
@pytest.mark.parametrize('operation', sorted(DENSE))
def test_matches_the_dense_matrix(operation, bandwidth, rng):
    band, x = random_band(rng, bandwidth), rng.normal(size=[ROWS, SIZE])
    actual = getattr(banded, operation)(tf.constant(band), tf.constant(x))
    np.testing.assert_allclose(actual, DENSE[operation](twins.dense_band(band), x), atol=1e-12)


@pytest.mark.parametrize('bandwidth', [1, 2, 3])
def test_xla_gives_the_dense_values_and_gradients(bandwidth, rng):
    """One program: both solves and the gradients of a nonlinear function of them."""
    band, x = random_band(rng, bandwidth), rng.normal(size=[ROWS, SIZE])

    def banded_solves(band, x):
        return banded.solve(band, x), banded.solve_transpose(band, x)

    def dense_solves(band, x):
        dense = tf.add_n([tf.linalg.diag(band[j, : SIZE - j], k=j) for j in range(bandwidth + 1)])
        columns = tf.transpose(x)
        solved = tf.linalg.solve(dense, columns), tf.linalg.solve(dense, columns, adjoint=True)
        return tuple(tf.transpose(y) for y in solved)

    def with_gradients(solves):
        def run(band, x):
            with tf.GradientTape() as tape:
                tape.watch([band, x])
                forward, transpose = solves(band, x)
                value = tf.reduce_sum(tf.sin(forward) + tf.cos(2 * transpose))
            return forward, transpose, *tape.gradient(value, [band, x])

        return run

    compiled = tf.function(with_gradients(banded_solves), jit_compile=True, autograph=False)
    actual = compiled(tf.constant(band), tf.constant(x))
    expected = with_gradients(dense_solves)(tf.constant(band), tf.constant(x))
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, atol=1e-11)


@pytest.mark.parametrize('size', [2, 3, 8, 33])
def test_any_length_of_path(size, rng):
    """The scan halves its input: odd, even, power of two and just above one all have to work."""
    band, x = random_band(rng, 1, size), rng.normal(size=[2, size])
    for operation in ('solve', 'solve_transpose'):
        actual = getattr(banded, operation)(tf.constant(band), tf.constant(x))
        np.testing.assert_allclose(actual, DENSE[operation](twins.dense_band(band), x), atol=1e-11)


def test_solve_undoes_multiply(rng):
    band, x = tf.constant(random_band(rng, 2)), tf.constant(rng.normal(size=[ROWS, SIZE]))
    np.testing.assert_allclose(banded.solve(band, banded.multiply(band, x)), x, atol=1e-12)
    transposed = banded.multiply_transpose(band, x)
    np.testing.assert_allclose(banded.solve_transpose(band, transposed), x, atol=1e-12)


def test_to_dense(rng):
    band = random_band(rng, 2)
    np.testing.assert_array_equal(banded.to_dense(tf.constant(band)), twins.dense_band(band))


def test_outer_bands_are_the_bands_of_the_outer_product(rng):
    left, right = rng.normal(size=[2, ROWS, SIZE])
    matrix = twins.pairs_matrix(left, right)
    bands = banded.outer_bands(tf.constant(left), tf.constant(right), 3).numpy()
    for j in range(3):
        np.testing.assert_allclose(bands[j, : SIZE - j], np.diag(matrix, j), atol=1e-12)
        np.testing.assert_array_equal(bands[j, SIZE - j :], 0)


def test_shifts_pad_with_zeros():
    shifted = banded.shifts(tf.constant([1.0, 2.0, 3.0]), 3)
    np.testing.assert_array_equal(shifted, [[1, 2, 3], [2, 3, 0], [3, 0, 0]])
