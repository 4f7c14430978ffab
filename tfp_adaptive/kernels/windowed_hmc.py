"""Hamiltonian Monte Carlo with the classical warm-up: dual averaging and windows of the metric."""

import functools
from collections.abc import Callable, Sequence

from tfp_adaptive import proposals, tuning
from tfp_adaptive.kernels import base, frozen, metropolis, windowed, windowed_base
from tfp_adaptive.kernels.geometry import make_move
from tfp_adaptive.kernels.gradient_adaptive import Noise
from tfp_adaptive.tuning import MetricEstimator, Schedule, StepSizeRule
from tfp_adaptive.typing import Preconditioner, Proposal


class WindowedHMC(windowed_base.WindowedKernel):
    """HMC tuned as in Stan: the step size by dual averaging, the metric in doubling windows.

    One step, for every chain, with position q, step size eps and the factor C of the metric
    (C C^T = M^{-1}), both shared by all chains:

        v ~ N(0, I);  (q', v') = L whitened leapfrog steps of factor step_size * eps * C from (q, v)
        accept q' with probability a = min(1, exp(-Delta)),
            Delta = U(q') - U(q) + (|v'|^2 - |v|^2) / 2
        and during the first `num_adaptation_steps` steps
            eps is doubled or halved until the mean of a over chains crosses a half; then
            eps <- dual averaging of a towards target_accept_prob
            at the end of each window: C C^T <- shrunk variance of its draws, and the search for
            eps starts anew

    Cost: L gradients a step, and nothing else. The learned eps C is
    `kernel_results.adaptation.preconditioner`; `frozen` returns it as a kernel without adaptation
    code. All leftmost dimensions that `target_log_prob_fn(*parts)` keeps index independent chains,
    whose draws and acceptance probabilities are pooled. State parts may have any shapes; the metric
    acts on their concatenation of size D.

    Reference: M. Hoffman, A. Gelman. The No-U-Turn Sampler. JMLR 2014, Algorithms 4 and 5; Stan
    reference manual, automatic parameter tuning, for the windows and the shrinkage.

    Example:
      >>> kernel = tfpa.WindowedHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=5, num_adaptation_steps=500)
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
        num_leapfrog_steps: int | Sequence[int] = 8,
        num_adaptation_steps: int = 1000,
        metric: MetricEstimator | None = None,
        *,
        step_size_rule: StepSizeRule | None = None,
        schedule: Schedule | None = None,
        target_accept_prob: float = 0.65,
        step_size_jitter: float = 0.0,
        momentum_refreshment: float = 1.0,
        step_size=1.0,
        pool_fn: Callable[[list], list] | None = None,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts, each [*batch, *event], that returns the
            log-density, shape [*batch]; differentiable.
          num_leapfrog_steps: L >= 1, Python int, or a sequence of them from which each step draws
            one. Default 8.
          num_adaptation_steps: steps that learn, a Python int; bitwise constant after. Default
            1000.
          metric: how C is estimated. Default `None`: `tuning.variance()`; `tuning.covariance()` is
            dense.
          step_size_rule: how eps is tuned. Default `None`: `tuning.dual_averaging` with
            `target_accept_prob`, after `tuning.initial_step_search`.
          schedule: when the metric is renewed. Default `None`: `tuning.windows()`.
          target_accept_prob: in (0, 1), steers eps unless `step_size_rule` is given. Default 0.65.
          step_size_jitter: half width of the relative jitter of each step, in [0, 1). Default 0.
          momentum_refreshment: share of the velocity's variance drawn anew at each step, in (0, 1].
            Default 1.
          step_size: factor on eps C; a scalar, or one value per chain. Default 1.
          pool_fn: maps a list of tensors, sums over the chains of this replica, to their sums over
            all replicas, once a step; `tfp_adaptive.distribute.sum_over_replicas` on many GPUs or
            hosts. Default `None`: one replica.
          name: prefix of operation names. Default: 'windowed_hmc'.

        Raises:
          TypeError: if `target_log_prob_fn` is not callable, or an axis is not made by its module.
          ValueError: if an argument is out of its range.
        """
        parameters = dict(locals())
        metric = metric or tuning.variance()
        self._proposal = tuning.jittered(
            proposals.leapfrog(num_leapfrog_steps, momentum_refreshment), step_size_jitter
        )
        rule = windowed_base.default_rule(target_accept_prob)
        family = getattr(metric, 'preconditioner', None)
        super().__init__(parameters, _mover(self._proposal, family), rule)

    def frozen(self, kernel_results: base.KernelResults) -> frozen.FrozenKernel:
        """The learned proposal as a kernel of its own, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up.

        Returns:
          A `FrozenKernel` with eps C and the step size of `kernel_results`.

        Raises:
          TypeError: if `kernel_results` are not those of a kernel of this package.
        """
        windowed_base.check_results(kernel_results)
        return frozen.FrozenKernel(
            self.target_log_prob_fn,
            self._proposal,
            self._axes.metric.preconditioner,
            kernel_results.adaptation.preconditioner,
            step_size=kernel_results.step_size,
            name=self._parameters['name'],
        )


def _mover(proposal: Proposal, preconditioner: Preconditioner | None) -> windowed.Mover:
    def move(target, parameters, step_size, state, noise: Noise):
        propose = make_move(target.event, proposal, preconditioner)
        moved = propose(target, parameters, step_size, state, noise.move)
        transition = metropolis.metropolis_hastings(moved, noise.log_uniform)
        return windowed.Step(transition, metropolis.accept_prob(transition), moved.num_gradients)

    return windowed.Mover(
        functools.partial(frozen.draw_noise, proposal),
        move,
        proposal.stable_fraction,
        uses_velocity=proposal.uses_velocity,
    )
