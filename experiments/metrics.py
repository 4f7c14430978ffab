"""Figures of merit of a run, in the units in which samplers are compared."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import tfp_adaptive as tfpa
from experiments import effective_size
from experiments.targets import Moments


@dataclass(frozen=True)
class Performance:
    """One sampler on one target. Gradients and Hessian-vector products are per chain.

    Attributes:
      sampler: label.
      num_chains: C.
      num_warmup_steps: steps thrown away.
      num_results: draws per chain.
      min_ess: smallest effective sample size over all coordinates of q and q^2, all chains.
      median_ess: median over coordinates of q.
      max_rhat: largest split R-hat.
      accept_prob: while sampling.
      num_divergences: likewise.
      num_gradients: while sampling, mean over chains.
      num_lockstep_gradients: likewise, but every chain waits for the slowest at each step.
      num_warmup_gradients: `None` if the kernel does not count them.
      num_warmup_hessian_vector_products: likewise.
      compile_seconds: of both programs.
      warmup_seconds: wall time.
      sampling_seconds: wall time.
      largest_error: |sample mean - known mean| in standard errors, largest over coordinates;
        `None` where no moments are known.
    """

    sampler: str
    num_chains: int
    num_warmup_steps: int
    num_results: int
    min_ess: float
    median_ess: float
    max_rhat: float
    accept_prob: float | None
    num_divergences: int | None
    num_gradients: float | None
    num_lockstep_gradients: float | None
    num_warmup_gradients: int | None
    num_warmup_hessian_vector_products: int | None
    compile_seconds: float
    warmup_seconds: float
    sampling_seconds: float
    largest_error: float | None

    @property
    def ess_per_gradient(self) -> float | None:
        """Minimum ESS per gradient evaluation of one chain."""
        return _ratio(self.min_ess, self.num_gradients, self.num_chains)

    @property
    def ess_per_lockstep_gradient(self) -> float | None:
        """The same if chains wait for each other, as they do in one program."""
        return _ratio(self.min_ess, self.num_lockstep_gradients, self.num_chains)

    @property
    def ess_per_second(self) -> float:
        """Minimum ESS per second of sampling."""
        return self.min_ess / self.sampling_seconds


def measure(
    sampler: str,
    run: tfpa.sampling.SampleRun,
    num_warmup_steps: int,
    leapfrogs: np.ndarray | None = None,
    reference: Moments | None = None,
) -> Performance:
    """`Performance` of a run on states [num_results, C, d].

    Args:
      sampler: label.
      run: what `tfpa.sample` returned.
      num_warmup_steps: of that run.
      leapfrogs: [num_results, C] gradients of every step, for kernels that do not count them.
      reference: known moments of the coordinates.
    """
    num_results, num_chains = run.states.shape[:2]
    diagnostics, timings = run.diagnostics, run.timings
    min_ess, max_rhat = effective_size.smallest(np.asarray(run.states))
    num_gradients: float | None = diagnostics.num_sampling_gradients
    num_lockstep = num_gradients
    if leapfrogs is not None:
        num_gradients = float(leapfrogs.sum(axis=0).mean())
        num_lockstep = float(leapfrogs.max(axis=1).sum())
    return Performance(
        sampler=sampler,
        num_chains=num_chains,
        num_warmup_steps=num_warmup_steps,
        num_results=num_results,
        min_ess=min_ess,
        median_ess=float(np.median(diagnostics.ess)),
        max_rhat=max_rhat,
        accept_prob=diagnostics.accept_prob,
        num_divergences=diagnostics.num_divergences,
        num_gradients=num_gradients,
        num_lockstep_gradients=num_lockstep,
        num_warmup_gradients=diagnostics.num_warmup_gradients,
        num_warmup_hessian_vector_products=diagnostics.num_warmup_hessian_vector_products,
        compile_seconds=timings.compile,
        warmup_seconds=timings.warmup,
        sampling_seconds=timings.sampling,
        largest_error=_largest_error(run, reference) if reference else None,
    )


@dataclass(frozen=True)
class Summary:
    """Posterior of one scalar."""

    mean: float
    sd: float
    lower: float
    upper: float
    ess: float
    rhat: float


def summarise(draws: np.ndarray) -> Summary:
    """Mean, standard deviation, 5 % and 95 % quantiles, ESS and R-hat of draws [num_results, C]."""
    ess, _, rhat = tfpa.sampling.diagnose(draws, 1)
    lower, upper = np.quantile(draws, [0.05, 0.95])
    figures = [draws.mean(dtype=np.float64), draws.std(dtype=np.float64), lower, upper, ess, rhat]
    return Summary(*(float(figure) for figure in figures))


def _largest_error(run: Any, reference: Moments) -> float:
    error = np.abs(run.states.mean(axis=(0, 1), dtype=np.float64) - reference.mean)
    return float(np.max(error * np.sqrt(run.diagnostics.ess) / reference.sd))


def _ratio(min_ess, num_gradients, num_chains):
    return None if num_gradients is None else min_ess / (num_gradients * num_chains)
