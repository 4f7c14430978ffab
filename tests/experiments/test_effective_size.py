"""Effective sample sizes against a slow twin and against known autocorrelations."""

import numpy as np
import pytest
import scipy.signal

import tfp_adaptive as tfpa
from experiments import effective_size


def _slow(x):
    """One coordinate, one lag at a time."""
    n, x = len(x), x - np.mean(x)
    rho = [np.sum(x[: n - k] * x[k:]) / np.sum(x * x) for k in range(n)]
    total, smallest = 0.0, np.inf
    for j in range(n // 2):
        smallest = min(smallest, rho[2 * j] + rho[2 * j + 1])
        if smallest <= 0:
            break
        total += smallest
    return n / max(1, 2 * total - 1)


def _autoregression(rng, coefficients, length):
    noise = rng.normal(size=[length, len(coefficients)])
    columns = [
        scipy.signal.lfilter([1], [1, -phi], column)
        for phi, column in zip(coefficients, noise.T, strict=True)
    ]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize('length', [200, 201])
def test_initial_monotone_is_its_slow_twin(rng, length):
    draws = _autoregression(rng, [0.9, 0.0, -0.5, 0.99], length) + 100
    expected = [_slow(column) for column in draws.T]
    np.testing.assert_allclose(effective_size.initial_monotone(draws), expected, rtol=1e-10)


def test_initial_monotone_of_autoregressions(rng):
    """n (1 - phi) / (1 + phi); the estimate of its inverse has relative error sqrt(2 (2M+1) / n)
    with M lags kept (Sokal 1997), here about 12 times the correlation length."""
    coefficients = np.array([0.0, 0.5, 0.9])
    length = 100_000
    found = effective_size.initial_monotone(_autoregression(rng, coefficients, length))
    expected = length * (1 - coefficients) / (1 + coefficients)
    lags = 12 / -np.log(np.maximum(coefficients, 0.3))
    error = np.sqrt(2 * (2 * lags + 1) / length)
    assert np.all(np.abs(found / expected - 1) < 4 * error)


def test_initial_monotone_never_exceeds_the_number_of_draws(rng):
    draws = _autoregression(rng, [-0.9], 1000)
    np.testing.assert_array_equal(effective_size.initial_monotone(draws), [1000])


def test_initial_monotone_of_a_chain_that_never_moves():
    assert np.isnan(effective_size.initial_monotone(np.ones([10, 1]))).all()


def test_smallest_sees_the_squares(rng):
    """A chain that flips its sign mixes in q but not in q^2."""
    size = np.cumsum(rng.normal(size=[1000, 1, 1]), axis=0)
    states = size * rng.choice([-1.0, 1.0], size=size.shape)
    min_ess, _ = effective_size.smallest(states)
    assert min_ess < 30


def test_squares_are_about_zero(rng):
    """As others publish them, and unlike those of diagnostics, which are about the mean."""
    draws = np.zeros([1000, 4, 300])
    for i in range(1, 1000):
        draws[i] = -0.9 * draws[i - 1] + rng.normal(size=[4, 300])
    draws += 100.0
    ess, ess_of_squares, rhat = effective_size.of_squares_too(draws)
    expected = tfpa.sampling.diagnose(np.square(draws), 1)[0]
    np.testing.assert_allclose(ess_of_squares, expected, rtol=1e-6)
    assert ess_of_squares.min() > 10 * tfpa.sampling.diagnose(draws, 1)[1].max()
    least, largest = effective_size.smallest(draws)
    assert least == min(ess.min(), ess_of_squares.min())
    assert largest == rhat.max()
