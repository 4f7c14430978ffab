"""Jitter of the step size: a proposal whose factor is a little different at every step."""

from typing import Any, NamedTuple

from tfp_adaptive.internal import random
from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.typing import LinearMap, Proposal, Tensor


class JitterNoise(NamedTuple):
    """Noise of a jittered move."""

    move: Any
    """Noise of the move itself."""
    uniform: Tensor
    """Scalar in (0, 1), shared by the chains."""


def jittered(proposal: Proposal, width: float = 0.1) -> Proposal:
    """Multiplies the step size by 1 + width (2 u - 1), u uniform on (0, 1), drawn at each step.

    Breaks the resonance of a fixed number of steps with the period of the target. The factor does
    not depend on where the chains are, so each step leaves the target invariant.

    Args:
      proposal: such as `proposals.leapfrog(5)`; one whose `pullback` is not used, for a kernel that
        tunes by acceptance.
      width: in [0, 1). Default 0.1. At 0 the proposal is returned as it is.

    Returns:
      A `Proposal`.

    Raises:
      TypeError: if `proposal` is no `Proposal`.
      ValueError: if `width` is not in [0, 1).

    Reference: R. Neal. MCMC using Hamiltonian dynamics. Handbook of MCMC 2011, section 5.4.2.2.

    Example:
      >>> proposal = tfpa.tuning.jittered(tfpa.proposals.leapfrog(5), width=0.2)
    """
    if not isinstance(proposal, Proposal):
        raise TypeError(
            f'`proposal` must be made by tfp_adaptive.proposals, such as leapfrog(5); '
            f'got {proposal!r}.'
        )
    check_number('width', width)
    if not 0 <= width < 1:
        raise ValueError(f'`width` must lie in [0, 1); got {width}.')
    if width == 0:
        return proposal

    def draw(seed, num_chains, event_size, dtype):
        move_seed, uniform_seed = random.split(seed, 2)
        return JitterNoise(
            proposal.draw(move_seed, num_chains, event_size, dtype),
            random.uniform([], uniform_seed, dtype),
        )

    def propose(target, factor, state, noise):
        share = 1 + width * (2 * noise.uniform - 1)
        varied = LinearMap(
            forward=lambda x: share * factor.forward(x),
            transpose=lambda x: share * factor.transpose(x),
        )
        move = proposal.propose(target, varied, state, noise.move)
        return move._replace(curvature=move.curvature * share**2, scale=move.scale * share)

    return proposal._replace(draw=draw, propose=propose, learning=None)
