"""Cyclical kernel-adaptive Metropolis: wide moves to explore, then a walk of falling size."""

from collections.abc import Callable
from typing import Any

from tfp_adaptive.internal import arguments
from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.kernel_functions import KernelFunction
from tfp_adaptive.kernels import (
    adaptive_metropolis,
    base,
    embedding_adaptive,
    embedding_ensemble,
    embedding_published,
    windowed_base,
)
from tfp_adaptive.kernels.embedding_adaptive import Cycle
from tfp_adaptive.kernels.kernel_adaptive_metropolis import (
    FrozenKernelMetropolis,
    make_chance,
    make_shape,
)
from tfp_adaptive.tuning import StepSizeRule

_MODES = ('finite', 'diminishing', 'ensemble', 'as_published')


class CyclicalKernelAdaptiveMetropolis(base.SamplerKernel):
    """Kernel-adaptive Metropolis in cycles of K steps: exploration, then ever smaller moves.

    Step t = 0, 1, ... with r = (t mod K) / K, beta = `exploration_fraction` and R, z and nu as in
    `KernelAdaptiveMetropolis`:

        s_t = 1 where r <= beta, else (cos(pi r) + 1) / (cos(pi beta) + 1)
        q' ~ N(q, s_t^2 R(q)),  accepted with probability
             a = min(1, pi(q') N(q; q', s_t^2 R(q')) / (pi(q) N(q'; q, s_t^2 R(q))))

    What is learned, and when, is the `mode`:

        'finite'        z and nu in explorations of the first `num_adaptation_steps` steps; then the
                        chain is an exact Markov chain for the target
        'diminishing'   the same, but z is renewed at the start of cycles 1, 2, 4, 8, ... alone, and
                        from earlier cycles: adaptation that becomes ever rarer, and may go on for
                        as long as the chain
        'ensemble'      z is where the other half of the chains is now; with
                        `num_adaptation_steps=0`, so that nu is fixed, exact from the first step
        'as_published'  z, nu and Sigma are relearned by every chain in every cycle, and the walk
                        has the covariance of the place where the exploration ended. Draws are
                        approximate however long the run: nothing corrects for what was learned from
                        the chain itself. Between well separated modes the weights are wrong. It
                        stands here for comparison

    In the first three modes the walk uses the R of its current position. Unlike a fixed covariance
    this takes a correction in the acceptance ratio, with which the target is invariant.

    Cost: one evaluation of the log-density a step, in 'ensemble' two, and the algebra of
    `KernelAdaptiveMetropolis`.

    Reference: Li, Zeng & Guo. Cyclical kernel adaptive Metropolis. Algorithm 1; C. Chimisov, K.
    Latuszynski, G. Roberts. Air Markov chain Monte Carlo. 2018, for 'diminishing'.

    Example:
      >>> kernel = tfpa.CyclicalKernelAdaptiveMetropolis(
      ...     target_log_prob_fn, num_adaptation_steps=500, num_steps_per_cycle=100)
      >>> draws = tfp.mcmc.sample_chain(100, state, kernel=kernel, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        target_log_prob_fn: Callable,
        num_adaptation_steps: int = 1000,
        num_steps_per_cycle: int = 100,
        exploration_fraction: float = 0.4,
        kernel_function: KernelFunction | None = None,
        subsample_size: int = 50,
        mode: str = 'finite',
        *,
        noise_scale: Callable | float = 0.2,
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
          num_adaptation_steps: steps that learn; bitwise constant after. 'as_published' learns for
            ever. Default 1000.
          num_steps_per_cycle: K. Default 100; the paper's experiments have 1000 and 8000.
          exploration_fraction: beta in (0, 1). Default 0.4.
          kernel_function: k. Default `None`: `kernel_functions.gaussian()`.
          subsample_size: m; of no use in 'ensemble'. Default 50.
          mode: 'finite', 'diminishing', 'ensemble' (an even number of chains) or 'as_published'.
            Default 'finite'.
          noise_scale: gamma, positive; as published a function of the steps t = 0, 1, ... in the
            cycle, too. Default 0.2.
          adapt_noise: whether gamma moves with nu, in proportion; never as published. Default
            `True`.
          gain: of `KernelAdaptiveMetropolis`; not as published, nor in 'ensemble'. Default `None`:
            its default.
          scale_rule: how nu is tuned; as published by (1 + t)^-0.75 (a - target_accept_prob), from
            2 * 2.38 / sqrt(D) in each cycle. Default `None`: that of `KernelAdaptiveMetropolis`.
          target_accept_prob: in (0, 1). Default 0.234.
          step_size: factor on the square root of R; a scalar, or one value per chain. Default 1.
          pool_fn: of `KernelAdaptiveMetropolis`; as published chains are on their own. Default
            `None`.
          name: prefix of operation names. Default: 'cyclical_kernel_adaptive_metropolis'.

        Raises:
          TypeError: if an argument is of the wrong kind.
          ValueError: if an argument is out of its range, or has no use in this mode.
        """
        parameters = dict(locals())
        if mode not in _MODES:
            raise ValueError(f'`mode` must be one of {_MODES}; got {mode!r:.60}.')
        cycle = _make_cycle(num_steps_per_cycle, exploration_fraction)
        rule = adaptive_metropolis.choose_scale_rule(True, scale_rule, target_accept_prob)
        self._mode = mode
        if mode == 'as_published':
            _refuse(mode, gain=gain, scale_rule=scale_rule, pool_fn=pool_fn)
            axes: Any = _published(
                cycle, kernel_function, subsample_size, noise_scale, target_accept_prob
            )
            sampler = embedding_published.published_sampler(axes)
        else:
            if mode == 'ensemble':
                _refuse(mode, gain=gain)
            if callable(noise_scale):
                raise TypeError(
                    "`noise_scale` may be a function with mode='as_published' alone; with "
                    f'mode={mode!r} give a number.'
                )
            noise: Any = noise_scale
            shape = make_shape(kernel_function, subsample_size, noise, adapt_noise)
            axes = embedding_adaptive.Axes(
                shape=shape._replace(cycle=cycle),
                scale_rule=rule,
                gain=make_chance(gain),
                num_adaptation_steps=num_adaptation_steps,
                pool_fn=pool_fn,
                increasingly_rare=mode == 'diminishing',
            )
            make = embedding_adaptive.embedding_sampler
            sampler = (embedding_ensemble.ensemble_sampler if mode == 'ensemble' else make)(axes)
        self._axes = axes
        super().__init__(parameters, sampler)

    @property
    def is_calibrated(self) -> bool:
        """Whether the chain is exact once adaptation has ended: not as published."""
        return self._mode != 'as_published'

    def is_recorded(self, kernel_results: base.KernelResults) -> Any:
        """Whether the step that led to these results was one of the smaller moves, a bool.

        As published these alone are draws. In the other modes all are.

        Args:
          kernel_results: of this kernel, or of its frozen one.
        """
        cycle = _make_cycle(
            self._parameters['num_steps_per_cycle'], self._parameters['exploration_fraction']
        )
        return ~cycle.is_exploring(kernel_results.step - 1)

    def frozen(self, kernel_results: base.KernelResults) -> FrozenKernelMetropolis:
        """The learned proposal in the same cycles, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up.

        Returns:
          A `FrozenKernelMetropolis` with z, nu and the step size of `kernel_results`.

        Raises:
          TypeError: if `kernel_results` are not those of a kernel of this package.
          ValueError: as published, for there is nothing to freeze.
        """
        windowed_base.check_results(kernel_results)
        if self._mode == 'as_published':
            raise ValueError(
                "mode='as_published' never stops learning, so it cannot be frozen: take another "
                'mode, or draw with tfp.mcmc.sample_chain.'
            )
        return FrozenKernelMetropolis(
            self.target_log_prob_fn,
            self._axes.shape,
            kernel_results.adaptation.preconditioner,
            is_ensemble=self._mode == 'ensemble',
            step_size=kernel_results.step_size,
            name=self._parameters['name'],
        )


def _make_cycle(num_steps: int, exploration_fraction: float) -> Cycle:
    num_steps = arguments.count('num_steps_per_cycle', num_steps, least=2)
    check_number('exploration_fraction', exploration_fraction)
    if not 0 < exploration_fraction < 1:
        raise ValueError(
            f'`exploration_fraction` must lie strictly between 0 and 1; got {exploration_fraction}.'
        )
    return Cycle(num_steps, exploration_fraction)


def _refuse(mode: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f'`{name}` has no use with mode={mode!r}: leave it out.')


def _published(cycle, kernel_function, subsample_size, noise_scale, target_accept_prob):
    is_schedule = callable(noise_scale)
    shape = make_shape(
        kernel_function, subsample_size, 1.0 if is_schedule else noise_scale, adapt_noise=False
    )
    return embedding_published.Published(
        kernel_function=shape.kernel_function,
        subsample_size=shape.subsample_size,
        noise_scale=noise_scale if is_schedule else lambda time: noise_scale + 0 * time,
        cycle=cycle,
        target_accept_prob=target_accept_prob,
    )
