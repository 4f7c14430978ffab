"""The learned proposal against its own factor, for every family of preconditioners."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.internal import packing
from tfp_adaptive.kernels import FrozenKernel
from tfp_adaptive.sampling.findings import learned

EVENT_SIZE = 7
LAYOUT = packing.make_layout([tf.zeros([EVENT_SIZE])], tf.TensorShape([]))


def factor(rng):
    return np.tril(rng.standard_normal([EVENT_SIZE, EVENT_SIZE]), -1) / 3 + np.diag(
        np.geomspace(0.1, 10, EVENT_SIZE)
    )


def proposal_of(preconditioner, parameters, step_size=0.5):
    kernel = FrozenKernel(
        runs.gaussian_log_prob,
        tfpa.proposals.leapfrog(2),
        preconditioner,
        parameters,
        step_size=step_size,
    )
    return learned.learned_proposal(kernel, LAYOUT)


@pytest.mark.parametrize('block_size', [1, 3, 256])
def test_dense(rng, monkeypatch, block_size):
    monkeypatch.setattr(learned, '_BLOCK_SIZE', block_size)
    matrix = factor(rng)
    proposal = proposal_of(tfpa.preconditioners.cholesky(), tf.constant(matrix))
    expected = matrix @ matrix.T
    np.testing.assert_array_equal(proposal.parameters, matrix)
    np.testing.assert_allclose(proposal.covariance(), expected, rtol=1e-12)
    np.testing.assert_allclose(proposal.scale(), np.sqrt(np.diag(expected)), rtol=1e-12)
    x = rng.standard_normal([3, EVENT_SIZE])
    np.testing.assert_allclose(proposal.covariance_matvec(x), x @ expected, rtol=1e-10)
    np.testing.assert_allclose(proposal.covariance_matvec(x[0]), expected @ x[0], rtol=1e-10)
    assert proposal.step_size == 0.5


def test_diagonal():
    scale = np.geomspace(0.1, 10, EVENT_SIZE)
    proposal = proposal_of(tfpa.preconditioners.diagonal(), tf.constant(scale))
    assert repr(proposal) == ('LearnedProposal(step_size=0.5, event_size=7, scales from 0.1 to 10)')
    np.testing.assert_allclose(proposal.scale(), scale)
    np.testing.assert_allclose(proposal.covariance(), np.diag(scale**2), atol=1e-15)


def test_banded(rng):
    """C^{-1} = [[T, -T R], [0, G^{-1}]] as the family documents it."""
    preconditioner = tfpa.preconditioners.banded(bandwidth=1, border_size=2, initial_scale=0.7)
    parameters = preconditioner.init(EVENT_SIZE, tf.float64, tf.constant(1.0, tf.float64))
    band = np.array(parameters.band)
    band[1, :-1] = rng.standard_normal(band.shape[1] - 1) / 3
    border = rng.standard_normal(parameters.border.shape)
    proposal = proposal_of(
        preconditioner, parameters._replace(band=tf.constant(band), border=tf.constant(border))
    )
    path = np.diag(band[0]) + np.diag(band[1, :-1], 1)
    corner = np.linalg.inv(np.array(parameters.corner))
    zeros = np.zeros([2, EVENT_SIZE - 2])
    inverse = np.block([[path, -path @ border.T], [zeros, corner]])
    np.testing.assert_allclose(
        proposal.covariance(), np.linalg.inv(inverse.T @ inverse), rtol=1e-9, atol=1e-12
    )
    assert proposal.parameters._fields == parameters._fields


def test_of_a_run():
    """What is learned on a Gaussian is about proportional to its covariance."""
    run = runs.gaussian_run()
    ratio = np.linalg.solve(runs.COVARIANCE, run.learned.covariance())
    start = np.linalg.cond(runs.COVARIANCE)
    assert np.linalg.cond(ratio) < 1 + (start - 1) / 2
    np.testing.assert_array_equal(run.learned.parameters, run.warmup_preconditioner[-1])


def test_kernels_of_others_have_none():
    kernel = tfp.mcmc.RandomWalkMetropolis(runs.gaussian_log_prob)
    assert dataclasses.replace(runs.gaussian_run(), frozen_kernel=kernel).learned is None


def test_a_structure_made_for_the_parts():
    """Blocks of correlated coordinates, known only once the parts of the state are."""
    run = tfpa.sample(
        lambda x, y: runs.gaussian_log_prob(x) + runs.gaussian_log_prob(y),
        10,
        10,
        initial_state=[tf.zeros([2, 2]), tf.zeros([2, 2])],
        kernel=lambda log_prob: tfpa.EntropyAdaptiveHMC(
            log_prob,
            num_adaptation_steps=10,
            preconditioner=tfpa.preconditioners.by_part(
                {0: tfpa.preconditioners.cholesky(), 1: tfpa.preconditioners.cholesky()}
            ),
        ),
        seed=(0, 1),
        progress=False,
        jit_compile=False,
    )
    covariance = run.learned.covariance()
    np.testing.assert_array_equal(covariance[:2, 2:], 0)
    assert covariance[0, 1] != 0
    assert covariance[2, 3] != 0


def test_a_non_linear_preconditioner_has_no_covariance():
    flow = tfpa.preconditioners.real_nvp()
    kernel = tfpa.EntropyAdaptiveHMC(lambda x: -tf.reduce_sum(x**2, axis=-1), preconditioner=flow)
    results = kernel.bootstrap_results(tf.zeros([3, EVENT_SIZE]))
    assert learned.learned_proposal(kernel.frozen(results), LAYOUT) is None


def test_of_nuts():
    """Its learned factor is that of the draws, as of the other windowed kernels."""
    run = tfpa.sample(
        runs.gaussian_log_prob,
        100,
        400,
        initial_state=tf.zeros([10, 2]),
        kernel=tfpa.WindowedNUTS,
        num_steps_between_results=0,
        seed=1,
        progress=False,
        jit_compile=False,
    )
    scale = run.learned.scale() / np.sqrt(np.diag(runs.COVARIANCE))
    assert scale.max() / scale.min() < 1.5
