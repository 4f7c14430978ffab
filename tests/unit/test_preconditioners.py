"""Every preconditioner family, in both coordinates, against the dense matrix C it stands for."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tests.unit import families
from tfp_adaptive.preconditioners.low_rank import LowRankParameters
from tfp_adaptive.typing import Pairs

SIZE, ROWS = families.SIZE, 5

pytestmark = pytest.mark.parametrize(('family', 'coordinates'), families.CASES)


@pytest.fixture
def case(family, coordinates, rng):
    return families.make(family, coordinates, rng)


@pytest.fixture
def pairs(rng):
    left, right = rng.normal(size=[2, ROWS, SIZE])
    return Pairs((tf.constant(left),), (tf.constant(right),))


def assert_close(actual, expected, atol=1e-11):
    tf.nest.assert_same_structure(actual, expected)
    for a, e in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, e, atol=atol, rtol=1e-9)


def free_part(tangent):
    """Zero where the structure fixes the coordinate."""
    return tf.nest.map_structure(lambda t, m: t * m, tangent, families.free_coordinates(tangent))


# --- products ------------------------------------------------------------------------------------


def test_dense_matrix_is_the_documented_one(case, family):
    np.testing.assert_allclose(case.dense(), families.documented(case.parameters), atol=1e-12)
    off_diagonal = case.dense() - np.diag(np.diag(case.dense()))
    assert family == 'diagonal' or abs(off_diagonal).max() > 0.1, 'the parameters are not generic'


def test_products(case, rng):
    x = rng.normal(size=[ROWS, SIZE])
    matrix = case.dense()
    forward = case.forward(tf.constant(x))
    transpose = case.transpose(tf.constant(x))
    np.testing.assert_allclose(forward, x @ matrix.T, atol=1e-12)
    np.testing.assert_allclose(transpose, x @ matrix, atol=1e-12)


def test_transpose_is_the_adjoint(case, rng):
    x, y = rng.normal(size=[2, ROWS, SIZE])
    forward = case.forward(tf.constant(x))
    transpose = case.transpose(tf.constant(y))
    np.testing.assert_allclose(np.sum(y * forward, 1), np.sum(transpose * x, 1), atol=1e-12)


def test_log_det(case):
    _, expected = np.linalg.slogdet(case.dense())
    actual = case.preconditioner.log_det(case.parameters)
    assert actual.shape == ()
    np.testing.assert_allclose(actual, expected, atol=1e-12)


# --- initial parameters --------------------------------------------------------------------------


@pytest.mark.parametrize('dtype', [tf.float32, tf.float64])
def test_init_is_diagonal_with_the_given_scale(family, coordinates, dtype):
    scale = np.linspace(0.5, 2, SIZE)
    preconditioner = families.FAMILIES[family](coordinates=coordinates, initial_scale=scale)
    parameters = preconditioner.init(SIZE, dtype, tf.constant(7.0, dtype))
    assert {leaf.dtype for leaf in tf.nest.flatten(parameters)} == {dtype}
    prepared = preconditioner.prepare(parameters)
    matrix = preconditioner.forward(prepared, tf.eye(SIZE, dtype=dtype))
    np.testing.assert_allclose(matrix, np.diag(scale), rtol=1e-6)


def test_init_falls_back_to_the_guess(family, coordinates):
    preconditioner = families.FAMILIES[family](coordinates=coordinates)
    parameters = preconditioner.init(SIZE, tf.float64, tf.constant(0.3, tf.float64))
    np.testing.assert_allclose(families.dense(preconditioner, parameters), 0.3 * np.eye(SIZE))


# --- gradients -----------------------------------------------------------------------------------


def functional(case, pairs):
    """tangent -> sum_m left_m^T C^-1 C' right_m, whose derivative at zero is sum left^T A right."""
    inverse = np.linalg.inv(case.dense())
    pulled = pairs.left[0].numpy() @ inverse

    def value(tangent):
        moved = case._replace(parameters=case.preconditioner.retract(case.parameters, tangent))
        return tf.reduce_sum(pulled * moved.forward(pairs.right[0]))

    return value


def log_det_of(case):
    def value(tangent):
        moved = case.preconditioner.retract(case.parameters, tangent)
        return case.preconditioner.log_det(moved)

    return value


def autodiff(fn, at):
    with tf.GradientTape() as tape:
        tape.watch(at)
        value = fn(at)
    return tape.gradient(value, at, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def assert_slope(gradient, fn, at, rng, atol):
    """By finite differences along a random direction of every leaf: a wrong entry in it shows."""
    leaves, slopes, free = (
        tf.nest.flatten(x) for x in (at, gradient, families.free_coordinates(at))
    )
    for position, (leaf, slope, mask) in enumerate(zip(leaves, slopes, free, strict=True)):
        direction = rng.normal(size=leaf.shape) * mask

        def along(t, position=position, leaf=leaf, direction=direction):
            moved = [*leaves[:position], leaf + t * direction, *leaves[position + 1 :]]
            return fn(tf.nest.pack_sequence_as(at, moved)).numpy()

        expected = twins.central_difference(along, 0.0)
        np.testing.assert_allclose(np.sum(slope * direction), expected, atol=atol, rtol=1e-9)


def test_gradient_is_the_derivative_through_retract(case, pairs):
    gradient = case.preconditioner.gradient(case.parameters, pairs)
    expected = autodiff(functional(case, pairs), case.still())
    assert_close(free_part(gradient), free_part(expected))


def test_gradient_against_finite_differences(case, pairs, rng):
    gradient = case.preconditioner.gradient(case.parameters, pairs)
    assert_slope(gradient, functional(case, pairs), case.still(), rng, atol=1e-7)


def test_log_det_gradient_is_the_derivative_through_retract(case, rng):
    gradient = case.preconditioner.log_det_gradient(case.parameters)
    assert_close(free_part(gradient), free_part(autodiff(log_det_of(case), case.still())))
    assert_slope(gradient, log_det_of(case), case.still(), rng, atol=1e-8)


def test_fixed_coordinates_have_no_gradient(case, pairs):
    """An optimizer with momentum must never see a slope where nothing can move."""
    gradients = (
        case.preconditioner.gradient(case.parameters, pairs),
        case.preconditioner.log_det_gradient(case.parameters),
    )
    for gradient in gradients:
        for all_of_it, free in zip(
            tf.nest.flatten(gradient), tf.nest.flatten(free_part(gradient)), strict=True
        ):
            np.testing.assert_array_equal(all_of_it, free)


def test_gradient_adds_up_over_pairs(case, pairs):
    whole = case.preconditioner.gradient(case.parameters, pairs)
    left, right = ((rows[:2], rows[2:]) for (rows,) in pairs)
    halves = [
        case.preconditioner.gradient(case.parameters, Pairs((left[i],), (right[i],)))
        for i in range(2)
    ]
    assert_close(whole, tf.nest.map_structure(tf.add, *halves))
    assert_close(whole, case.preconditioner.gradient(case.parameters, Pairs(left, right)))


def test_no_pairs_no_gradient(case):
    empty = Pairs(*[(tf.zeros([0, SIZE], tf.float64),)] * 2)
    assert_close(case.preconditioner.gradient(case.parameters, empty), case.still())


# --- probes --------------------------------------------------------------------------------------


def test_probe_has_identity_covariance(case):
    """Exactly, over all signs and both sides of the coin: what keeps the estimator unbiased."""
    bits = np.array(list(itertools.product([0.0, 1.0], repeat=SIZE + 1)))
    signs, coin = 2 * bits[:, 1:] - 1, bits[:, 0]
    probe = case.preconditioner.probe(tf.constant(signs), tf.constant(coin)).numpy()
    np.testing.assert_allclose(probe.T @ probe / len(probe), np.eye(SIZE), atol=1e-12)


def test_probe_visits_path_and_border_apart(case, family):
    """So that the border learns from its own signal and not from the noise of the path."""
    probe = case.preconditioner.probe(tf.ones([2, SIZE]), tf.constant([0.0, 1.0])).numpy()
    if family == 'by_part':
        theta, path = [0], [1, 2, 3]
        np.testing.assert_array_equal(probe[:, theta] != 0, [[True], [False]])
        np.testing.assert_array_equal(probe[:, path] != 0, [[False] * 3, [True] * 3])
        np.testing.assert_array_equal(probe[:, 4:], np.ones([2, 2]))
    elif family.startswith('bordered'):
        n = SIZE - 3
        expected = [[False] * n + [True] * 3, [True] * n + [False] * 3]
        np.testing.assert_array_equal(probe != 0, expected)
    else:
        np.testing.assert_array_equal(probe, np.ones([2, SIZE]))


# --- moving --------------------------------------------------------------------------------------


def test_zero_tangent_changes_nothing(case, family):
    """Bit for bit, but for a basis that is made orthonormal anew."""
    moved = case.preconditioner.retract(case.parameters, case.still())
    rounding = 1e-15 if family == 'low_rank' else 0
    for after, before in zip(tf.nest.flatten(moved), tf.nest.flatten(case.parameters), strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=rounding)


def test_stays_invertible_after_big_steps(case, family, rng):
    parameters = case.parameters
    for _ in range(5):
        parameters = case.preconditioner.retract(parameters, case.random_tangent(rng, scale=3))
        matrix = case.dense(parameters)
        sign, log_det = np.linalg.slogdet(matrix)
        assert sign == 1
        np.testing.assert_allclose(case.preconditioner.log_det(parameters), log_det, atol=1e-6)
        assert family == 'low_rank' or np.diag(matrix).min() > 0


def test_structure_survives_a_step(case, rng):
    moved = case.preconditioner.retract(case.parameters, case.random_tangent(rng, scale=0.1))
    np.testing.assert_allclose(case.dense(moved), families.documented(moved), atol=1e-12)
    outside = np.linalg.inv(case.dense(moved)) * (1 - families.inverse_pattern(moved))
    np.testing.assert_allclose(outside, 0, atol=1e-10)
    if isinstance(moved, LowRankParameters):
        beyond_the_diagonal = case.dense(moved) / moved.scale[:, tf.newaxis] - np.eye(SIZE)
        assert np.linalg.matrix_rank(beyond_the_diagonal, tol=1e-10) == moved.basis.shape[-1]


def test_fixed_entries_of_the_parameters_stay_zero(case, rng, family):
    moved = case.preconditioner.retract(case.parameters, case.random_tangent(rng, scale=0.1))
    free = families.free_coordinates(moved)
    for entries, mask in zip(tf.nest.flatten(moved), tf.nest.flatten(free), strict=True):
        np.testing.assert_array_equal(entries * (1 - mask), np.zeros(mask.shape))


def test_relative_coordinates_do_not_depend_on_units(case, pairs, coordinates, rng):
    """Whitened gradients are the same in any units, so learning from them has to be, too."""
    unit = 10 ** rng.uniform(-2, 2, size=SIZE)
    scaled = families.rescaled(case.parameters, unit)
    np.testing.assert_allclose(case.dense(scaled), unit[:, np.newaxis] * case.dense(), rtol=1e-9)
    gradient = case.preconditioner.gradient(case.parameters, pairs)
    scaled_gradient = case.preconditioner.gradient(scaled, pairs)
    if coordinates == 'euclidean':
        with pytest.raises(AssertionError):
            assert_close(scaled_gradient, gradient)
        return
    assert_close(scaled_gradient, gradient)
    tangent = case.random_tangent(rng, scale=0.3)
    moved = case.dense(case.preconditioner.retract(case.parameters, tangent))
    scaled_moved = case.dense(case.preconditioner.retract(scaled, tangent))
    np.testing.assert_allclose(scaled_moved, unit[:, np.newaxis] * moved, rtol=1e-9, atol=1e-12)
