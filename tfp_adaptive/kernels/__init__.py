"""Transition kernels: short compositions over the axes."""

from tfp_adaptive.kernels.base import KernelResults, SamplerKernel
from tfp_adaptive.kernels.entropy_hmc import EntropyAdaptiveHMC
from tfp_adaptive.kernels.frozen import FrozenKernel

__all__ = ['EntropyAdaptiveHMC', 'FrozenKernel', 'KernelResults', 'SamplerKernel']
