"""What is to be said of a run whose likelihood was only estimated."""

from collections.abc import Iterator
from typing import Any

from tfp_adaptive.kernels.marginal_base import MarginalKernel

MAX_VARIANCE = 3.0
"""Variance of the log-estimate above which a chain sticks: one to three is most efficient."""


def variance_concerns(run: Any) -> Iterator[str]:
    """A likelihood that is too noisy for its chain.

    Args:
      run: a `SampleRun`.
    """
    kernel = run.frozen_kernel
    if not isinstance(kernel, MarginalKernel):
        return
    variance = float(kernel.log_estimate_variance(run.final_state, seed=(0, 1)))
    if not variance <= MAX_VARIANCE:
        yield (
            f'The log-estimate of the likelihood is noisy: variance {variance:.1f} (half that of '
            f'its change in a step by the noise alone), where at most {MAX_VARIANCE:g} is good; '
            'raise the number of particles or `auxiliary_correlation`.'
        )
