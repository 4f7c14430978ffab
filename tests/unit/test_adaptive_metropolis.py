"""AdaptiveMetropolis: whole steps of the kernel against the recursions of its paper in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.unit.test_learned_covariance import recursion
from tfp_adaptive.tuning import learned_covariance

PRECISIONS = (1.0, 9.0)


def log_density(x):
    return -np.sum(np.square(x) * PRECISIONS, axis=-1)


@pytest.mark.parametrize('rao_blackwell', [False, True])
def test_what_moments_are_learned_from(rao_blackwell):
    """From new states, or from proposals and old states weighted by the chance of each.

    The gain is a function of t = 1, 2, ...
    """
    proposed = []

    def log_prob(x):
        proposed.append(x.numpy())
        return -tf.reduce_sum(tf.square(x) * tf.constant(PRECISIONS, x.dtype), axis=-1)

    kernel = tfpa.AdaptiveMetropolis(
        log_prob, 100, rao_blackwell, adapt_scale=False, gain=lambda t: 0.1 + t / 100, step_size=0.4
    )
    state = tf.constant([[0.3, 0.1], [1.0, -0.5], [-2.0, 0.4]], tf.float64)
    results = kernel.bootstrap_results(state)
    mean, covariance = state.numpy().mean(axis=0), np.eye(2)
    accept_probs = []
    for step in range(6):
        before = state.numpy()
        state, results = kernel.one_step(state, results, seed=[7, step])
        change = log_density(proposed[-1]) - log_density(before)
        accept_prob = np.minimum(1, np.exp(change))
        accept_probs.extend(accept_prob)
        rows, weights = state.numpy(), np.ones(3)
        if rao_blackwell:
            rows = np.concatenate([proposed[-1], before])
            weights = np.concatenate([accept_prob, 1 - accept_prob])
        mean, covariance = recursion(mean, covariance, rows, weights, 0.1 + (step + 1) / 100)
        learned = results.adaptation.optimizer.covariance
        np.testing.assert_allclose(learned.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(learned_covariance.covariance(learned), covariance, rtol=1e-9)
        factor = np.linalg.cholesky(covariance)
        np.testing.assert_allclose(
            results.adaptation.preconditioner, 2.38 / np.sqrt(2) * factor, rtol=1e-6
        )
    # neither all sure to be accepted, nor all sure to be rejected
    assert np.mean(accept_probs) == pytest.approx(0.5, abs=0.4)
