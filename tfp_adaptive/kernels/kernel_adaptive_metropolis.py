"""Kernel-adaptive Metropolis-Hastings: proposals that follow the bends of the target."""

from collections.abc import Callable

from tfp_adaptive import kernel_functions
from tfp_adaptive.internal import arguments
from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.kernel_functions import KernelFunction
from tfp_adaptive.kernels import (
    adaptive_metropolis,
    base,
    embedding_adaptive,
    embedding_ensemble,
    windowed_base,
)
from tfp_adaptive.kernels.embedding_adaptive import Shape
from tfp_adaptive.proposals.kernel_embedding import Embedding
from tfp_adaptive.tuning import StepSizeRule


class KernelAdaptiveMetropolis(base.SamplerKernel):
    """Metropolis-Hastings whose covariance is shaped by past states near the chain, no gradient.

    One step, for every chain, with position q, and z = (z_1, ..., z_m) and nu shared by all chains:

        M(q) = 2 [grad k(q, z_1), ..., grad k(q, z_m)],   H = I - 11^T / m
        R(q) = step_size^2 (gamma^2 I + nu^2 M(q) H M(q)^T)
        q'   ~ N(q, R(q)),   a = min(1, pi(q') N(q; q', R(q')) / (pi(q) N(q'; q, R(q))))
        and during the first `num_adaptation_steps` steps t
            z_i <- the new state of a random chain, with probability p_t (see `gain`)
            nu  <- Robbins-Monro of the mean of a towards target_accept_prob
            gamma <- the same share of nu as at first, unless `adapt_noise=False`

    While it learns, z depends on the chains' own past and draws are approximate; from then on the
    chain is an exact Markov chain for the target. `frozen` returns it without adaptation code.

    Cost: one evaluation of the log-density a step, and O(D m^2) or, for D <= m, O(D^2 m + D^3) of
    algebra a chain. What was learned, z, nu and gamma, is
    `kernel_results.adaptation.preconditioner`.

    Reference: D. Sejdinovic, H. Strathmann, M. Garcia, C. Andrieu, A. Gretton. Kernel adaptive
    Metropolis-Hastings. ICML 2014. Algorithm 2.

    Example:
      >>> kernel = tfpa.KernelAdaptiveMetropolis(target_log_prob_fn, num_adaptation_steps=500)
      >>> draws = tfp.mcmc.sample_chain(100, state, kernel=kernel, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        target_log_prob_fn: Callable,
        num_adaptation_steps: int = 1000,
        kernel_function: KernelFunction | None = None,
        subsample_size: int = 50,
        *,
        noise_scale: float = 0.2,
        adapt_noise: bool = True,
        gain: Callable | float | None = None,
        scale_rule: StepSizeRule | None = None,
        target_accept_prob: float = 0.234,
        step_size=1.0,
        pool_fn: Callable[[list], list] | None = None,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts, each [*batch, *event], that returns the
            log-density, shape [*batch].
          num_adaptation_steps: steps that learn; bitwise constant after. Default 1000.
          kernel_function: k. Its length-scale is in the units of the unconstrained state, and ought
            to be that of the bends of the target. Default `None`: `kernel_functions.gaussian()`.
          subsample_size: m. Default 50.
          noise_scale: gamma, positive: the walk where there are no points. Default 0.2.
          adapt_noise: whether gamma moves with nu, in proportion; as published it does not, and
            then the acceptance cannot be steered where gamma is too large. Default `True`.
          gain: eta_t, from which p_t = eta_t (1 - eta_t / C)^(C - 1) with C chains: each chain
            offers its state with probability eta_t / C, and a point takes it if it is the only one.
            A number in (0, 1), or a function of t = 1, 2, ..., a scalar tensor. Default `None`:
            2 / (t + 1), which forgets the first steps.
          scale_rule: how nu is tuned. Default `None`: `tuning.robbins_monro` with
            `target_accept_prob`, after `tuning.initial_step_search`.
          target_accept_prob: in (0, 1), steers nu unless `scale_rule` is given. Default 0.234.
          step_size: factor on the square root of R; a scalar, or one value per chain. Default 1.
          pool_fn: maps a list of tensors, sums over the chains of this replica, to their sums over
            all replicas, once a step; `tfp_adaptive.distribute.sum_over_replicas` on many GPUs or
            hosts. Default `None`: one replica.
          name: prefix of operation names. Default: 'kernel_adaptive_metropolis'.

        Raises:
          TypeError: if an argument is of the wrong kind.
          ValueError: if an argument is out of its range.
        """
        parameters = dict(locals())
        rule = adaptive_metropolis.choose_scale_rule(True, scale_rule, target_accept_prob)
        self._axes = embedding_adaptive.Axes(
            shape=make_shape(kernel_function, subsample_size, noise_scale, adapt_noise),
            scale_rule=rule,
            gain=make_chance(gain),
            num_adaptation_steps=num_adaptation_steps,
            pool_fn=pool_fn,
        )
        super().__init__(parameters, embedding_adaptive.embedding_sampler(self._axes))

    @property
    def is_calibrated(self) -> bool:
        """`True`: exact once adaptation has ended."""
        return True

    def frozen(self, kernel_results: base.KernelResults) -> 'FrozenKernelMetropolis':
        """The learned proposal as a kernel of its own, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up.

        Returns:
          A `FrozenKernelMetropolis` with z, nu and the step size of `kernel_results`.

        Raises:
          TypeError: if `kernel_results` are not those of a kernel of this package.
        """
        windowed_base.check_results(kernel_results)
        return FrozenKernelMetropolis(
            self.target_log_prob_fn,
            self._axes.shape,
            kernel_results.adaptation.preconditioner,
            step_size=kernel_results.step_size,
            name=self._parameters['name'],
        )


class FrozenKernelMetropolis(base.SamplerKernel):
    """Metropolis-Hastings with a fixed cloud of points; made by `KernelAdaptiveMetropolis.frozen`.

    Example:
      >>> kernel = tfpa.KernelAdaptiveMetropolis(target_log_prob_fn, num_adaptation_steps=0)
      >>> frozen = kernel.frozen(kernel.bootstrap_results(state))
      >>> draws = tfp.mcmc.sample_chain(100, state, kernel=frozen, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        target_log_prob_fn: Callable,
        shape: Shape,
        parameters_of_preconditioner: Embedding,
        *,
        is_ensemble: bool = False,
        step_size=1.0,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts [*batch, *event] -> [*batch].
          shape: of the proposal.
          parameters_of_preconditioner: z, nu and gamma.
          is_ensemble: whether z is where the other half of the chains is.
          step_size: factor on the square root of R; a scalar, or one value per chain.
          name: prefix of operation names. Default: 'frozen_kernel_metropolis'.
        """
        parameters = dict(locals())
        make = (
            embedding_ensemble.fixed_ensemble_sampler
            if is_ensemble
            else embedding_adaptive.fixed_sampler
        )
        super().__init__(parameters, make(shape, parameters_of_preconditioner))

    @property
    def is_calibrated(self) -> bool:
        """`True`."""
        return True


def make_shape(
    kernel_function: KernelFunction | None,
    subsample_size: int,
    noise_scale: float,
    adapt_noise: bool,
) -> Shape:
    """The proposal from what the user gave.

    Raises:
      TypeError: if an argument is of the wrong kind.
      ValueError: if one is out of its range.
    """
    if kernel_function is not None and not isinstance(kernel_function, KernelFunction):
        raise TypeError(
            '`kernel_function` must be made by a function like '
            f'tfp_adaptive.kernel_functions.gaussian(); got {kernel_function!r:.60}.'
        )
    subsample_size = arguments.count('subsample_size', subsample_size, least=1)
    arguments.check_flag('adapt_noise', adapt_noise)
    check_number('noise_scale', noise_scale)
    if not 0 < noise_scale < float('inf'):
        raise ValueError(f'`noise_scale` must be positive and finite; got {noise_scale}.')
    return Shape(
        kernel_function or kernel_functions.gaussian(), subsample_size, noise_scale, adapt_noise
    )


def make_chance(gain: Callable | float | None) -> Callable:
    """The probability that a point is renewed, as a function of t."""
    if gain is None:
        return lambda time: 2 / (time + 1)
    given = adaptive_metropolis.make_gain(gain)
    return lambda time: given(time, None)
