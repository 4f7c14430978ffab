"""A learned pseudo-marginal proposal without its learning."""

from collections.abc import Callable
from typing import Any

from tfp_adaptive.estimators import Estimator
from tfp_adaptive.kernels import marginal, marginal_base
from tfp_adaptive.proposals import gaussian
from tfp_adaptive.typing import Proposal


class FrozenPseudoMarginal(marginal_base.MarginalKernel):
    """Pseudo-marginal Metropolis-Hastings with a fixed proposal; made by `PseudoMarginal.frozen`.

    Example:
      >>> estimator = tfpa.estimators.Estimator(
      ...     1, lambda noise, x: -tf.square(x) / 2 + noise[..., 0] - 0.5, 1)
      >>> kernel = tfpa.PseudoMarginal(estimator, tf.zeros_like, num_adaptation_steps=0)
      >>> frozen = kernel.frozen(kernel.bootstrap_results(tf.zeros([4])))
      >>> draws = tfp.mcmc.sample_chain(
      ...     10, tf.zeros([4]), kernel=frozen, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        estimator: Estimator,
        prior_log_prob_fn: Callable,
        proposal: gaussian.GaussianProposal | Proposal,
        parameters_of_preconditioner: marginal.Scaled,
        *,
        memory: Any = None,
        auxiliary_correlation: float = 0.95,
        mode: str = 'valid',
        step_size=1.0,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          estimator: of the likelihood.
          prior_log_prob_fn: callable of the state parts [*batch, *event] -> [*batch].
          proposal: as of `PseudoMarginal`.
          parameters_of_preconditioner: C and eps.
          memory: `kernel_results.memory` to start from, where it has the chains of the state.
            Default `None`: fresh noise, and all lanes at the state.
          auxiliary_correlation: rho. Default 0.95.
          mode: 'valid' or 'as_published'. Default 'valid'.
          step_size: factor on eps; a scalar, or one value per chain. Default 1.
          name: prefix of operation names. Default: 'frozen_pseudo_marginal'.
        """
        parameters = dict(locals())
        design = marginal_base.make_design(estimator, proposal, auxiliary_correlation, mode)
        sampler = marginal.fixed(design, parameters_of_preconditioner)
        super().__init__(parameters, design, sampler, memory)

    @property
    def is_calibrated(self) -> bool:
        """Whether the mode is 'valid'."""
        return not self._design.is_published
