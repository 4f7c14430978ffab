"""Our samplers in the comparison: `tfpa.sample` with what the settings choose for a target.

That is the structure of the preconditioner and the number of leapfrog steps; for the stochastic
volatility also the refreshment and the penalty, as in its experiment. All else is the default.
"""

import time

import tfp_adaptive as tfpa
from experiments.benchmark import kernels
from experiments.benchmark.sampling import Draws, Problem, Sampler

DEFAULT = 'L=1 refreshed 0.6'
"""What `sample` learns with by default, with `DEFAULT_PRECONDITIONER`: then nothing is said of the
kernel, and in many dimensions draws may take longer moves."""

DEFAULT_PRECONDITIONER = 'cholesky'


def make(label: str, num_chains: int, problem: Problem) -> Sampler:
    """The sampler of a kernel.

    Args:
      label: of `kernels`.
      num_chains: C; the draws of all chains together are as many as the problem wants.
      problem: to solve.
    """
    is_default = label == DEFAULT and problem.preconditioner == DEFAULT_PRECONDITIONER
    num_results = problem.num_short_results * problem.num_chains // num_chains

    def make_kernel(log_prob):
        return kernels.make(log_prob, problem.num_warmup_steps, label, problem.preconditioner)

    def call(seed):
        """(run, seconds)."""
        begin = time.perf_counter()
        run = tfpa.sample(
            problem.target.log_prob,
            num_results,
            problem.num_warmup_steps,
            initial_state=problem.initial_state(num_chains, seed),
            kernel=None if is_default else make_kernel,
            num_steps_between_results=0,
            seed=(seed, 1),
            progress=False,
        )
        return run, time.perf_counter() - begin

    compiled: list[bool] = []

    def sample(seed: int) -> Draws:
        compiling = 0.0
        if not compiled:
            _, compiling = call(seed)
            compiled.append(True)
        run, seconds = call(seed)
        timings = run.timings
        warm = run.warmup_kernel_results.info
        return Draws(
            states=run.states,
            num_gradients=float(run.kernel_results.info.num_gradients),
            num_warmup_gradients=float(warm.num_gradients + 2 * warm.num_hessian_vector_products),
            # the first call traces, compiles and runs
            compile_seconds=max(0.0, compiling - seconds),
            # all there is before the first draw: a peer's program holds its start too
            warmup_seconds=timings.start + timings.compile + timings.warmup,
            sampling_seconds=timings.sampling,
        )

    return sample
