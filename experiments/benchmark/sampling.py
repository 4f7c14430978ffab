"""What every sampler of the comparison hands back, ours and others."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.targets import Target


@dataclasses.dataclass(frozen=True)
class Problem:
    """What a sampler is given.

    Attributes:
      target: with its TensorFlow density.
      arguments: that made it, for other libraries; `None` where they get the TensorFlow density.
      preconditioner: of ours.
      num_chains: C.
      num_warmup_steps: steps thrown away.
      num_results: draws per chain of samplers that make long trajectories.
      num_short_results: of samplers that spend one or two gradients a step.
      max_seconds: that one call of a sampler that can be stopped may take.
    """

    target: Target
    arguments: dict[str, Any] | None
    preconditioner: str
    num_chains: int
    num_warmup_steps: int
    num_results: int
    num_short_results: int
    max_seconds: float

    def initial_state(self, num_chains: int, seed: int) -> Any:
        """The starts of chains, [C, d], the same for every sampler."""
        return self.target.initial_state(num_chains, (seed, 0))


@dataclasses.dataclass(frozen=True)
class Draws:
    """One run. Gradients are means over chains.

    Attributes:
      states: [N, C, d].
      num_gradients: while sampling.
      num_warmup_gradients: a Hessian-vector product counts as two.
      compile_seconds: 0 where it was compiled before.
      warmup_seconds: without compilation.
      sampling_seconds: likewise.
    """

    states: np.ndarray
    num_gradients: float
    num_warmup_gradients: float
    compile_seconds: float
    warmup_seconds: float
    sampling_seconds: float

    @property
    def costs(self) -> dict[str, float]:
        """Everything but the states, by name."""
        return {name: value for name, value in vars(self).items() if name != 'states'}


Sampler = Callable[[int], Draws]
"""seed -> draws; compiled at its first call."""
