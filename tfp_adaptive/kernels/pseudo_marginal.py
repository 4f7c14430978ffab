"""Correlated pseudo-marginal Metropolis-Hastings (Dahlin, Wills & Ninness 2018)."""

from collections.abc import Callable

import tensorflow as tf

from tfp_adaptive import tuning
from tfp_adaptive.estimators import Estimator
from tfp_adaptive.internal.numbers import check_accept_prob
from tfp_adaptive.kernels import base, marginal, marginal_base, windowed, windowed_base
from tfp_adaptive.kernels.frozen_marginal import FrozenPseudoMarginal
from tfp_adaptive.proposals import gaussian
from tfp_adaptive.typing import Proposal


class PseudoMarginal(marginal_base.MarginalKernel):
    """Metropolis-Hastings on a likelihood that is estimated without bias.

    The state of a chain is theta; beside it, in `kernel_results.memory`, the chain carries the
    noise u that the estimate was made of, and the chain of (theta, u) has the exact posterior of
    theta. One step, for every chain, with step size eps and learned covariance Sigma:

        theta' ~ q(. | theta, u~),   u' = rho u + sqrt(1 - rho^2) xi,   u~' likewise
        accept (theta', u', u~') with probability min(1, ratio), where
            ratio = p-hat(theta', u') prior(theta') q(theta | theta', u~')
                    / (p-hat(theta, u) prior(theta) q(theta' | theta, u~))
        and during the first `num_adaptation_steps` steps
            eps <- Robbins-Monro;   Sigma <- covariance of the draws, at the end of each window

    A quasi-Newton proposal with a memory of M interleaves M chains, its lanes: what one_step
    returns is the lane it updated, and the state it is given is not read. Autocorrelations of a
    lane show at multiples of M steps only, so effective sizes need many more lags than M.

    Cost: one estimate of the likelihood a step, two (with scores) for quasi-Newton proposals, 1 + 2
    D scores for Newton's. `info.num_gradients` counts them.

    Reference: J. Dahlin, A. Wills, B. Ninness. Correlated pseudo-marginal Metropolis-Hastings
    using quasi-Newton proposals, 2018; G. Deligiannidis, A. Doucet, M. Pitt. The correlated
    pseudo-marginal method. JRSS B 2018.

    Example:
      >>> def joint(x, theta):  # y_t ~ N(x_t, 1), x_t ~ N(theta, 1)
      ...     effects = tfp.distributions.Normal(theta[..., tf.newaxis, tf.newaxis], 1.0)
      ...     data = tf.constant([[0.3], [1.8], [1.1]])
      ...     return effects.log_prob(x) + tfp.distributions.Normal(x, 1.0).log_prob(data)
      >>> estimator = tfpa.estimators.importance_sampling(
      ...     joint, lambda theta: (theta[..., tf.newaxis], 1.0), num_groups=3, num_particles=20)
      >>> kernel = tfpa.PseudoMarginal(
      ...     estimator, lambda theta: -tf.square(theta) / 2, num_adaptation_steps=100)
      >>> draws = tfp.mcmc.sample_chain(
      ...     10, tf.zeros([4]), kernel=kernel, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        estimator: Estimator,
        prior_log_prob_fn: Callable,
        num_adaptation_steps: int = 1000,
        proposal: gaussian.GaussianProposal | Proposal | None = None,
        *,
        auxiliary_correlation: float = 0.95,
        mode: str = 'valid',
        target_accept_prob: float | None = None,
        step_size=1.0,
        pool_fn: Callable[[list], list] | None = None,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          estimator: of the likelihood, made by `tfp_adaptive.estimators`.
          prior_log_prob_fn: callable of the state parts, each [*batch, *event], that returns the
            log-density of the prior, shape [*batch].
          num_adaptation_steps: steps that learn, a Python int; bitwise constant after. Default
            1000.
          proposal: `proposals.random_walk()`, `langevin()`, `newton()` or `quasi_newton()`. Default
            `None`: the random walk, which needs no derivative.
          auxiliary_correlation: rho in [0, 1), of the noise before and after a step; the published
            sigma_u is sqrt(1 - rho^2). Default 0.95.
          mode: 'valid', or 'as_published', whose forward density uses an outdated quasi-Newton
            matrix: that chain has another law than the posterior. Default 'valid'.
          target_accept_prob: in (0, 1), steers eps. Default `None`: 0.2 for the random walk, 0.5
            for `langevin` and `newton`, 0.3 for `quasi_newton`.
          step_size: factor on eps; a scalar, or one value per chain. Default 1.
          pool_fn: maps a list of tensors, sums over the chains of this replica, to their sums over
            all replicas, once a step; `tfp_adaptive.distribute.sum_over_replicas` on many GPUs or
            hosts. Default `None`: one replica.
          name: prefix of operation names. Default: 'pseudo_marginal'.

        Raises:
          TypeError: if `prior_log_prob_fn` is not callable, or an axis is not made by its module.
          ValueError: if an argument is out of its range.
        """
        parameters = dict(locals())
        design = marginal_base.make_design(estimator, proposal, auxiliary_correlation, mode)
        if tf.is_tensor(num_adaptation_steps):
            raise ValueError(
                '`num_adaptation_steps` must be a Python int, for it decides where windows end; '
                f'got {num_adaptation_steps!r}.'
            )
        if target_accept_prob is None:
            target_accept_prob = design.proposal.target_accept_prob
        check_accept_prob(target_accept_prob)
        self._axes = windowed.Axes(
            mover=marginal.mover(design),
            step_size_rule=tuning.robbins_monro(target_accept_prob),
            metric=marginal.split(tuning.covariance()),
            schedule=tuning.windows(),
            num_adaptation_steps=num_adaptation_steps,
            pool_fn=pool_fn,
        )
        super().__init__(parameters, design, marginal.sampler(design, self._axes), None)

    @property
    def is_calibrated(self) -> bool:
        """Whether the mode is 'valid': the chain is then exact once adaptation has ended."""
        return not self._design.is_published

    def frozen(self, kernel_results: base.KernelResults) -> FrozenPseudoMarginal:
        """The learned proposal as a kernel of its own, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up. Its
            noise and lanes go along, for as many chains as it has.

        Returns:
          A `FrozenPseudoMarginal`.

        Raises:
          TypeError: if `kernel_results` are not those of a kernel of this package.
        """
        windowed_base.check_results(kernel_results)
        own = self.parameters
        return FrozenPseudoMarginal(
            own['estimator'],
            own['prior_log_prob_fn'],
            self._design.proposal,
            kernel_results.adaptation.preconditioner,
            memory=kernel_results.memory,
            auxiliary_correlation=own['auxiliary_correlation'],
            mode=own['mode'],
            step_size=kernel_results.step_size,
            name=own['name'],
        )
