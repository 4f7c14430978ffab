"""Preconditioner families: what the proposal may learn about the shape of the target."""

from tfp_adaptive.preconditioners.banded import banded
from tfp_adaptive.preconditioners.cholesky import cholesky
from tfp_adaptive.preconditioners.diagonal import diagonal

__all__ = ['banded', 'cholesky', 'diagonal']
