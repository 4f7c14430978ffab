"""What an experiment needs to know of a distribution."""

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Moments:
    """Known means and standard deviations, exact or from a long run elsewhere.

    Attributes:
      names: of the functions of q.
      mean: of each.
      sd: of each.
      source: where they come from.
      standard_error: of each mean; `None` where exact or unknown.
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    source: str
    standard_error: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Target:
    """A distribution on R^d and how chains start on it.

    Attributes:
      name: as in tables.
      event_size: d.
      log_prob: maps [..., d] to [...].
      initial_state: (num_chains, seed) -> [num_chains, d], float32.
      provenance: where the data and the model come from, one line.
      reference: known moments of the functions of q they name, or `None`.
    """

    name: str
    event_size: int
    log_prob: Callable[[tf.Tensor], tf.Tensor]
    initial_state: Callable[[int, object], tf.Tensor]
    provenance: str
    reference: Moments | None = None


def normal_start(event_size: int, scale: float = 0.1) -> Callable[[int, object], tf.Tensor]:
    """The start N(0, scale^2 I) of most experiments."""

    def initial_state(num_chains, seed):
        return scale * tf.random.stateless_normal([num_chains, event_size], seed)

    return initial_state
