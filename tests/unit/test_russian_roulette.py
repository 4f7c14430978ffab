"""entropy.russian_roulette: unbiased for d log det(I + D), at the documented price."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tfp_adaptive import entropy, preconditioners
from tfp_adaptive.entropy.russian_roulette import RouletteNoise
from tfp_adaptive.internal import chains, outer_products

SIZE = 4
NUM_EXACT = 3
MAX_EXTRA = 24


def matrix_with_eigenvalues(eigenvalues, rng):
    basis, _ = np.linalg.qr(rng.normal(size=[len(eigenvalues)] * 2))
    return basis @ np.diag(eigenvalues) @ basis.T


@pytest.fixture
def residual_matrix(rng):
    """Eigenvalues up to |0.9|: the series converges, but only just."""
    return matrix_with_eigenvalues([-0.9, 0.85, 0.3, -0.1], rng)


def plain_probe(signs, coin):
    del coin
    return signs


PROBES = {
    'signs': plain_probe,
    'path or border': preconditioners.banded(border_size=2).probe,
}


def all_bits(num_bits):
    """Every outcome of fair coins, -1 and 1, as rows: their mean is the exact expectation."""
    return np.array(list(itertools.product([-1.0, 1.0], repeat=num_bits)))


def estimate(
    residual,
    signs,
    num_extra,
    num_exact=NUM_EXACT,
    *,
    coin=None,
    probe_fn=plain_probe,
    penalty=None,
    penalty_weight=0.0,
    is_adapting=True,
):
    """The estimate with injected noise; `residual` is a function, or a dense D for all chains."""
    coin = np.zeros(len(signs)) if coin is None else coin
    noise = RouletteNoise(tf.constant(signs), tf.constant(coin), tf.constant(num_extra))
    return entropy.russian_roulette(num_exact, penalty).estimate(
        residual if callable(residual) else lambda x: x @ residual,
        probe_fn,
        noise,
        tf.constant(penalty_weight, tf.float64),
        tf.constant(is_adapting),
    )


def repeat(fn, num, seed, dtype):
    """[fn(seed_0), fn(seed_1), ...] stacked, in one graph: eager loops are slow."""

    @tf.function(autograph=False)
    def run():
        seeds = tf.stack([tf.fill([num], seed[0]), tf.range(num)], axis=1)
        return tf.map_fn(fn, seeds, fn_output_signature=dtype)

    return run().numpy()


def functional(pairs, change, num_chains):
    """sum over the pairs of each chain of left^T A right, [C]."""
    left, right = outer_products.stack(pairs)
    terms = tf.reduce_sum(tf.matmul(left, change) * right, axis=-1)
    return np.sum(np.reshape(terms, [-1, num_chains]), axis=0)


# --- one estimate, term by term ------------------------------------------------------------------


@pytest.mark.parametrize('num_extra', [0, 1, 2, 5])
@pytest.mark.parametrize('num_exact', [0, 1, 3])
def test_terms_and_weights(num_exact, num_extra, residual_matrix, rng):
    """y, D y and mu against the twin, one chain at a time: the weights are (-1)^k / P(N >= k)."""
    probes = rng.choice([-1.0, 1.0], size=[3, SIZE])
    result = estimate(residual_matrix, probes, num_extra, num_exact)
    image_of_probe, image_of_sum, _ = result.pairs.left
    weighted_sum, probe, _ = result.pairs.right
    np.testing.assert_array_equal(probe, probes)
    np.testing.assert_allclose(image_of_probe, probes @ residual_matrix, atol=1e-12)
    for c in range(3):
        expected = twins.roulette(residual_matrix, probes[c], num_exact, num_extra)
        y = expected.weights @ expected.terms
        np.testing.assert_allclose(weighted_sum[c], y, atol=1e-12)
        np.testing.assert_allclose(image_of_sum[c], residual_matrix @ y, atol=1e-12)
        np.testing.assert_allclose(result.spectral_radius[c], abs(expected.eigenvalue), atol=1e-12)


def test_series_is_shortened_to_a_contraction(rng):
    """Where D stretches, each further term is 0.99 as long as the one before."""
    matrix = matrix_with_eigenvalues([-3.0, 2.0, 1.5, -1.2], rng)
    probes = rng.choice([-1.0, 1.0], size=[2, SIZE])
    result = estimate(matrix, probes, num_extra=2)
    for c in range(2):
        expected = twins.roulette(matrix, probes[c], NUM_EXACT, 2)
        y = expected.weights @ expected.terms
        np.testing.assert_allclose(result.pairs.right[0][c], y, atol=1e-12)
    lengths = np.linalg.norm(expected.terms, axis=1)
    np.testing.assert_allclose(lengths[1:] / lengths[:-1], 0.99, atol=1e-12)


# --- unbiased ------------------------------------------------------------------------------------


@pytest.mark.parametrize('probe', list(PROBES))
def test_expectation_is_the_neumann_series_exactly(probe, residual_matrix, rng):
    """Over all probes and levels with P(N >= j) = 2^-j, nothing is left to chance.

    The mean is the series up to the longest level. This is the test for eigenvalues near one:
    beyond 1/sqrt(2) the weights 2^k make the variance so large that sampling proves nothing.
    """
    bits, change = all_bits(SIZE + 1), rng.normal(size=[SIZE, SIZE])
    signs, coin = bits[:, 1:], (1 + bits[:, 0]) / 2
    mean, log_det = 0.0, 0.0
    for extra in range(MAX_EXTRA + 1):
        probability = 0.5 ** min(extra + 1, MAX_EXTRA)
        result = estimate(residual_matrix, signs, extra, coin=coin, probe_fn=PROBES[probe])
        mean += probability * functional(result.pairs, change, len(signs)).mean()
        log_det += probability * result.log_det.numpy().mean()
    num_terms = NUM_EXACT + MAX_EXTRA + 1
    series = twins.neumann_series(residual_matrix, num_terms)
    derivative = change.T @ residual_matrix + residual_matrix @ change
    np.testing.assert_allclose(mean, np.trace(series @ derivative), atol=1e-10)
    powers = [np.linalg.matrix_power(-residual_matrix, k) for k in range(1, num_terms)]
    series = -sum(np.trace(power) / k for k, power in enumerate(powers, start=1))
    np.testing.assert_allclose(log_det, series, atol=1e-10)
    # and the series is the dense answer up to its tail
    exact = np.sum(twins.log_det_gradient(residual_matrix) * change)
    tail = 0.9**num_terms / (1 - 0.9) * np.linalg.norm(derivative, 'nuc')
    assert abs(mean - exact) < tail


@pytest.mark.parametrize(
    ('largest', 'probe'),
    [
        (0.6, 'path or border'),
        (-0.6, 'signs'),
        pytest.param(0.6, 'signs', marks=pytest.mark.slow),
        pytest.param(-0.6, 'path or border', marks=pytest.mark.slow),
    ],
)
def test_mean_over_random_draws(largest, probe, stateless_seed, rng):
    """tr((I + D)^-1 dD) and log det(I + D) with the estimator's own noise, 4 standard errors.

    One draw has one level for all its chains, so its chains are averaged before counting.
    """
    matrix = matrix_with_eigenvalues([largest, 0.4, -0.2, 0.1], rng)
    change = np.eye(SIZE) + 0.3 * rng.normal(size=[SIZE, SIZE])
    estimator = entropy.russian_roulette(NUM_EXACT)
    num_chains, num_draws = 16, 4000

    def gradient_and_log_det(seed):
        noise = estimator.draw(seed, num_chains, SIZE, tf.float64)
        result = estimator.estimate(
            lambda x: x @ matrix,
            PROBES[probe],
            noise,
            tf.zeros([], tf.float64),
            tf.constant(True),
        )
        left, right = outer_products.stack(result.pairs)
        gradient = tf.reduce_sum((left @ change) * right) / num_chains
        return tf.stack([gradient, tf.reduce_mean(result.log_det)])

    values = repeat(gradient_and_log_det, num_draws, stateless_seed(), tf.float64)
    gradient = np.sum(twins.log_det_gradient(matrix) * change)
    _, log_det = np.linalg.slogdet(np.eye(SIZE) + matrix)
    standard_errors = values.std(axis=0, ddof=1) / np.sqrt(num_draws)
    assert (abs(values.mean(axis=0) - [gradient, log_det]) < 4 * standard_errors).all()
    assert (standard_errors < 0.05).all(), 'too few draws to see a bias'


def test_own_noise_is_fair_and_independent(stateless_seed):
    """P(num_extra_terms >= j) = 2^-j; signs, coins and levels tell nothing of one another.

    Each frequency and each product within 4 standard errors.
    """
    estimator = entropy.russian_roulette()
    num_draws = 5000

    def draw(seed):
        noise = estimator.draw(seed, 2, 2, tf.float32)
        level = tf.cast(noise.num_extra_terms, tf.float32)
        return tf.concat([tf.reshape(noise.signs, [-1]), 2 * noise.coin - 1, [level]], axis=0)

    draws = repeat(draw, num_draws, stateless_seed(), tf.float32)
    bits, levels = draws[:, :-1], draws[:, -1]
    assert levels.min() >= 0
    for j in range(1, 7):
        frequency, expected = np.mean(levels >= j), 0.5**j
        assert abs(frequency - expected) < 4 * np.sqrt(expected * (1 - expected) / num_draws)
    np.testing.assert_array_equal(abs(bits), 1)
    bits = [*bits.T, np.where(levels > 0, 1.0, -1.0)]
    products = [bits[i] * bits[j] for i in range(len(bits)) for j in range(i)]
    assert (abs(np.mean([*bits, *products], axis=1)) < 4 / np.sqrt(num_draws)).all()


# --- the largest eigenvalue and its penalty ------------------------------------------------------


@pytest.mark.parametrize('sign', [1, -1])
def test_power_iteration_finds_the_top_eigenvalue(sign, rng):
    matrix = sign * matrix_with_eigenvalues([0.95, 0.6, -0.5, 0.1], rng)
    result = estimate(matrix, all_bits(SIZE), num_extra=0, num_exact=40)
    # the error of a Rayleigh quotient is of second order: (0.6 / 0.95)^80 tan^2 of the angle
    np.testing.assert_allclose(result.spectral_radius, 0.95, atol=1e-9)


def test_power_iteration_finds_it_where_the_series_is_shortened(rng):
    matrix = matrix_with_eigenvalues([-3.0, 1.0, 0.5, 0.1], rng)
    result = estimate(matrix, all_bits(SIZE), num_extra=0, num_exact=40)
    np.testing.assert_allclose(result.spectral_radius, 3.0, atol=1e-9)


@pytest.mark.parametrize('sign', [1, -1])
def test_penalty_pairs(sign, rng):
    """d(-weight pen(|mu|)) in A with the direction b held, against finite differences."""
    matrix = sign * matrix_with_eigenvalues([1.2, 0.6, -0.5, 0.1], rng)
    probes, change = rng.choice([-1.0, 1.0], size=[3, SIZE]), rng.normal(size=[SIZE, SIZE])
    weight, threshold = 7.0, 0.75
    penalty = entropy.spectral_penalty(threshold)
    with_penalty = estimate(matrix, probes, 1, penalty=penalty, penalty_weight=weight)
    without = estimate(matrix, probes, 1, penalty=penalty)
    actual = functional(with_penalty.pairs, change, 3) - functional(without.pairs, change, 3)
    for c in range(3):
        terms = twins.roulette(matrix, probes[c], NUM_EXACT, 1).terms
        direction = terms[-1] / np.linalg.norm(terms[-1])

        def penalised(t, direction=direction):
            moved = (np.eye(SIZE) + t * change) @ direction
            return -weight * twins.penalty(abs(moved @ matrix @ moved), threshold)

        expected = twins.central_difference(penalised, 0.0)
        assert abs(expected) > 0.1
        np.testing.assert_allclose(actual[c], expected, rtol=1e-6)
        value = twins.penalty(abs(direction @ matrix @ direction), threshold)
        np.testing.assert_allclose(with_penalty.penalty[c], value, atol=1e-12)


# --- price and robustness ------------------------------------------------------------------------


@pytest.mark.parametrize('num_extra', [0, 1, 4])
@pytest.mark.parametrize('num_exact', [0, 3])
def test_spends_n_plus_one_products(num_exact, num_extra, residual_matrix):
    calls = []

    def residual(x):
        calls.append(x)
        return x @ residual_matrix

    result = estimate(residual, all_bits(SIZE), num_extra, num_exact)
    assert len(calls) == num_exact + num_extra + 1
    assert result.num_hessian_vector_products == num_exact + num_extra + 1


def test_spends_nothing_when_not_adapting():
    def residual(x):
        raise AssertionError('a product was spent')

    result = estimate(residual, all_bits(SIZE), 2, is_adapting=False)
    assert result.num_hessian_vector_products == 0
    assert np.all(result.is_finite)
    for figure in (result.log_det, result.penalty, result.spectral_radius):
        np.testing.assert_array_equal(figure, 0)


@pytest.mark.parametrize('bad', [float('nan'), float('inf')])
def test_a_lost_chain_is_reported_and_harms_no_other(bad, residual_matrix, rng):
    probes = rng.choice([-1.0, 1.0], size=[3, SIZE])
    lost = tf.constant([False, True, False])

    def residual(x):
        return chains.where(lost, bad * tf.ones_like(x), x @ residual_matrix)

    whole = estimate(residual_matrix, probes, 2, penalty_weight=1e4)
    holed = estimate(residual, probes, 2, penalty_weight=1e4)
    np.testing.assert_array_equal(holed.is_finite, [True, False, True])
    change = rng.normal(size=[SIZE, SIZE])
    others = [0, 2]
    expected = functional(whole.pairs, change, 3)[others]
    np.testing.assert_array_equal(functional(holed.pairs, change, 3)[others], expected)
    for before, after in zip(
        (whole.log_det, whole.penalty, whole.spectral_radius),
        (holed.log_det, holed.penalty, holed.spectral_radius),
        strict=True,
    ):
        np.testing.assert_array_equal(after.numpy()[others], before.numpy()[others])


@pytest.mark.parametrize('bad', [np.nan, 1e306])
@pytest.mark.parametrize('when', [0, 1, 2])
def test_a_chain_lost_in_one_term_alone(when, bad, residual_matrix, rng):
    """What the target's next product hides still shows, and so does what makes a length or a weight
    overflow: a product of 1e306."""
    probes = rng.choice([-1.0, 1.0], size=[3, SIZE])
    calls = []

    def residual(x):
        calls.append(x)
        image = np.nan_to_num(x.numpy()) @ residual_matrix
        if len(calls) == when + 1:
            image[1] = bad * x[1]
        return tf.constant(image)

    result = estimate(residual, probes, 0, 2, penalty_weight=1e4)
    assert len(calls) == 3
    np.testing.assert_array_equal(result.is_finite, [True, False, True])
    for rows in (*result.pairs.left, *result.pairs.right):
        assert np.isfinite(rows.numpy()[[0, 2]]).all()


def test_no_residual_no_entropy(rng):
    """D = 0, as for L = 1: every quantity is zero and none is NaN."""
    result = estimate(np.zeros([SIZE, SIZE]), all_bits(SIZE), 2, penalty_weight=1e4)
    assert result.is_finite.numpy().all()
    np.testing.assert_array_equal(result.log_det, 0)
    np.testing.assert_array_equal(result.spectral_radius, 0)
    change = rng.normal(size=[SIZE, SIZE])
    np.testing.assert_array_equal(functional(result.pairs, change, len(all_bits(SIZE))), 0)


# --- log_det -------------------------------------------------------------------------------------


def test_log_det_spends_nothing(stateless_seed):
    def residual(x):
        raise AssertionError('a product was spent')

    estimator = entropy.log_det()
    noise = estimator.draw(stateless_seed(), 3, SIZE, tf.float64)
    weight = tf.constant(1e4, tf.float64)
    result = estimator.estimate(residual, plain_probe, noise, weight, tf.constant(True))
    assert result.num_hessian_vector_products == 0
    assert all(rows.shape == (0, SIZE) for (rows,) in result.pairs)
    np.testing.assert_array_equal(result.log_det, [0, 0, 0])
    np.testing.assert_array_equal(result.penalty, [0, 0, 0])
    np.testing.assert_array_equal(result.is_finite, [True] * 3)
