"""Transition kernels: short compositions over the axes."""

from tfp_adaptive.kernels.base import KernelResults, SamplerKernel
from tfp_adaptive.kernels.entropy_hmc import EntropyAdaptiveHMC
from tfp_adaptive.kernels.frozen import FrozenKernel
from tfp_adaptive.kernels.gradient_mala import GradientAdaptiveMALA
from tfp_adaptive.kernels.gradient_random_walk import GradientAdaptiveRandomWalk

__all__ = [
    'EntropyAdaptiveHMC',
    'FrozenKernel',
    'GradientAdaptiveMALA',
    'GradientAdaptiveRandomWalk',
    'KernelResults',
    'SamplerKernel',
]
