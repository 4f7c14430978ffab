"""Gradient-based adaptive random walk (Titsias & Dellaportas 2019)."""

from collections.abc import Callable

from tfp_adaptive import entropy as entropies
from tfp_adaptive import objectives, optimizers, preconditioners, proposals
from tfp_adaptive.kernels import adaptive, gradient_adaptive
from tfp_adaptive.typing import Controller, Optimizer, Preconditioner


class GradientAdaptiveRandomWalk(adaptive.GradientAdaptiveKernel):
    """Random-walk Metropolis whose covariance ascends the generalised speed measure.

    One step, for every chain, with position q and the shared factor F = step_size * C:

        q' = q + F eps,   eps ~ N(0, I);   accept with probability min(1, pi(q') / pi(q))
        and during the first `num_adaptation_steps` steps
            C    <- optimizer step up min(0, log pi(q') - log pi(q)) + beta log|det C|
            beta <- beta (1 + rate (acceptance - target_accept_prob)), at most 10

    Cost: one gradient, at q', until it is frozen; then it evaluates the log-density alone. Until
    then it rejects moves to where the gradient is not finite, even if the density is, and counts
    them in `info.num_nonfinite`.

    Reference: M. Titsias, P. Dellaportas. Gradient-based adaptive Markov chain Monte Carlo.
    NeurIPS 2019. Section 3.1. The published optimizer is `optimizers.rmsprop(5e-5)` on
    `preconditioners.cholesky(0.1 / sqrt(D), coordinates='euclidean')` with
    `optimizers.acceptance_controller(0.25, 0.02, bounds=(1e-4, math.inf), signal='indicator')`.

    Example:
      >>> kernel = tfpa.GradientAdaptiveRandomWalk(target_log_prob_fn, num_adaptation_steps=500)
      >>> draws = tfp.mcmc.sample_chain(100, state, kernel=kernel, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        target_log_prob_fn: Callable,
        num_adaptation_steps: int = 1000,
        preconditioner: Preconditioner | None = None,
        *,
        optimizer: Optimizer | None = None,
        target_accept_prob: float = 0.25,
        entropy_weight: Controller | None = None,
        step_size=1.0,
        pool_fn: Callable[[list], list] | None = None,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts, each [*batch, *event], that returns the
            log-density, shape [*batch].
          num_adaptation_steps: steps that learn; bitwise constant after. Default 1000.
          preconditioner: family of C. Default `None`: `preconditioners.cholesky()`.
          optimizer: Default `None`: `optimizers.adam()`.
          target_accept_prob: in (0, 1), steers beta unless `entropy_weight` is given. Default 0.25.
          entropy_weight: controller of beta. Default `None`: `optimizers.acceptance_controller`
            with `target_accept_prob`, between 1e-4 and 10: without the ceiling beta winds up while
            C is small and C then overshoots.
          step_size: factor on C; a scalar, or one value per chain. Default 1.
          pool_fn: maps a list of tensors, sums over the chains of this replica, to their sums over
            all replicas, once a step; `tfp_adaptive.distribute.sum_over_replicas` on many GPUs or
            hosts. Default `None`: one replica.
          name: prefix of operation names. Default: 'gradient_adaptive_random_walk'.

        Raises:
          TypeError: if `target_log_prob_fn` is not callable, or an axis is not made by its module.
          ValueError: if an argument is out of its range.
        """
        parameters = dict(locals())
        adaptive.check_axes(optimizer=optimizer, entropy_weight=entropy_weight)
        by_acceptance = optimizers.acceptance_controller(target_accept_prob, bounds=(1e-4, 10.0))
        axes = gradient_adaptive.Axes(
            proposal=proposals.random_walk(),
            preconditioner=preconditioner or preconditioners.cholesky(),
            objective=objectives.generalized_speed(),
            energy_gradient='fast',
            entropy=entropies.log_det(),
            optimizer=optimizer or optimizers.adam(),
            entropy_weight=entropy_weight or by_acceptance,
            penalty_weight=optimizers.fixed_weight(0.0),
            num_adaptation_steps=num_adaptation_steps,
            pool_fn=pool_fn,
        )
        super().__init__(parameters, axes)
