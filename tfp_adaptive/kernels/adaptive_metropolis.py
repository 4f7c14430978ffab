"""Adaptive Metropolis: random-walk Metropolis that learns the covariance of its target."""

from collections.abc import Callable

import tensorflow as tf

from tfp_adaptive import tuning
from tfp_adaptive.internal import arguments
from tfp_adaptive.internal.numbers import check_accept_prob, check_number
from tfp_adaptive.kernels import base, frozen, moment_adaptive, windowed_base
from tfp_adaptive.tuning import StepSizeRule


class AdaptiveMetropolis(base.SamplerKernel):
    """Random-walk Metropolis whose covariance follows the draws; it needs no gradient.

    One step, for every chain, with position q, and mu, L (lower triangular) and lambda shared by
    all chains:

        q' = q + step_size * lambda L eps,   eps ~ N(0, I);   a = min(1, pi(q') / pi(q))
        and during the first `num_adaptation_steps` steps t, with x the new position,
            mu     <- mu + eta_t (x - mu)                               averaged over chains
            L L^T  <- L L^T + eta_t ((x - mu)(x - mu)^T - L L^T)        averaged over chains
            lambda <- Robbins-Monro of the mean of a towards target_accept_prob

    The published samplers are its arguments:

        AM     adapt_scale=False: lambda = 2.38 / sqrt(D)
        RBAM   adapt_scale=False, rao_blackwell=True: q' with weight a and q with weight 1 - a
               stand for x
        GAM    the default

    Cost: one evaluation of the log-density a step. The learned lambda L is
    `kernel_results.adaptation.preconditioner`; `frozen` returns it as a kernel without adaptation
    code. L is updated once what it has not taken in yet has a weight of a tenth, at most once in D
    / 8 steps, and again after the last step that learns; so a step costs O(D^2). State parts may
    have any shapes; L acts on their concatenation of size D.

    Reference: C. Andrieu, J. Thoms. A tutorial on adaptive MCMC. Statistics and Computing 2008.
    Algorithms 2, 3 and 4; H. Haario, E. Saksman, J. Tamminen. An adaptive Metropolis algorithm.
    Bernoulli 2001.

    Example:
      >>> kernel = tfpa.AdaptiveMetropolis(target_log_prob_fn, num_adaptation_steps=500)
      >>> draws = tfp.mcmc.sample_chain(100, state, kernel=kernel, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        target_log_prob_fn: Callable,
        num_adaptation_steps: int = 1000,
        rao_blackwell: bool = False,
        adapt_scale: bool = True,
        *,
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
          rao_blackwell: whether proposals count with their acceptance probability, accepted or
            not. Default `False`.
          adapt_scale: whether lambda is learned; else it is 2.38 / sqrt(D). Default `True`.
          gain: eta_t of the moments: a number in (0, 1), or a function of t = 1, 2, ..., a scalar
            tensor. Default `None`: 2 / (t + 12 + 10 D / C), with C chains: the identity, from which
            L starts, keeps some weight until there are draws in all directions.
          scale_rule: how lambda is tuned. Default `None`: `tuning.robbins_monro` with
            `target_accept_prob`, after `tuning.initial_step_search`.
          target_accept_prob: in (0, 1), steers lambda unless `scale_rule` is given. Default 0.234.
          step_size: factor on lambda L; a scalar, or one value per chain. Default 1.
          pool_fn: maps a list of tensors, sums over the chains of this replica, to their sums over
            all replicas, once a step; `tfp_adaptive.distribute.sum_over_replicas` on many GPUs or
            hosts. Default `None`: one replica.
          name: prefix of operation names. Default: 'adaptive_metropolis'.

        Raises:
          TypeError: if `target_log_prob_fn` is not callable, a flag is no bool, or `scale_rule` is
            no `StepSizeRule`.
          ValueError: if an argument is out of its range, or `scale_rule` is given for a scale that
            is not adapted.
        """
        parameters = dict(locals())
        arguments.check_flag('rao_blackwell', rao_blackwell)
        arguments.check_flag('adapt_scale', adapt_scale)
        self._axes = moment_adaptive.Axes(
            rao_blackwell=rao_blackwell,
            scale_rule=choose_scale_rule(adapt_scale, scale_rule, target_accept_prob),
            gain=make_gain(gain),
            num_adaptation_steps=num_adaptation_steps,
            pool_fn=pool_fn,
        )
        super().__init__(parameters, moment_adaptive.moment_sampler(self._axes))

    @property
    def is_calibrated(self) -> bool:
        """`True`: each step is a Metropolis step, exact once adaptation has ended."""
        return True

    def frozen(self, kernel_results: base.KernelResults) -> frozen.FrozenKernel:
        """The learned proposal as a kernel of its own, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up.

        Returns:
          A `FrozenKernel` with lambda L and the step size of `kernel_results`.

        Raises:
          TypeError: if `kernel_results` are not those of a kernel of this package.
        """
        windowed_base.check_results(kernel_results)
        return frozen.FrozenKernel(
            self.target_log_prob_fn,
            moment_adaptive.PROPOSAL,
            self._axes.preconditioner,
            kernel_results.adaptation.preconditioner,
            step_size=kernel_results.step_size,
            name=self._parameters['name'],
        )


def choose_scale_rule(
    adapt_scale: bool, scale_rule: StepSizeRule | None, target_accept_prob: float
) -> StepSizeRule | None:
    """The rule of lambda, or `None` for a fixed one.

    Raises:
      TypeError: if `scale_rule` is no rule.
      ValueError: if one is given for a fixed scale, or `target_accept_prob` is no probability.
    """
    check_accept_prob(target_accept_prob)
    if scale_rule is not None and not isinstance(scale_rule, StepSizeRule):
        raise TypeError(
            '`scale_rule` must be made by a function like tfp_adaptive.tuning.robbins_monro(); '
            f'got {scale_rule!r}.'
        )
    if not adapt_scale:
        if scale_rule is not None:
            raise ValueError('`scale_rule` has no use with adapt_scale=False: leave one of them.')
        return None
    return scale_rule or tuning.initial_step_search(tuning.robbins_monro(target_accept_prob))


def make_gain(gain: Callable | float | None) -> Callable:
    """(t, D / C) -> eta from what the user gave.

    Raises:
      TypeError: if it is neither a number nor a function.
      ValueError: if it is a number outside (0, 1).
    """
    if gain is None:
        return lambda time, size_per_chain: 2 / (time + 12 + 10 * size_per_chain)
    if callable(gain):
        return lambda time, size_per_chain: tf.cast(gain(time), time.dtype)
    check_number('gain', gain)
    if not 0 < gain < 1:
        raise ValueError(f'`gain` must lie strictly between 0 and 1; got {gain}.')
    return lambda time, size_per_chain: gain + 0 * time
