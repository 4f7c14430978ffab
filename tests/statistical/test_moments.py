"""Moments of long frozen chains against known ones, in standard errors from the effective size."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support import catalogue, targets
from tests.support.catalogue import DEFAULT, every_kernel_in_depth
from tests.support.statistics import largest_z, moment_z_scores

NUM_STEPS = 600
MIN_EFFECTIVE_SIZE = 300
"""Below this a standard error is itself too uncertain to speak of."""


def _draws(entry, target, seed):
    learned = catalogue.learned(entry, target, seed)

    @tf.function(autograph=False)
    def run(state):
        return tfp.mcmc.sample_chain(
            NUM_STEPS, state, kernel=learned.frozen, trace_fn=None, seed=[seed, 2]
        )

    return run(learned.state)


def _check(entry, target, seed):
    z, ess = moment_z_scores(_draws(entry, target, seed), target.mean, np.diag(target.covariance))
    assert ess > MIN_EFFECTIVE_SIZE
    assert np.max(np.abs(z)) < largest_z(z.size)


@every_kernel_in_depth
def test_moments_of_a_skewed_target(entry, seed):
    _check(entry, targets.SKEWED, seed)


def test_moments_of_a_correlated_gaussian(seed):
    _check(DEFAULT, targets.GAUSSIAN, seed)


def test_wrong_moments_are_detected(seed):
    """The same bound rejects a posterior with a tenth of a deviation more mean or 20 % variance."""
    target = targets.GAUSSIAN
    draws = _draws(DEFAULT, target, seed)
    variance = np.diag(target.covariance)
    for mean, spread in ((target.mean + 0.1 * np.sqrt(variance), 1), (target.mean, 1.2)):
        z, _ = moment_z_scores(draws, mean, spread * variance)
        assert np.max(np.abs(z)) > largest_z(z.size)
