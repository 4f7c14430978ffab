"""Runs to look at: one of a real sampler, and ones made of given draws."""

import dataclasses
import functools
import warnings

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from tfp_adaptive.sampling import SampleRun, SamplingWarning, Timings, diagnose
from tfp_adaptive.sampling.findings.diagnostics import Diagnostics
from tfp_adaptive.sampling.programs.statistics import DrawStatistics
from tfp_adaptive.typing import Info

COVARIANCE = np.array([[1.0, 1.6], [1.6, 4.0]])
NUM_CHAINS, NUM_RESULTS, NUM_WARMUP_STEPS = 4, 200, 300


def gaussian_log_prob(x):
    """N(0, COVARIANCE)."""
    precision = tf.constant(np.linalg.inv(COVARIANCE), x.dtype)
    return -tf.reduce_sum(x * tf.linalg.matvec(precision, x), axis=-1) / 2


_two_steps = functools.partial(tfpa.EntropyAdaptiveHMC, num_leapfrog_steps=2)


@functools.cache
def gaussian_run(kernel=_two_steps) -> SampleRun:
    """A real run of two leapfrog steps on a correlated Gaussian in two dimensions."""
    with warnings.catch_warnings():
        # so few draws deserve one, but only where it is tested
        warnings.simplefilter('ignore', SamplingWarning)
        return tfpa.sample(
            gaussian_log_prob,
            NUM_RESULTS,
            NUM_WARMUP_STEPS,
            kernel=kernel,
            initial_state=tf.random.stateless_normal([NUM_CHAINS, 2], seed=(20211, 0)),
            seed=(20211, 1),
            progress=False,
            jit_compile=False,
        )


def run_of_draws(
    states, batch_rank=1, *, accept_prob=0.67, num_divergences=0, warmup_trace=None, **fields
) -> SampleRun:
    """A run that left these draws behind, with everything else as a good run has it.

    Args:
      states: nest of [num_results, *batch, *event].
      batch_rank: number of chain dimensions.
      accept_prob: mean while sampling.
      num_divergences: while sampling.
      warmup_trace: `Info`, or `None`.
      **fields: of `SampleRun`.
    """
    leaf = tf.nest.flatten(states)[0]
    per_draw = np.zeros(leaf.shape[: 1 + batch_rank], np.float32)
    ess, ess_of_squares, rhat = diagnose(states, batch_rank)
    diagnostics = Diagnostics(
        ess, ess_of_squares, rhat, accept_prob, num_divergences, None, None, None
    )
    kernel = tfpa.EntropyAdaptiveHMC(gaussian_log_prob, num_adaptation_steps=NUM_WARMUP_STEPS)
    run = SampleRun(
        states=states,
        unconstrained_states=states,
        trace=(),
        warmup_trace=warmup_trace,
        diagnostics=diagnostics,
        timings=Timings(compile=1.0, warmup=2.0, sampling=3.0, start=0.5),
        frozen_kernel=None,
        final_state=[tf.constant(part[-1]) for part in tf.nest.flatten(states)],
        kernel_results=None,
        warmup_kernel_results=None,
        kernel=kernel,
        statistics=DrawStatistics(per_draw, per_draw + accept_prob, per_draw > 0),
    )
    return dataclasses.replace(run, **fields)


def warmup_info(entropy, entropy_weight=None) -> Info:
    """The trace of a warm-up with the given entropy [num_warmup_steps]."""
    zeros = np.zeros_like(entropy)
    weight = np.linspace(1, 2, len(entropy)) if entropy_weight is None else entropy_weight
    return Info(zeros + 0.67, entropy, zeros, weight, zeros, zeros, zeros, zeros)
