"""Quasi-Newton matrices against slow twins, and on a quadratic, where the answer is known."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.proposals import secants


def twin_bfgs(s, y, first):
    h = first.copy()
    for step, change in zip(s, y, strict=True):
        b = np.linalg.inv(h)
        curvature, model = step @ change, step @ b @ step
        share = 1.0 if curvature > 0.2 * model else 0.8 * model / (model - curvature)
        damped = share * change + (1 - share) * (b @ step)
        rate = 1 / (damped @ step)
        left = np.eye(len(step)) - rate * np.outer(step, damped)
        h = left @ h @ left.T + rate * np.outer(step, step)
    return h


def twin_sr1(s, y, first):
    h = first.copy()
    for step, change in zip(s, y, strict=True):
        residual = step - h @ change
        if abs(residual @ change) > 1e-4 * np.linalg.norm(residual) * np.linalg.norm(change):
            h = h + np.outer(residual, residual) / (residual @ change)
    return h


def twin_least_squares(s, y, first, penalty=0.1):
    weight = penalty * np.trace(y.T @ y) / y.shape[1]
    solution = np.linalg.inv(y.T @ y + weight * np.eye(y.shape[1])) @ (y.T @ s + weight * first)
    return (solution + solution.T) / 2


METHODS = {
    'bfgs': (secants.bfgs, twin_bfgs),
    'sr1': (secants.sr1, twin_sr1),
    'ls': (
        lambda *args: secants.least_squares(*args, penalty=0.1, is_relative=True),
        twin_least_squares,
    ),
}


def problem(seed, num_pairs=6, size=4, noise=0.5):
    """Pairs of three chains on a quadratic, with noise in the scores: some have no curvature."""
    rng = np.random.default_rng(seed)
    s = rng.standard_normal([3, num_pairs, size])
    y = s * np.linspace(0.3, 2, size) + noise * rng.standard_normal(s.shape)
    y[:, 1] *= -1
    return s, y, np.tile(0.4 * np.eye(size), [3, 1, 1])


@pytest.mark.parametrize('jit_compile', [False, True])
@pytest.mark.parametrize('name', METHODS)
def test_against_the_twin(name, jit_compile, seed):
    method, twin = METHODS[name]
    s, y, first = problem(seed)
    is_used = np.random.default_rng([seed, 1]).random([3, 6]) < 0.8
    compiled = tf.function(method, jit_compile=jit_compile, autograph=False)
    matrix, _ = compiled(*(tf.constant(x) for x in (s, y, first, is_used)))
    for c in range(3):
        rows = is_used[c]
        np.testing.assert_allclose(matrix[c], twin(s[c, rows], y[c, rows], first[c]), rtol=1e-8)


@pytest.mark.parametrize('name', METHODS)
def test_pairs_that_do_not_count_do_nothing(name, seed):
    s, y, first = problem(seed)
    is_used = np.zeros([3, 6], bool)
    matrix, num_used = METHODS[name][0](s, y, first, is_used)
    np.testing.assert_allclose(matrix, first, rtol=1e-12)
    np.testing.assert_array_equal(num_used, 0)


@pytest.mark.parametrize('name', METHODS)
def test_a_pair_of_zeros_does_no_harm(name, seed):
    """An impossible step is masked, but must not spoil the others through NaN."""
    s, y, first = problem(seed)
    is_used = np.ones([3, 6], bool)
    s[:, 2], y[:, 2], is_used[:, 2] = 0, 0, False
    matrix, _ = METHODS[name][0](s, y, first, is_used)
    assert np.all(np.isfinite(matrix))


def test_bfgs_stays_positive_definite_where_the_scores_say_otherwise(seed):
    s, y, first = problem(seed, num_pairs=12, noise=3.0)
    matrix, num_used = secants.bfgs(s, y, first, np.ones([3, 12], bool))
    assert np.min(np.linalg.eigvalsh(matrix)) > 0
    assert np.all(num_used.numpy() == 12)


@pytest.mark.parametrize(('name', 'bound'), [('sr1', 1e-6), ('ls', 1e-3)])
def test_a_quadratic_is_recovered(name, bound, seed):
    """22 coordinates, 28 pairs of exact scores (the case of the paper's second example)."""
    rng = np.random.default_rng(seed)
    variances = np.linspace(6e-4, 5e-3, 22)
    theta = rng.standard_normal([30, 22]) * np.sqrt(variances)
    theta = theta[np.argsort(-np.sum(theta**2 / variances, axis=1))]
    s = np.diff(theta, axis=0)[None, 1:]
    y = s / variances
    method = METHODS[name][0]
    if name == 'ls':
        method = lambda *args: secants.least_squares(*args, 1e-6, True)  # noqa: E731
    first = 1e-3 * np.eye(22)[None]
    matrix, _ = method(s, y, first, np.ones([1, 28], bool))
    error = np.linalg.norm(matrix[0] - np.diag(variances)) / np.linalg.norm(variances)
    assert error < bound


def test_positive_definite_flips_the_spectrum():
    vectors = np.linalg.qr(np.random.default_rng(1).standard_normal([3, 3]))[0]
    spectra = np.array([[-2.0, 1.0, 3.0], [1.0, 2.0, 3.0], [0.0, 1.0, 1.0], [np.nan, 1.0, 1.0]])
    matrices = np.einsum('ij,cj,kj->cik', vectors, spectra, vectors)
    fallback = np.tile(2 * np.eye(3), [4, 1, 1])
    result, is_corrected = secants.positive_definite(
        tf.constant(matrices), tf.constant(fallback), 0.05
    )
    np.testing.assert_array_equal(is_corrected, [True, False, True, True])
    expected = [[1, 2, 3], [1, 2, 3], [0.1, 1, 1], [2, 2, 2]]
    np.testing.assert_allclose(np.linalg.eigvalsh(result), expected, rtol=1e-10)


def test_positive_definite_does_not_look_at_units(rng):
    """Coordinates of scales 1 and 1e-4: an exact matrix is left alone, others are scaled alike."""
    units = np.diag([1.0, 1e-4, 30.0])
    root = rng.standard_normal([3, 3])
    fallback = root @ root.T + np.eye(3)
    matrices = np.stack([fallback, 2 * np.eye(3) - fallback, -fallback])
    plain, is_corrected = secants.positive_definite(
        tf.constant(matrices), tf.constant(np.tile(fallback, [3, 1, 1])), 1e-4
    )
    scaled, same = secants.positive_definite(
        tf.constant(units @ matrices @ units),
        tf.constant(np.tile(units @ fallback @ units, [3, 1, 1])),
        1e-4,
    )
    np.testing.assert_array_equal(is_corrected, [False, True, True])
    np.testing.assert_array_equal(same, is_corrected)
    np.testing.assert_allclose(scaled, units @ plain.numpy() @ units, rtol=1e-9)
