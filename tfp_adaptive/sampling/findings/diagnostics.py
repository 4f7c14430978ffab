"""What a run achieved, in figures."""

from dataclasses import dataclass
from typing import Any

from tfp_adaptive.sampling.figures import extremes


@dataclass(frozen=True)
class Diagnostics:
    """What a run achieved. Counts are per chain unless said otherwise.

    Attributes:
      ess: effective sample size of every coordinate over all chains together, in the structure of
        one event (`tfp.mcmc.effective_sample_size`, filter_beyond_positive_pairs), at most
        S log10 S for S draws.
      ess_of_squares: the same of the squared deviation of every coordinate from its mean: how well
        scales are known.
      rhat: rank-normalised split R-hat of every coordinate, the larger of bulk and tails.
      accept_prob: mean acceptance probability while sampling.
      num_divergences: steps, over all chains, with a log acceptance ratio below -1000 or not
        finite, while sampling; of kernels without gradients those that are NaN.
      num_warmup_gradients: target gradients a chain spent on warm-up, with those that it took to
        the typical set, where a log-density alone counts as one; `None` if the kernel does not
        count them.
      num_warmup_hessian_vector_products: likewise, each about two gradients.
      num_sampling_gradients: target gradients a chain spent on sampling; `None` likewise.
      num_restarts: chains that were lost, far below the others in density and evidence, at the
        start of the warm-up, or at its end, and were started from the others.
      num_warmup_evaluations: target evaluations without a gradient that a chain spent on warm-up;
        `None` for kernels that use gradients or do not count.
      num_sampling_evaluations: likewise, on sampling.
      num_moved_starts: chains whose `initial_state` had no finite density or gradient, and that
        began where one of the others did.
    """

    ess: Any
    ess_of_squares: Any
    rhat: Any
    accept_prob: float | None
    num_divergences: int | None
    num_warmup_gradients: int | None
    num_warmup_hessian_vector_products: int | None
    num_sampling_gradients: int | None
    num_restarts: int = 0
    num_warmup_evaluations: int | None = None
    num_sampling_evaluations: int | None = None
    num_moved_starts: int = 0

    @property
    def min_ess(self) -> float:
        """Smallest of `ess` and `ess_of_squares` over all coordinates but constant ones."""
        return extremes((self.ess, self.ess_of_squares, self.rhat))[0]

    @property
    def max_rhat(self) -> float:
        """Largest R-hat over all coordinates but constant ones."""
        return extremes((self.ess, self.ess_of_squares, self.rhat))[1]
