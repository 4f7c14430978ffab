"""The samplers that experiments compare, each run the same way."""

from collections.abc import Callable
from typing import Any

import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import metrics
from experiments.targets import Target

_NUTS_ADAPTATION_FRACTION = 0.8


def run_default(
    target: Target, settings: dict[str, Any], progress: bool
) -> tuple[tfpa.sampling.SampleRun, metrics.Performance]:
    """`tfpa.sample` with nothing said of the kernel.

    Args:
      target: what to sample.
      settings: num_chains, num_warmup_steps, num_results and seed.
      progress: whether to show a bar.

    Returns:
      The run and what it is worth.
    """
    run = _sample(target, None, settings, progress)
    performance = metrics.measure(
        'default', run, settings['num_warmup_steps'], reference=_of_coordinates(target)
    )
    return run, performance


def run_adaptive(
    label: str, target: Target, settings: dict[str, Any], progress: bool, **kernel_arguments: Any
) -> tuple[tfpa.sampling.SampleRun, metrics.Performance]:
    """Entropy-adaptive HMC that learns during the whole warm-up.

    Args:
      label: of the sampler.
      target: what to sample.
      settings: num_chains, num_leapfrog_steps, num_warmup_steps, num_results and seed.
      progress: whether to show a bar.
      **kernel_arguments: further arguments of `tfpa.EntropyAdaptiveHMC`.

    Returns:
      The run and what it is worth.
    """

    def make_kernel(log_prob):
        return tfpa.EntropyAdaptiveHMC(
            log_prob,
            num_leapfrog_steps=settings['num_leapfrog_steps'],
            num_adaptation_steps=settings['num_warmup_steps'],
            **kernel_arguments,
        )

    run = _sample(target, make_kernel, settings, progress)
    performance = metrics.measure(
        label, run, settings['num_warmup_steps'], reference=_of_coordinates(target)
    )
    return run, performance


def run_nuts(
    target: Target,
    settings: dict[str, Any],
    progress: bool,
    step_size: float = 0.1,
    label: str = 'NUTS',
) -> tuple[tfpa.sampling.SampleRun, metrics.Performance]:
    """TFP's NUTS, unit metric, step size by dual averaging; gradients are its own leapfrogs.

    Args:
      target: what to sample.
      settings: num_chains, num_warmup_steps, num_results and seed.
      progress: whether to show a bar.
      step_size: the first one.
      label: of the sampler.
    """

    def make_kernel(log_prob):
        return tfp.mcmc.DualAveragingStepSizeAdaptation(
            tfp.mcmc.NoUTurnSampler(log_prob, step_size=step_size),
            num_adaptation_steps=int(_NUTS_ADAPTATION_FRACTION * settings['num_warmup_steps']),
            target_accept_prob=0.8,
        )

    def leapfrogs(state, kernel_results):
        del state
        return kernel_results.inner_results.leapfrogs_taken

    run = _sample(target, make_kernel, settings, progress, leapfrogs)
    performance = metrics.measure(
        label, run, settings['num_warmup_steps'], run.trace, _of_coordinates(target)
    )
    return run, performance


def _sample(
    target: Target,
    make_kernel: Callable | None,
    settings: dict[str, Any],
    progress: bool,
    trace_fn: Callable | None = None,
) -> tfpa.sampling.SampleRun:
    seed = settings['seed']
    return tfpa.sample(
        target.log_prob,
        settings['num_results'],
        settings['num_warmup_steps'],
        initial_state=target.initial_state(settings['num_chains'], (seed, 0)),
        kernel=make_kernel,
        num_steps_between_results=settings.get('num_steps_between_results', 0),
        trace_fn=trace_fn,
        seed=(seed, 1),
        progress=progress,
    )


def _of_coordinates(target: Target):
    """Known moments, if they are those of the coordinates of the state."""
    reference = target.reference
    is_full = reference is not None and len(reference.mean) == target.event_size
    return reference if is_full else None
