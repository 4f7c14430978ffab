"""A target in the one form that samplers see: a log-density of unconstrained parts.

A user wants draws in the space and the structure of the model; `Model` holds the way there and
back. Shapes: a state has [*batch, *event] in every part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _unchanged(parts):
    """The parts as they are."""
    return parts


@dataclass(frozen=True, eq=False)
class Model:
    """A target as the sampler sees it, and the way back to the model's own space.

    Attributes:
      log_prob_fn: callable of unconstrained parts [*batch, *event] -> [*batch], with the
        log-determinant of the Jacobian.
      names: one for every part.
      structure: a nest with one leaf for every part: the form of the draws.
      sampler_structure: likewise, the form of the state that the kernel sees.
      constrain: list of unconstrained parts -> list of parts in the model's space; `None` if these
        are the same.
      unconstrain: its inverse.
      event_shapes: of the unconstrained parts; empty if the initial state decides.
      own_event_ranks: ranks of the events in the model's space, likewise.
      dtype: of all parts, likewise.
      prior: (num_chains, seed) -> list of parts in the model's space, or `None`.
      is_prior: whether the target is the prior itself.
      is_vectorized: whether it was written for one chain and is mapped over several.
      takes_logs: whether positive parts are sampled as logarithms.
      informations: `location_scale.Information` of parts in coordinates of their own.
      num_gradients: of a chain, that it took to find these coordinates.
    """

    log_prob_fn: Callable
    names: tuple[str, ...]
    structure: Any
    sampler_structure: Any
    constrain: Callable | None = None
    unconstrain: Callable = _unchanged
    event_shapes: tuple[tuple[int, ...], ...] = ()
    own_event_ranks: tuple[int, ...] = ()
    dtype: Any = None
    prior: Callable | None = None
    is_prior: bool = False
    is_vectorized: bool = False
    takes_logs: bool = False
    informations: tuple = ()
    num_gradients: int = 0

    @property
    def is_reparameterized(self) -> bool:
        """Whether some parts may be in other coordinates than those of the target's bijector."""
        return self.takes_logs or bool(self.informations)
