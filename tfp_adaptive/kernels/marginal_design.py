"""What a pseudo-marginal step is made of: its axes, its target, its noise, what it learns."""

from collections.abc import Callable
from typing import NamedTuple

from tfp_adaptive.proposals import gaussian
from tfp_adaptive.typing import Event, LogDensity, Tensor


class Marginal(NamedTuple):
    """A posterior that is estimated, on packed positions."""

    at: Callable[[Tensor], LogDensity]
    """Noise [C, K] -> the density that it makes of the estimate."""
    event: Event


class Scaled(NamedTuple):
    """What is learned of the proposal."""

    factor: Tensor
    """C [D, D]."""
    step_size: Tensor
    """eps."""


class Draw(NamedTuple):
    """Standard normals of a move."""

    proposal: Tensor
    """[C, D]."""
    noise: Tensor
    """[C, K] xi."""
    drift_noise: Tensor
    """[C, K], or [C, 0]."""


class Design(NamedTuple):
    """One choice for every axis: an algorithm."""

    noise_size: int
    proposal: gaussian.GaussianProposal
    correlation: float
    """rho."""
    is_published: bool = False

    @property
    def drift_noise_size(self) -> int:
        """K where a second block of noise drives the proposal, else 0."""
        return self.noise_size if self.proposal.matrix is not None else 0

    def num_estimates(self, event_size: int) -> int:
        """Estimates of the likelihood a step, each with its score if the proposal asks for it.

        Args:
          event_size: D; a Hessian is as many products, of two scores each.
        """
        if self.proposal.local_matrix is not None:
            return 1 + 2 * event_size
        return 2 if self.drift_noise_size else 1
