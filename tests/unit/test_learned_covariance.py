"""tuning.learned_covariance: against the recursion of Andrieu and Thoms in NumPy, row by row."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.tuning import learned_covariance


def recursion(mean, covariance, rows, weights, gain):
    """Equations of Algorithms 2 and 3, averaged over chains, with the old mean throughout."""
    deviations = rows - mean
    outer = sum(w * np.outer(x, x) for w, x in zip(weights, deviations, strict=True))
    first = sum(w * x for w, x in zip(weights, deviations, strict=True))
    total = sum(weights)
    return mean + gain * first / total, covariance + gain * (outer / total - covariance)


@pytest.mark.parametrize('size', [1, 5, 40])
def test_the_recursion(size, rng):
    """Whenever the factor is renewed, and whatever it was when the rows came in."""
    mean, covariance = rng.normal(size=size), np.eye(size)
    learned = learned_covariance.start(tf.constant(mean))
    for step in range(30):
        rows, weights = rng.normal(size=[4, size]) * np.arange(1, size + 1), rng.uniform(size=4)
        gain = 2 / (step + 5)
        mean, covariance = recursion(mean, covariance, rows, weights, gain)
        sums = learned_covariance.collect(learned, tf.constant(rows), tf.constant(weights))
        learned = learned_covariance.absorb(learned, sums, tf.constant(gain, tf.float64))
        np.testing.assert_allclose(learned_covariance.covariance(learned), covariance, rtol=1e-9)
        if learned_covariance.is_due(learned, tf.constant(step)):
            learned = learned_covariance.refactor(learned)
            factor = learned.factor.numpy()
            np.testing.assert_allclose(factor @ factor.T, covariance, rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(factor @ learned.whitener, np.eye(size), atol=1e-8)
            np.testing.assert_array_equal(np.triu(factor, 1), 0)
    np.testing.assert_allclose(learned.mean, mean, rtol=1e-9)


def test_the_factor_is_renewed_for_a_tenth_of_news_and_not_at_every_step():
    learned, due = learned_covariance.start(tf.zeros([16])), []
    for step in range(60):
        sums = learned_covariance.collect(learned, tf.ones([1, 16]), tf.ones([1]))
        learned = learned_covariance.absorb(learned, sums, tf.constant(0.1 if step < 8 else 0.01))
        if learned_covariance.is_due(learned, tf.constant(step)):
            learned = learned_covariance.refactor(learned)
            due.append(step)
    # every D / 8 steps of large gain; then 1 - 0.99^n first reaches a tenth at n = 11
    assert due == [1, 3, 5, 7, 19, 31, 43, 55]


def test_single_precision_holds_ill_conditioned_covariances(rng):
    """Correlations so close to 1 that a matrix in single precision would not be positive."""
    true = np.linalg.cholesky(np.array([[1.0, 1.0 - 1e-9], [1.0 - 1e-9, 1.0]]))
    learned = learned_covariance.start(tf.zeros([2]))

    @tf.function(autograph=False)
    def learn(learned, rows, gain):
        sums = learned_covariance.collect(learned, rows, tf.ones([10]))
        return learned_covariance.refactor(learned_covariance.absorb(learned, sums, gain))

    for step in range(800):
        rows = tf.constant(rng.normal(size=[10, 2]) @ true.T, tf.float32)
        learned = learn(learned, rows, tf.constant(8 / (step + 10)))
    whitened = np.linalg.solve(true, learned.factor.numpy().astype(np.float64))
    np.testing.assert_allclose(whitened @ whitened.T, np.eye(2), atol=0.3)


def test_rows_that_are_far_away_or_not_used_do_no_harm():
    learned = learned_covariance.start(tf.zeros([3]))
    rows = tf.constant([[1e30, -1e30, 0], [np.nan, 0, 0], [1, 1, 1]], tf.float32)
    sums = learned_covariance.collect(learned, rows, tf.constant([1.0, 0, 1]))
    learned = learned_covariance.absorb(learned, sums, tf.constant(0.5))
    learned = learned_covariance.refactor(learned)
    assert all(np.all(np.isfinite(leaf)) for leaf in learned)
    assert not np.array_equal(learned.factor, np.eye(3))


def test_no_rows_change_nothing():
    learned = learned_covariance.start(tf.constant([1.0, 2.0]))
    sums = learned_covariance.collect(learned, tf.fill([2, 2], np.nan), tf.zeros([2]))
    after = learned_covariance.absorb(learned, sums, tf.constant(0.5))
    for before, now in zip(learned, after, strict=True):
        np.testing.assert_array_equal(now, before)
