"""Targets by name: distributions with a start, a provenance, and known moments where there are."""

from collections.abc import Callable
from typing import Any

from experiments.targets import (
    banana,
    blocks,
    cox_process,
    gaussian,
    hard,
    logistic_regression,
    stochastic_volatility,
)
from experiments.targets.base import Moments, Target

__all__ = ['Moments', 'Target', 'make']

_TARGETS: dict[str, Callable[..., Target]] = {
    'banana': banana.banana,
    'cox_process': cox_process.cox_process,
    'funnel': hard.funnel,
    'gaussian': gaussian.gaussian,
    'heavy_tailed': hard.heavy_tailed,
    'logistic_regression': logistic_regression.logistic_regression,
    'mixture_blocks': blocks.mixture_blocks,
    'stochastic_volatility': stochastic_volatility.stochastic_volatility,
    'two_modes': hard.two_modes,
    'walled': hard.walled,
}


def make(name: str, **arguments: Any) -> Target:
    """The target `name`, made with `arguments`."""
    return _TARGETS[name](**arguments)
