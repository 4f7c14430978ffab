"""Kernel functions: how a kernel-adaptive sampler compares two points."""

from tfp_adaptive.kernel_functions.dot_products import linear, polynomial
from tfp_adaptive.kernel_functions.radial import gaussian, matern
from tfp_adaptive.kernel_functions.records import KernelFunction

__all__ = ['KernelFunction', 'gaussian', 'linear', 'matern', 'polynomial']
