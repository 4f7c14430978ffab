"""Transition kernels: short compositions over the axes."""

from tfp_adaptive.kernels.adaptive_metropolis import AdaptiveMetropolis
from tfp_adaptive.kernels.base import KernelResults, SamplerKernel
from tfp_adaptive.kernels.cyclical_metropolis import CyclicalKernelAdaptiveMetropolis
from tfp_adaptive.kernels.entropy_hmc import EntropyAdaptiveHMC
from tfp_adaptive.kernels.frozen import FrozenKernel
from tfp_adaptive.kernels.frozen_marginal import FrozenPseudoMarginal
from tfp_adaptive.kernels.gradient_mala import GradientAdaptiveMALA
from tfp_adaptive.kernels.gradient_random_walk import GradientAdaptiveRandomWalk
from tfp_adaptive.kernels.kernel_adaptive_metropolis import (
    FrozenKernelMetropolis,
    KernelAdaptiveMetropolis,
)
from tfp_adaptive.kernels.pseudo_marginal import PseudoMarginal
from tfp_adaptive.kernels.windowed_hmc import WindowedHMC
from tfp_adaptive.kernels.windowed_nuts import FrozenNUTS, WindowedNUTS

__all__ = [
    'AdaptiveMetropolis',
    'CyclicalKernelAdaptiveMetropolis',
    'EntropyAdaptiveHMC',
    'FrozenKernel',
    'FrozenKernelMetropolis',
    'FrozenNUTS',
    'FrozenPseudoMarginal',
    'GradientAdaptiveMALA',
    'GradientAdaptiveRandomWalk',
    'KernelAdaptiveMetropolis',
    'KernelResults',
    'PseudoMarginal',
    'SamplerKernel',
    'WindowedHMC',
    'WindowedNUTS',
]
