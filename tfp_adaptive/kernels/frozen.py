"""A learned proposal without its learning."""

from typing import Any

from tfp_adaptive.kernels import base, gradient_adaptive
from tfp_adaptive.typing import Preconditioner, Proposal


class FrozenKernel(base.SamplerKernel):
    """An exact Metropolis-Hastings kernel with a fixed preconditioner.

    Usually made by `kernel.frozen(kernel_results)`. Its graph holds no adaptation code, and the
    preconditioner travels in `kernel_results.adaptation.preconditioner`, so that one compiled
    program serves every proposal of the same shape.

    Example:
      >>> frozen = kernel.frozen(results)
      >>> draws = tfp.mcmc.sample_chain(
      ...     100, state, kernel=frozen, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        target_log_prob_fn,
        proposal: Proposal,
        preconditioner: Preconditioner,
        parameters_of_preconditioner: Any,
        step_size=1.0,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts [*batch, *event] -> [*batch].
          proposal: for instance `proposals.leapfrog(2)`.
          preconditioner: for instance `preconditioners.cholesky()`.
          parameters_of_preconditioner: its parameters, for instance C [D, D].
          step_size: factor on C; a scalar, or one value per chain.
          name: prefix of operation names. Default: 'frozen_kernel'.
        """
        parameters = dict(locals(), num_adaptation_steps=0)
        sampler = gradient_adaptive.frozen_sampler(
            proposal, preconditioner, parameters_of_preconditioner
        )
        super().__init__(parameters, sampler)

    @property
    def is_calibrated(self) -> bool:
        """`True`."""
        return True
