"""The mixtures of the cyclical experiments: density, exact bins, and divergence."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from experiments.targets import blocks

KINDS = ['bimodal', 'five_modes', 'hypercube']


@pytest.mark.parametrize('kind', KINDS)
def test_log_prob_is_scipys(kind, rng):
    mixture = blocks.mixture_of(kind, 3)
    x = mixture.draw(20, rng)
    size = mixture.means.shape[1]
    expected = np.zeros(20)
    for block in np.split(x, mixture.num_blocks, axis=1):
        density = sum(
            weight * scipy.stats.multivariate_normal(mean, deviation**2 * np.eye(size)).pdf(block)
            for weight, mean, deviation in zip(*mixture[:3], strict=True)
        )
        expected += np.log(density)
    np.testing.assert_allclose(mixture.log_prob(tf.constant(x)), expected, rtol=1e-9)


@pytest.mark.parametrize('kind', KINDS)
def test_exact_draws_have_a_small_divergence_and_shifted_ones_a_large_one(kind, rng):
    mixture = blocks.mixture_of(kind, 2)
    assert 0.98 < mixture.bin_probabilities().sum() <= 1
    draws = mixture.draw(200_000, rng)
    # half a draw in every bin without one: in many bins exact draws differ by this much
    exact, shifted = mixture.symmetric_kl(draws), mixture.symmetric_kl(draws + 1.0)
    assert exact < 0.3
    assert shifted > 2 * exact


@pytest.mark.parametrize('kind', KINDS)
def test_shares_of_modes_tend_to_the_exact_ones(kind, rng):
    mixture = blocks.mixture_of(kind, 3)
    exact = mixture.exact_mode_shares()
    assert exact.sum() == pytest.approx(1)
    draws = mixture.draw(100_000, rng)
    distances = np.linalg.norm(
        np.reshape(draws, [-1, 1, mixture.means.shape[1]]) - mixture.means, axis=-1
    )
    shares = mixture.mode_shares(draws)
    np.testing.assert_allclose(
        shares, np.bincount(np.argmin(distances, axis=1)) / len(distances), atol=1e-4
    )
    error = np.sqrt(exact * (1 - exact) / len(distances))
    assert np.all(np.abs(shares - exact) < 4.5 * error)
