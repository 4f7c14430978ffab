"""Entropy-based adaptive Hamiltonian Monte Carlo (Hirt, Titsias & Dellaportas 2021)."""

from collections.abc import Callable, Sequence

import numpy as np

from tfp_adaptive import entropy as entropies
from tfp_adaptive import objectives, optimizers, preconditioners, proposals
from tfp_adaptive.kernels import adaptive, energy_gradients, gradient_adaptive
from tfp_adaptive.typing import Controller, Entropy, Objective, Optimizer, Preconditioner


class EntropyAdaptiveHMC(adaptive.GradientAdaptiveKernel):
    """HMC or MALA whose preconditioner ascends an entropy-regularised speed measure.

    One step, for every chain, with position q and the shared factor C (C C^T = M^{-1}):

        v ~ N(0, I);  (q', v') = L whitened leapfrog steps of factor step_size * C from (q, v)
        accept q' with probability a = min(1, exp(-Delta)),
            Delta = U(q') - U(q) + (|v'|^2 - |v|^2) / 2
        and during the first `num_adaptation_steps` steps
            D = -step_size^2 (L^2 - 1)/6 C^T H C at the midpoint, mu its largest eigenvalue
            C    <- Adam step down E = max(0, Delta) - beta (log|det C| + log det(I + D)
                                                             - gamma pen(|mu|))
            beta <- beta (1 + rho (a - target_accept_prob));  gamma <- gamma + rho pen(|mu|)

    Cost: L gradients a step, and N + 1 Hessian-vector products while it adapts if L > 1 (none for
    L = 1, which is MALA). Once adaptation ends it is an exact Markov chain for the target, and
    `frozen` returns it without the adaptation code.

    All leftmost dimensions that `target_log_prob_fn(*parts)` keeps index independent chains; all
    chains share one preconditioner. State parts may have any shapes; the preconditioner acts on
    their concatenation of size D.

    Reference: M. Hirt, M. Titsias, P. Dellaportas. Entropy-based adaptive Hamiltonian Monte
    Carlo. NeurIPS 2021. Objective: equation 8; gradient: sections 3.1-3.3 and Algorithm 1.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=2, num_adaptation_steps=500)
      >>> warm_up = tfp.mcmc.sample_chain(
      ...     500, state, kernel=kernel, trace_fn=None, return_final_kernel_results=True,
      ...     seed=(0, 1))
      >>> frozen = kernel.frozen(warm_up.final_kernel_results)
      >>> draws = tfp.mcmc.sample_chain(
      ...     100, warm_up.all_states[-1], kernel=frozen, trace_fn=None, seed=(0, 2))
    """

    def __init__(
        self,
        target_log_prob_fn: Callable,
        num_leapfrog_steps: int | Sequence[int] = 2,
        num_adaptation_steps: int = 1000,
        preconditioner: Preconditioner | None = None,
        objective: Objective | None = None,
        *,
        entropy: Entropy | None = None,
        optimizer: Optimizer | None = None,
        target_accept_prob: float = 0.67,
        energy_gradient: str = 'fast',
        momentum_refreshment: float = 1.0,
        step_size=1.0,
        entropy_weight: Controller | None = None,
        penalty_weight: Controller | None = None,
        pool_fn: Callable[[list], list] | None = None,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts, each [*batch, *event], that returns the
            log-density, shape [*batch]; twice differentiable if L > 1.
          num_leapfrog_steps: L >= 1, Python int, or a sequence of them from which each step draws
            one. Default 2.
          num_adaptation_steps: steps that learn; bitwise constant after. Default 1000.
          preconditioner: family of C. Default `None`: `preconditioners.cholesky()`.
          objective: what a good move is. Default `None`: `objectives.generalized_speed()`.
          entropy: estimator of log det(I + D). Default `None`: `entropy.log_det()` for L = 1 and
            for objectives without entropy, else `entropy.russian_roulette()`.
          optimizer: Default `None`: `optimizers.adam()`.
          target_accept_prob: alpha* in (0, 1), steers beta unless `entropy_weight` is given.
            Default 0.67.
          energy_gradient: 'fast' (default) holds the gradients of U along the trajectory constant,
            'exact' lets derivatives flow through them at about one more Hessian-vector product a
            leapfrog step, until the kernel is frozen.
          momentum_refreshment: share of the velocity's variance drawn anew at each step, in (0, 1].
            Default 1.
          step_size: factor on C; a scalar, or one value per chain. Not adapted here (C is), but a
            TFP step-size adapter may change it once C has been learned. Default 1.
          entropy_weight: controller of beta. Default `None`:
            `optimizers.acceptance_controller(target_accept_prob)`, or 0 for objectives without
            entropy.
          penalty_weight: controller of gamma. Default `None`: `optimizers.penalty_controller()`.
          pool_fn: maps a list of tensors, sums over the chains of this replica, to their sums over
            all replicas, once a step; `tfp_adaptive.distribute.sum_over_replicas` on many GPUs or
            hosts. Default `None`: one replica.
          name: prefix of operation names. Default: 'entropy_adaptive_hmc'.

        Raises:
          TypeError: if `target_log_prob_fn` is not callable, or an axis is not made by its module.
          ValueError: if an argument is out of its range.
        """
        parameters = dict(locals())
        adaptive.check_axes(
            objective=objective,
            entropy=entropy,
            optimizer=optimizer,
            entropy_weight=entropy_weight,
            penalty_weight=penalty_weight,
        )
        by_acceptance = optimizers.acceptance_controller(target_accept_prob)
        proposal = proposals.leapfrog(num_leapfrog_steps, momentum_refreshment)
        objective = objective or objectives.generalized_speed()
        if not objective.uses_entropy:
            if entropy is not None and entropy_weight is None:
                raise ValueError(
                    '`entropy` has no effect on this `objective`, which does not use it: leave it '
                    'out, or give it a weight with `entropy_weight`.'
                )
            entropy = entropy or entropies.log_det()
            entropy_weight = entropy_weight or optimizers.fixed_weight(0.0)
        elif np.max(num_leapfrog_steps) == 1:
            entropy = entropy or entropies.log_det()
        axes = gradient_adaptive.Axes(
            proposal=proposal,
            preconditioner=preconditioner or preconditioners.cholesky(),
            objective=objective,
            energy_gradient=energy_gradients.check_mode('energy_gradient', energy_gradient),
            entropy=entropy or entropies.russian_roulette(),
            optimizer=optimizer or optimizers.adam(),
            entropy_weight=entropy_weight or by_acceptance,
            penalty_weight=penalty_weight or optimizers.penalty_controller(),
            num_adaptation_steps=num_adaptation_steps,
            pool_fn=pool_fn,
        )
        super().__init__(parameters, axes)
