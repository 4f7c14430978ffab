"""Cholesky factors by blocks, and where `sample` puts them in TensorFlow's place."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.internal import factorization, graphs
from tfp_adaptive.sampling import cholesky
from tfp_adaptive.sampling.compiled import XLA, Compiled

tfd = tfp.distributions


def positive_definite(rng, *shape):
    root = rng.normal(size=[*shape, 2 * shape[-1]])
    return root @ np.swapaxes(root, -1, -2) / shape[-1]


@pytest.mark.parametrize('size', [1, 63, 65, 300])
@pytest.mark.parametrize('jit_compile', [False, True])
def test_factors_by_blocks(size, jit_compile, rng):
    matrix = positive_definite(rng, 2, size)
    function = tf.function(factorization.by_blocks, jit_compile=jit_compile, autograph=False)
    found = function(tf.constant(matrix))
    np.testing.assert_allclose(found, np.linalg.cholesky(matrix), rtol=1e-8, atol=1e-12)
    # as TensorFlow's, it does not look at what is above the diagonal
    lower = function(tf.constant(np.tril(matrix) + np.triu(rng.normal(size=[size, size]), 1)))
    np.testing.assert_array_equal(lower, found)


@pytest.mark.parametrize('jit_compile', [False, True])
def test_algorithms_factorize_by_blocks_under_xla_alone(jit_compile):
    kinds = set()

    def loop(matrix):
        def body(step, matrix):
            matrix = factorization.cholesky(matrix)
            kinds.update(op.type for op in matrix.graph.get_operations())
            return step + 1, matrix

        return tf.while_loop(lambda step, _: step < 2, body, (0, matrix))

    tf.function(loop, jit_compile=jit_compile, autograph=False)(tf.eye(3, batch_shape=[2]))
    assert ('Cholesky' in kinds) != jit_compile


@pytest.mark.parametrize('jit_compile', [False, True])
def test_what_is_positive_definite(jit_compile):
    """Without TensorFlow's own factor, which reports what has none."""
    matrices = np.array([[[2, 1], [1, 2]], [[1, 2], [2, 1]], [[1, 1], [1, 1]], [[-1, 0], [0, 2]]])
    function = tf.function(
        factorization.is_positive_definite, jit_compile=jit_compile, autograph=False
    )
    trace = function.get_concrete_function(tf.constant(matrices, tf.float64))
    np.testing.assert_array_equal(trace(tf.constant(matrices, tf.float64)), [True, *[False] * 3])
    assert not graphs.holds(trace.graph, {'Cholesky'})


@pytest.mark.parametrize('size', [2, 70])
@pytest.mark.parametrize('jit_compile', [False, True])
def test_a_factor_of_what_is_not_positive_definite_is_not_finite(size, jit_compile):
    matrix = np.eye(size)
    matrix[0, -1] = matrix[-1, 0] = 2
    both = np.stack([matrix, np.eye(size)])
    function = tf.function(factorization.by_blocks, jit_compile=jit_compile, autograph=False)
    found = function(tf.constant(both))
    assert not np.all(np.isfinite(found[0]))
    np.testing.assert_array_equal(found[1], np.eye(size))


def derivatives(factorize, matrix, weights):
    """Of a curved function of the factor: its gradient, and that gradient along a direction."""
    with tf.GradientTape() as outer:
        outer.watch(matrix)
        with tf.GradientTape() as inner:
            inner.watch(matrix)
            value = tf.reduce_sum(tf.sin(weights * factorize(matrix)))
        gradient = inner.gradient(value, matrix)
        along = tf.reduce_sum(gradient * (weights + tf.linalg.matrix_transpose(weights)))
    return gradient, outer.gradient(along, matrix)


@pytest.mark.parametrize('size', [1, 5, 70])
@pytest.mark.parametrize('jit_compile', [False, True])
def test_first_and_second_derivatives_are_those_of_tensorflow(size, jit_compile, rng):
    matrix = tf.constant(positive_definite(rng, 2, 3, size))
    weights = tf.constant(rng.normal(size=matrix.shape) / size)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def found(matrix):
        return derivatives(factorization.by_blocks, matrix, weights)

    expected = derivatives(tf.linalg.cholesky, matrix, weights)
    for own, other in zip(found(matrix), expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize('in_function', [False, True])
@pytest.mark.parametrize('depth', [1, 2])
def test_gradients_of_mapped_factors(depth, in_function, rng):
    """Maps drop custom gradients, so theirs are factorized after mapping, all at once."""
    matrices = tf.constant(positive_definite(rng, 4, 2, 5))
    weights = tf.constant(rng.normal(size=[5, 5]))

    def gradient(factorize, matrices):
        with tf.GradientTape() as tape:
            tape.watch(matrices)
            value = tf.reduce_sum(weights * factorize(matrices))
        return tape.gradient(value, matrices)

    function = tf.function(lambda matrices: tf.linalg.cholesky(matrices), autograph=False)

    def mapped(matrices, depth=depth):
        if not depth:
            return function(matrices) if in_function else tf.linalg.cholesky(matrices)
        return tf.vectorized_map(lambda some: mapped(some, depth - 1), matrices)

    expected = gradient(tf.linalg.cholesky, matrices)
    compiled = Compiled(lambda matrices: gradient(mapped, matrices), XLA(True))
    np.testing.assert_allclose(compiled(matrices), expected, rtol=1e-7, atol=1e-9)


def gaussian_process():
    points = np.linspace(0, 3, 6, dtype=np.float32)
    squares = np.square(points[:, np.newaxis] - points)

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        scale = yield tfd.LogNormal(0.0, 1.0, name='scale')
        white = yield tfd.Sample(tfd.Normal(0.0, 1.0), 6, name='white')
        covariance = tf.exp(-squares / scale**2) + 0.1 * tf.eye(6)
        latent = tf.linalg.matvec(tf.linalg.cholesky(covariance), white)
        yield tfd.Independent(tfd.Poisson(log_rate=latent), 1, name='counts')

    pinned = model.experimental_pin(counts=[1.0, 2.0, 0.0, 4.0, 1.0, 0.0])
    return lambda scale, white: pinned.log_prob(scale, white)


def multivariate(scale, white):
    """A linear operator and TFP's own factor, for which nobody has written `cholesky`."""
    matrix = scale[..., tf.newaxis, tf.newaxis] * tf.eye(6) + 1.0
    operator = tf.linalg.LinearOperatorFullMatrix(
        matrix, is_self_adjoint=True, is_positive_definite=True
    )
    return operator.log_abs_determinant() + tfd.MultivariateNormalFullCovariance(
        tf.zeros(6), matrix
    ).log_prob(white)


@pytest.mark.parametrize('make', [gaussian_process, lambda: multivariate], ids=['mapped', 'plain'])
def test_programs_of_xla_hold_no_factor_of_its_own(make, rng):
    log_prob = make()
    parts = [tf.constant([0.5, 1.0, 2.0]), tf.constant(rng.normal(size=[3, 6]), tf.float32)]

    def value_and_gradients(parts):
        with tf.GradientTape() as tape:
            tape.watch(parts)
            value = log_prob(*parts)
        return value, tape.gradient(value, parts)

    own = tf.function(value_and_gradients, jit_compile=True, autograph=False)
    assert ' cholesky(' in own.experimental_get_compiler_ir(parts)(stage='hlo')
    with cholesky.for_xla():
        ours = tf.function(value_and_gradients, jit_compile=True, autograph=False)
        assert ' cholesky(' not in ours.experimental_get_compiler_ir(parts)(stage='hlo')
        found = ours(parts)
    for one, other in zip(
        tf.nest.flatten(found), tf.nest.flatten(value_and_gradients(parts)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def test_nothing_is_replaced_after_an_error():
    own = tf.linalg.cholesky

    def fails(x):
        assert tf.linalg.cholesky is not own
        raise KeyError

    with pytest.raises(KeyError):
        Compiled(fails, XLA(True))(tf.zeros([]))
    assert tf.linalg.cholesky is own


@pytest.mark.parametrize('shape', [[3], [2, 3], [2, 4, 3]])
def test_what_is_not_square_is_refused_as_ever(shape):
    with pytest.raises(ValueError, match='must be'):
        Compiled(lambda x: tf.linalg.cholesky(x), XLA(True))(tf.ones(shape))
