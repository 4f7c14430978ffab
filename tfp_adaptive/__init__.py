"""TensorFlow Probability kernels that learn their own proposal from the target's gradients."""

import importlib
from typing import TYPE_CHECKING, Any

from tfp_adaptive import (
    distribute,
    entropy,
    estimators,
    kernel_functions,
    objectives,
    optimizers,
    preconditioners,
    proposals,
    sampling,
    tuning,
)
from tfp_adaptive._version import __version__
from tfp_adaptive.kernels import (
    AdaptiveMetropolis,
    CyclicalKernelAdaptiveMetropolis,
    EntropyAdaptiveHMC,
    GradientAdaptiveMALA,
    GradientAdaptiveRandomWalk,
    KernelAdaptiveMetropolis,
    PseudoMarginal,
    WindowedHMC,
    WindowedNUTS,
)
from tfp_adaptive.sampling import Until, sample

if TYPE_CHECKING:
    from tfp_adaptive import plots

__all__ = [
    'AdaptiveMetropolis',
    'CyclicalKernelAdaptiveMetropolis',
    'EntropyAdaptiveHMC',
    'GradientAdaptiveMALA',
    'GradientAdaptiveRandomWalk',
    'KernelAdaptiveMetropolis',
    'PseudoMarginal',
    'Until',
    'WindowedHMC',
    'WindowedNUTS',
    '__version__',
    'distribute',
    'entropy',
    'estimators',
    'kernel_functions',
    'objectives',
    'optimizers',
    'plots',
    'preconditioners',
    'proposals',
    'sample',
    'sampling',
    'tuning',
]


def __getattr__(name: str) -> Any:
    """Imports `plots` when it is first used: most programs draw nothing."""
    if name == 'plots':
        return importlib.import_module('tfp_adaptive.plots')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
