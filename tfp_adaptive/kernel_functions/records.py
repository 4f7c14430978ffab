"""The record of the axis: a symmetric function of two points, and its slope."""

from collections.abc import Callable
from typing import NamedTuple

from tfp_adaptive.typing import Tensor


class KernelFunction(NamedTuple):
    """A positive definite function k of two points; leading dimensions broadcast."""

    value: Callable[[Tensor, Tensor], Tensor]
    """(x [..., D], z [..., D]) -> k(x, z), [...]."""
    gradient: Callable[[Tensor, Tensor], Tensor]
    """(x [..., D], z [..., D]) -> gradient of k(x, z) in x, [..., D]; finite where x = z."""
