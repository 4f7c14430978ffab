"""TensorFlow Probability kernels that learn their own proposal from the target's gradients."""

from tfp_adaptive import (
    distribute,
    entropy,
    objectives,
    optimizers,
    preconditioners,
    proposals,
    sampling,
)
from tfp_adaptive._version import __version__
from tfp_adaptive.kernels import (
    EntropyAdaptiveHMC,
    GradientAdaptiveMALA,
    GradientAdaptiveRandomWalk,
)
from tfp_adaptive.sampling import sample

__all__ = [
    'EntropyAdaptiveHMC',
    'GradientAdaptiveMALA',
    'GradientAdaptiveRandomWalk',
    '__version__',
    'distribute',
    'entropy',
    'objectives',
    'optimizers',
    'preconditioners',
    'proposals',
    'sample',
    'sampling',
]
