"""Targets by name: distributions with a start, a provenance, and known moments where there are."""

from collections.abc import Callable
from typing import Any

from experiments.targets import banana, gaussian, logistic_regression, stochastic_volatility
from experiments.targets.base import Moments, Target

__all__ = ['Moments', 'Target', 'make']

_TARGETS: dict[str, Callable[..., Target]] = {
    'banana': banana.banana,
    'gaussian': gaussian.gaussian,
    'logistic_regression': logistic_regression.logistic_regression,
    'stochastic_volatility': stochastic_volatility.stochastic_volatility,
}


def make(name: str, **arguments: Any) -> Target:
    """The target `name`, made with `arguments`."""
    return _TARGETS[name](**arguments)
