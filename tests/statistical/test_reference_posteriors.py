"""Logistic regressions against posterior moments of an independent implementation.

The data are not part of the repository. Set TFP_ADAPTIVE_DATA to a folder that holds
`german.mat` and the others (one matrix X each, the last column the label) and
`reference/gad_moments_german.csv` (coord, mean, sd and the standard errors of the means).
"""

import os
import pathlib

import numpy as np
import pytest
import scipy.io
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support.statistics import largest_z, moment_z_scores

NUM_CHAINS = 10
NUM_STEPS = 4000
OTHERS = 'ripley', 'pima', 'german'


def _folder():
    if 'TFP_ADAPTIVE_DATA' not in os.environ:
        pytest.skip('TFP_ADAPTIVE_DATA is not set: no folder with data and reference moments')
    return pathlib.Path(os.environ['TFP_ADAPTIVE_DATA'])


def _log_posterior(folder, name):
    """Standardised covariates with an intercept last, prior N(0, I)."""
    table = scipy.io.loadmat(folder / f'{name}.mat')['X'].astype(np.float64)
    covariates, labels = table[:, :-1], table[:, -1]
    covariates = (covariates - covariates.mean(axis=0)) / covariates.std(axis=0, ddof=1)
    design = np.concatenate([covariates, np.ones([len(table), 1])], axis=1)
    signs = np.where(labels == labels.max(), 1.0, -1.0)[:, np.newaxis]
    signed_design = tf.constant(signs * design, tf.float32)

    def log_prob(weights):
        margin = tf.matmul(weights, signed_design, transpose_b=True)
        log_likelihood = tf.reduce_sum(tf.math.log_sigmoid(margin), axis=-1)
        return log_likelihood - tf.reduce_sum(tf.square(weights), axis=-1) / 2

    return log_prob, design.shape[1]


@pytest.mark.parametrize(
    'name',
    [
        'heart',
        *(pytest.param(name, marks=pytest.mark.slow) for name in ('ripley', 'pima', 'german')),
    ],
)
def test_moments_of_a_logistic_regression(name, seed):
    folder = _folder()
    log_prob, event_size = _log_posterior(folder, name)
    reference = np.genfromtxt(
        folder / 'reference' / f'gad_moments_{name}.csv', delimiter=',', names=True
    )
    kernel = tfpa.EntropyAdaptiveHMC(log_prob, num_leapfrog_steps=2, num_adaptation_steps=1000)

    @tf.function(jit_compile=True, autograph=False)
    def warm_up(state):
        return tfp.mcmc.sample_chain(
            1,
            state,
            kernel=kernel,
            num_burnin_steps=1499,
            trace_fn=None,
            return_final_kernel_results=True,
            seed=[seed, 0],
        )

    @tf.function(jit_compile=True, autograph=False)
    def sample(state, results):
        return tfp.mcmc.sample_chain(
            NUM_STEPS, state, kernel=kernel.frozen(results), trace_fn=None, seed=[seed, 1]
        )

    warm = warm_up(tf.zeros([NUM_CHAINS, event_size]))
    draws = sample(warm.all_states[-1], warm.final_kernel_results)

    mean_error = np.maximum(reference['se_mean_from_ess'], reference['se_mean_between_seeds'])
    variance = reference['sd'] ** 2
    # for a nearly Gaussian marginal, a variance is known sqrt(2) times its mean's relative error
    variance_error = np.sqrt(2) * reference['sd'] * mean_error
    z, ess = moment_z_scores(draws, reference['mean'], variance, mean_error, variance_error)
    assert ess > 1000
    assert np.max(np.abs(z)) < largest_z(z.size)
