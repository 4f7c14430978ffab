"""Targets by name: distributions with a start, a provenance, and known moments where there are."""

from typing import Any

from experiments.targets.banana import banana
from experiments.targets.base import Moments, Target
from experiments.targets.gaussian import gaussian
from experiments.targets.logistic_regression import logistic_regression
from experiments.targets.stochastic_volatility import stochastic_volatility

__all__ = ['Moments', 'Target', 'make']

_TARGETS = {
    'banana': banana,
    'gaussian': gaussian,
    'logistic_regression': logistic_regression,
    'stochastic_volatility': stochastic_volatility,
}


def make(name: str, **arguments: Any) -> Target:
    """The target `name`, made with `arguments`."""
    return _TARGETS[name](**arguments)
