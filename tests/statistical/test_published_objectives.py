"""What the paper says of the rivals: ESJD and L2HMC mix badly where scales differ.

Appendix D and Table 1 of Hirt, Titsias & Dellaportas (2021): a Gaussian in 100 dimensions with
variances log-spaced from 1 to 1e6 and a diagonal preconditioner. What is compared is the smallest
effective sample size of q and q^2 per gradient, over independent runs.
"""

import functools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import effective_size

pytestmark = pytest.mark.slow

NUM_DIMS, NUM_CHAINS, NUM_RUNS = 100, 10, 8
NUM_WARMUP_STEPS, NUM_RESULTS = 2000, 1000
ILL_CONDITIONED, WELL_CONDITIONED = np.geomspace(1, 1e3, NUM_DIMS), np.ones(NUM_DIMS)

SPEED = tfpa.objectives.generalized_speed
JUMP = tfpa.objectives.expected_squared_jump_distance
L2HMC = tfpa.objectives.l2hmc

CONFIDENCE = 0.99
FACTOR = 10
"""What counts as mixing badly; the paper's Table 1 has factors of hundreds to thousands."""

WAYS = [(1, 'exact'), (5, 'fast')]
rivals = pytest.mark.parametrize('rival', [JUMP, L2HMC])
ways_to_learn = pytest.mark.parametrize(('num_leapfrog_steps', 'energy_gradient'), WAYS)


@functools.cache
def _program(objective, num_leapfrog_steps, energy_gradient):
    """Draws of N(0, diag(scales^2)) once adaptation has ended, for any scales."""

    @tf.function(jit_compile=True, autograph=False)
    def run(start, scales, seed):
        kernel = tfpa.EntropyAdaptiveHMC(
            lambda q: -tf.reduce_sum((q / scales) ** 2, axis=-1) / 2,
            num_leapfrog_steps,
            NUM_WARMUP_STEPS,
            preconditioner=tfpa.preconditioners.diagonal(),
            objective=objective(),
            energy_gradient=energy_gradient,
        )
        return tfp.mcmc.sample_chain(
            NUM_RESULTS,
            start,
            kernel=kernel,
            num_burnin_steps=NUM_WARMUP_STEPS,
            trace_fn=None,
            seed=seed,
        )

    return run


def _runs(objective, num_leapfrog_steps, energy_gradient, scales, seed):
    """(log minimum ESS per gradient, R-hat) of all runs, [NUM_RUNS, 2]."""
    program = _program(objective, num_leapfrog_steps, energy_gradient)
    figures = []
    for index in range(NUM_RUNS):
        run_seed = tf.constant([seed, index])
        start = tf.random.stateless_normal([NUM_CHAINS, NUM_DIMS], run_seed + 1)
        draws = program(start, tf.constant(scales, tf.float32), run_seed).numpy()
        min_ess, rhat = effective_size.smallest(draws)
        num_gradients = NUM_RESULTS * NUM_CHAINS * num_leapfrog_steps
        figures.append([np.log(min_ess / num_gradients), rhat])
    return np.array(figures)


@functools.cache
def _ill(objective, num_leapfrog_steps, energy_gradient, seed):
    return _runs(objective, num_leapfrog_steps, energy_gradient, ILL_CONDITIONED, seed)


@functools.cache
def _well(objective, seed):
    return _runs(objective, *WAYS[0], WELL_CONDITIONED, seed)


def _log_factor(better, worse):
    """Two-sided confidence bounds of the log of the ratio of efficiencies."""
    mean = np.mean(better[:, 0]) - np.mean(worse[:, 0])
    error = np.sqrt((np.var(better[:, 0], ddof=1) + np.var(worse[:, 0], ddof=1)) / NUM_RUNS)
    margin = scipy.stats.t.isf((1 - CONFIDENCE) / 2, NUM_RUNS - 1) * error
    return mean - margin, mean + margin


@ways_to_learn
def test_the_generalised_speed_measure_mixes(num_leapfrog_steps, energy_gradient, seed):
    figures = _ill(SPEED, num_leapfrog_steps, energy_gradient, seed)
    assert figures[:, 1].max() < 1.1


@rivals
@ways_to_learn
def test_rivals_mix_badly_where_scales_differ(rival, num_leapfrog_steps, energy_gradient, seed):
    better = _ill(SPEED, num_leapfrog_steps, energy_gradient, seed)
    worse = _ill(rival, num_leapfrog_steps, energy_gradient, seed)
    lower, _ = _log_factor(better, worse)
    assert lower > np.log(FACTOR)
    assert worse[:, 1].min() > 1.1


@rivals
def test_rivals_mix_where_scales_are_equal(rival, seed):
    """The same programs, so that it is the objective that fails and not its optimizer."""
    better, worse = _well(SPEED, seed), _well(rival, seed)
    _, upper = _log_factor(better, worse)
    assert upper < np.log(FACTOR)
    assert worse[:, 1].max() < 1.1
