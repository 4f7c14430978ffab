"""Whether the adaptation of a run came to where it should."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

_MAX_DRIFT = 0.05
_MAX_DRIFT_IF_MIXING = 0.25
_DRIFT_Z = 3.0
_DRIFT_BATCHES = 10
_LONGER_SHARE = 5
"""Of the rejections asked for: longer moves accept 0.87 where the learned ones accept 0.67."""


def target_acceptance(kernel: Any) -> float | None:
    """The acceptance probability that a kernel, or one that it wraps, was told to aim for.

    Args:
      kernel: a `tfp.mcmc.TransitionKernel`.

    Returns:
      `None` where nothing steers the acceptance rate, or something that only it knows.
    """
    parameters = getattr(kernel, 'parameters', {})
    own = parameters.get('target_accept_prob')
    steers = parameters.get('entropy_weight') is None and getattr(
        parameters.get('objective'), 'uses_entropy', True
    )
    if own is not None and np.ndim(own) == 0 and steers:
        return float(own)
    inner = parameters.get('inner_kernel')
    return None if inner is None else target_acceptance(inner)


def acceptance_concerns(run: Any, *, mixes_well: bool) -> Iterator[str]:
    """A sentence if the kernel accepts, or rejects, less than half as often as it was told to.

    Moves other than those it has learned with are accepted more often. Small steps are no harm in
    themselves: on easy targets the limit on the residual keeps them small. They are named where
    they explain chains that mix slowly.

    Args:
      run: a `SampleRun`.
      mixes_well: whether R-hat and effective sample sizes are good.
    """
    target, found = target_acceptance(run.kernel), run.diagnostics.accept_prob
    if target is None or found is None:
        return
    share = _LONGER_SHARE if run.has_longer_moves else 2
    if found < target / 2:
        yield (
            f'The acceptance probability is {found:.2f} where {target:.2f} was asked for: the '
            'proposal is too bold; warm up longer (`num_warmup_steps`).'
        )
    elif 1 - found < (1 - target) / share and not mixes_well and not run.is_delayed:
        weight = _last_quarter(run, 'entropy_weight')
        at_bound = len(weight) > 1 and weight[-1] > 0 and np.ptp(weight) == 0
        remedy = (
            f'the entropy weight has been at its bound of {weight[-1]:g}, so widen the `bounds` of '
            'optimizers.acceptance_controller, or reparametrise'
            if at_bound
            else 'warm up longer (`num_warmup_steps`)'
        )
        yield (
            f'The acceptance probability is {found:.2f} where {target:.2f} was asked for: the '
            f'proposal is too timid; {remedy}.'
        )


def drift_concerns(run: Any, *, mixes_well: bool) -> Iterator[str]:
    """A sentence if the proposal still changed its size when the adaptation ended.

    Its size is the entropy of the proposal, a log-volume. It drifts if, over the last quarter of
    the adaptation, a line through the means of ten batches rises or falls by more than 0.05 nats
    a coordinate, and by more than three standard errors. The proposal that is frozen is exact
    whatever its size: where chains mix, only 0.25 nats are worth a warning.

    Args:
      run: a `SampleRun`.
      mixes_well: whether R-hat and effective sample sizes are good.
    """
    entropy = _last_quarter(run, 'entropy')
    length = len(entropy) // _DRIFT_BATCHES
    if length < 2:
        return
    batches = entropy[-length * _DRIFT_BATCHES :].reshape([_DRIFT_BATCHES, length]).mean(axis=1)
    slope, error = _trend(batches / run.event_size)
    drift = slope * _DRIFT_BATCHES
    bound = _MAX_DRIFT_IF_MIXING if mixes_well else _MAX_DRIFT
    if abs(drift) > bound and abs(slope) > _DRIFT_Z * error:
        change = 'grew' if drift > 0 else 'shrank'
        yield (
            f'Adaptation had not settled: over the last quarter of it the proposal still {change} '
            f'by {abs(math.expm1(drift)):.0%} a coordinate; raise `num_warmup_steps`.'
        )


def _last_quarter(run, field) -> np.ndarray:
    """The last quarter of the adaptation of a field of `typing.Info`; empty if not known."""
    series = getattr(run.warmup_trace, field, ())
    if isinstance(series, tuple):
        return np.zeros([0])
    end = min(len(series), int(run.kernel.num_adaptation_steps))
    return np.asarray(series[end - end // 4 : end], np.float64)


def _trend(values) -> tuple[float, float]:
    """Slope of a least-squares line through equidistant values, and its standard error."""
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = (time @ values) / (time @ time)
    residuals = values - values.mean() - slope * time
    variance = residuals @ residuals / (len(values) - 2)
    return float(slope), float(np.sqrt(variance / (time @ time)))
