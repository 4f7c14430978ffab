"""Preconditioner families: what the proposal may learn about the shape of the target."""

from tfp_adaptive.preconditioners.banded import banded
from tfp_adaptive.preconditioners.bijector import bijector
from tfp_adaptive.preconditioners.block_diagonal import block_diagonal
from tfp_adaptive.preconditioners.by_part import by_part
from tfp_adaptive.preconditioners.cholesky import cholesky
from tfp_adaptive.preconditioners.diagonal import diagonal
from tfp_adaptive.preconditioners.low_rank import low_rank
from tfp_adaptive.preconditioners.real_nvp import real_nvp

__all__ = [
    'banded',
    'bijector',
    'block_diagonal',
    'by_part',
    'cholesky',
    'diagonal',
    'low_rank',
    'real_nvp',
]
