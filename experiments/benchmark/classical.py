"""Our kernels with the warm-up of Stan: baselines of our own in the comparison.

As kernels in `tfp.mcmc.sample_chain`, with their defaults: the warm-up and the frozen sampling are
a program each, compiled before they are timed.
"""

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import programs
from experiments.benchmark.sampling import Draws, Problem, Sampler


def windowed_nuts(problem: Problem) -> Sampler:
    """`WindowedNUTS`, which counts the leapfrog steps of each chain itself."""
    kernel = tfpa.WindowedNUTS(problem.target.log_prob, problem.num_warmup_steps)
    return _sampler(kernel, problem, lambda results: results.memory.num_leapfrogs)


def windowed_hmc(num_leapfrog_steps: int, problem: Problem) -> Sampler:
    """`WindowedHMC`, whose chains all take as many steps.

    Args:
      num_leapfrog_steps: L.
      problem: to solve.
    """
    kernel = tfpa.WindowedHMC(problem.target.log_prob, num_leapfrog_steps, problem.num_warmup_steps)
    return _sampler(kernel, problem, lambda results: results.info.num_gradients)


def _sampler(kernel, problem: Problem, count: Callable) -> Sampler:
    """Both phases of a kernel.

    Args:
      kernel: with `frozen`.
      problem: to solve.
      count: kernel results -> gradients since the bootstrap, of each chain or of all alike.
    """
    warm_up = programs.warm_up_program(kernel, problem.num_warmup_steps)
    draw = programs.sampling_program(kernel, problem.num_results)
    compiled: list[bool] = []

    def call(seed):
        """((draws, results of both phases), seconds of the warm-up, of the sampling)."""
        state = problem.initial_state(problem.num_chains, seed)
        begin = time.perf_counter()
        state, warm = warm_up(state, tf.constant([seed, 1]))
        state.numpy()
        middle = time.perf_counter()
        states, _, results = draw(state, programs.proposal_of(warm), tf.constant([seed, 2]))
        states = states.numpy()
        return (states, warm, results), middle - begin, time.perf_counter() - middle

    def sample(seed: int) -> Draws:
        compiling = 0.0
        if not compiled:
            # the first call compiles and runs
            _, *first = call(seed)
            compiled.append(True)
            compiling = sum(first)
        (states, warm, results), warming, sampling = call(seed)
        return Draws(
            states=states,
            num_gradients=float(np.mean(count(results))),
            num_warmup_gradients=float(np.mean(count(warm))),
            compile_seconds=max(0.0, compiling - warming - sampling) if compiling else 0.0,
            warmup_seconds=warming,
            sampling_seconds=sampling,
        )

    return sample
