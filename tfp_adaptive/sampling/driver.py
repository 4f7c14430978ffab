"""`sample`: from a log-density to draws and diagnostics in one call."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.internal import random
from tfp_adaptive.kernels import EntropyAdaptiveHMC
from tfp_adaptive.sampling import phases
from tfp_adaptive.sampling.diagnostics import Diagnostics, diagnose
from tfp_adaptive.sampling.results import find_field
from tfp_adaptive.sampling.run import SampleRun, Timings
from tfp_adaptive.sampling.statistics import draw_statistics, warmup_statistics_fn


def sample(
    target_log_prob_fn: Callable,
    num_results: int = 1000,
    num_warmup_steps: int = 1000,
    *,
    initial_state: Any,
    kernel: Any = None,
    num_steps_between_results: int = 0,
    trace_fn: Callable | None = None,
    seed: Any = None,
    progress: bool = True,
    jit_compile: bool = True,
) -> SampleRun:
    """Adapts, freezes, then draws.

    Warm-up and sampling are two compiled programs; the second holds no adaptation code. Both run
    in chunks of about a quarter of a second, between which the progress bar moves; the draws do
    not depend on the chunks.

    Args:
      target_log_prob_fn: log-density, a callable of the state parts [*batch, *event] -> [*batch].
        A `kernel` that is given ready-made samples its own target instead.
      num_results: draws per chain.
      num_warmup_steps: steps that adapt and are thrown away.
      initial_state: structure of parts [*batch, *event]; the leading dimensions are the chains.
        Ten chains from dispersed points are a good start; the proposal learns from all of them.
      kernel: a `tfp.mcmc.TransitionKernel`, or a callable that makes one from
        `target_log_prob_fn`. One with a method `frozen` is frozen after warm-up, any other goes on
        as it is. Default `None`: `EntropyAdaptiveHMC` with two leapfrog steps.
      num_steps_between_results: steps thrown away between two draws, to save memory. Default 0.
      trace_fn: (state, kernel_results) -> nest of tensors to keep with every draw. Default `None`:
        nothing but the draws.
      seed: PRNG seed; see `tfp.random.sanitize_seed`. A pair of ints makes runs reproducible.
      progress: whether to show progress: a bar in terminals and notebooks, else a line at most
        every ten seconds.
      jit_compile: whether to compile with XLA.

    Returns:
      A `SampleRun`.

    Raises:
      TypeError: if `target_log_prob_fn` is not callable or `kernel` makes no kernel.
      ValueError: if a count is out of range, if the density or its gradient is not finite at
        `initial_state`, or if `kernel` adapts for longer than the warm-up.

    Example:
      >>> run = tfpa.sample(
      ...     target_log_prob_fn, num_results=100, num_warmup_steps=100, initial_state=state,
      ...     seed=(0, 1), progress=False)
      >>> run.states.shape
      (100, 4, 3)
    """
    _check_count('num_results', num_results, least=1)
    _check_count('num_warmup_steps', num_warmup_steps, least=0)
    _check_count('num_steps_between_results', num_steps_between_results, least=0)
    kernel = _make_kernel(kernel, target_log_prob_fn, num_warmup_steps)
    warmup_seed, sampling_seed = random.split(tfp.random.sanitize_seed(seed), 2)
    state = tf.nest.map_structure(tf.convert_to_tensor, initial_state)
    kernel_results = kernel.bootstrap_results(state)
    batch_shape = _check_start(kernel_results)

    warmup = phases.run_phase(
        'warm-up',
        kernel,
        (state, kernel_results),
        warmup_seed,
        num_warmup_steps,
        warmup_statistics_fn(kernel, kernel_results, num_warmup_steps),
        progress=progress,
        jit_compile=jit_compile,
    )
    frozen_kernel, kernel_results = _freeze(kernel, warmup)
    trace_fn = trace_fn or (lambda state, results: ())
    draws = phases.run_phase(
        'sampling',
        frozen_kernel,
        (warmup.state, kernel_results),
        sampling_seed,
        num_results,
        lambda state, results: (state, draw_statistics(results), trace_fn(state, results)),
        steps_per_row=num_steps_between_results + 1,
        progress=progress,
        jit_compile=jit_compile,
    )
    states, statistics, trace = draws.traced
    return SampleRun(
        states=states,
        trace=trace,
        warmup_trace=warmup.traced.info or None,
        diagnostics=_diagnostics(
            states, batch_shape, warmup, draws, was_frozen=frozen_kernel is not kernel
        ),
        timings=Timings(
            warmup.compile_seconds + draws.compile_seconds, warmup.seconds, draws.seconds
        ),
        frozen_kernel=frozen_kernel,
        final_state=draws.state,
        kernel_results=draws.kernel_results,
        warmup_kernel_results=warmup.kernel_results,
        kernel=kernel,
        statistics=statistics,
        warmup_preconditioner=warmup.traced.preconditioner,
    )


def _freeze(kernel, warmup):
    """The kernel that samples and its results: frozen if it can be, else as warm-up left it."""
    if not hasattr(kernel, 'frozen'):
        return kernel, warmup.kernel_results
    frozen_kernel = kernel.frozen(warmup.kernel_results)
    return frozen_kernel, frozen_kernel.bootstrap_results(warmup.state)


def _diagnostics(states, batch_shape, warmup, draws, *, was_frozen) -> Diagnostics:
    ess, ess_of_squares, rhat = diagnose(states, len(batch_shape))
    has_ratio = find_field(draws.kernel_results, 'log_accept_ratio') is not None
    warmup_info = find_field(warmup.kernel_results, 'info')
    info = find_field(draws.kernel_results, 'info')

    def count(info, name):
        figure = getattr(info, name, ())
        return None if isinstance(figure, tuple) else int(figure)

    num_warmup_gradients = count(warmup_info, 'num_gradients')
    num_sampling_gradients = count(info, 'num_gradients')
    if num_sampling_gradients is not None and not was_frozen:
        # the counter has gone on from the warm-up
        num_sampling_gradients -= num_warmup_gradients
    return Diagnostics(
        ess=ess,
        ess_of_squares=ess_of_squares,
        rhat=rhat,
        accept_prob=draws.accept_prob if has_ratio else None,
        num_divergences=draws.num_divergences if has_ratio else None,
        num_warmup_gradients=num_warmup_gradients,
        num_warmup_hessian_vector_products=count(warmup_info, 'num_hessian_vector_products'),
        num_sampling_gradients=num_sampling_gradients,
    )


def _make_kernel(kernel, target_log_prob_fn, num_warmup_steps):
    if not callable(target_log_prob_fn):
        raise TypeError(
            '`target_log_prob_fn` must be a callable that maps state parts to log-densities; '
            f'got {type(target_log_prob_fn).__name__}.'
        )
    if kernel is None:
        kernel = EntropyAdaptiveHMC(target_log_prob_fn, 2, num_warmup_steps)
    elif not isinstance(kernel, tfp.mcmc.TransitionKernel):
        if not callable(kernel):
            raise TypeError(
                '`kernel` must be a tfp.mcmc.TransitionKernel or a callable that makes one from '
                f'`target_log_prob_fn`; got {type(kernel).__name__}.'
            )
        kernel = kernel(target_log_prob_fn)
        if not isinstance(kernel, tfp.mcmc.TransitionKernel):
            raise TypeError(
                'the callable `kernel` must return a tfp.mcmc.TransitionKernel; '
                f'got {type(kernel).__name__}.'
            )
    num_adaptation_steps = _num_adaptation_steps(kernel)
    if num_adaptation_steps > num_warmup_steps:
        raise ValueError(
            f'`kernel` adapts for {num_adaptation_steps} steps but `num_warmup_steps` is '
            f'{num_warmup_steps}; give it at most num_adaptation_steps={num_warmup_steps}.'
        )
    return kernel


def _num_adaptation_steps(kernel) -> int:
    """The longest adaptation of a kernel and of those it wraps; 0 where none is known."""
    parameters = getattr(kernel, 'parameters', {})
    own = parameters.get('num_adaptation_steps', 0)
    inner = parameters.get('inner_kernel')
    return max(
        int(own) if isinstance(own, (int, np.integer)) else 0,
        _num_adaptation_steps(inner) if inner is not None else 0,
    )


def _check_count(name, value, least):
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f'`{name}` must be an int of at least {least}; got {value!r}.')


def _check_start(kernel_results) -> tuple:
    """The chain dimensions; refuses a start where the density or its gradient is not finite."""
    log_prob = find_field(kernel_results, 'target_log_prob')
    gradients = find_field(kernel_results, 'grads_target_log_prob')
    if log_prob is None:
        raise TypeError('`kernel` must report `target_log_prob` in its kernel results.')
    is_finite = np.isfinite(log_prob.numpy())
    for gradient in tf.nest.flatten(gradients) if gradients is not None else []:
        per_chain = gradient.numpy().reshape([*is_finite.shape, -1])
        is_finite &= np.isfinite(per_chain).all(axis=-1)
    if not is_finite.all():
        bad = np.argwhere(~np.atleast_1d(is_finite))
        raise ValueError(
            f'the log-density or its gradient is not finite at `initial_state` for {len(bad)} of '
            f'{is_finite.size} chains, first for chain {tuple(bad[0].tolist())}: start inside the '
            'support, where the density is finite and smooth.'
        )
    return is_finite.shape
