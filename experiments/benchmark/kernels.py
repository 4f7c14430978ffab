"""Our kernels under test: the rows called ours."""

from collections.abc import Callable
from typing import Any

import tfp_adaptive as tfpa
from experiments.errors import ExperimentError
from experiments.targets.stochastic_volatility import NUM_GLOBALS

KERNELS: dict[str, dict[str, Any]] = {
    'L=1 refreshed 0.6': {'num_leapfrog_steps': 1, 'momentum_refreshment': 0.6},
    'L=1 refreshed 0.3': {'num_leapfrog_steps': 1, 'momentum_refreshment': 0.3},
    'L=2': {'num_leapfrog_steps': 2},
    'L=5': {'num_leapfrog_steps': 5},
}
"""label -> arguments of `tfpa.EntropyAdaptiveHMC`; all else is its default."""

BORDERED = 'L=6 refreshed 0.5 bordered band'
"""The kernel of the stochastic volatility experiment."""

PRECONDITIONERS: dict[str, Callable] = {
    'cholesky': tfpa.preconditioners.cholesky,
    'diagonal': tfpa.preconditioners.diagonal,
    'banded': lambda: tfpa.preconditioners.banded(bandwidth=1),
}


def arguments_of(label: str, preconditioner: str = 'cholesky') -> dict[str, Any]:
    """Arguments of `tfpa.EntropyAdaptiveHMC` but for the target and the length of the adaptation.

    Args:
      label: a key of `KERNELS`, or `BORDERED`.
      preconditioner: cholesky, diagonal or banded; `BORDERED` brings its own.

    Raises:
      ExperimentError: for an unknown label.
    """
    if label == BORDERED:
        return {
            'num_leapfrog_steps': 6,
            'momentum_refreshment': 0.5,
            'preconditioner': tfpa.preconditioners.banded(bandwidth=1, border_size=NUM_GLOBALS),
            'entropy': tfpa.entropy.russian_roulette(
                penalty=tfpa.entropy.spectral_penalty(threshold=0.95)
            ),
        }
    if label not in KERNELS:
        raise ExperimentError(f'no kernel {label!r}; there are {", ".join(KERNELS)}, {BORDERED}.')
    return {**KERNELS[label], 'preconditioner': PRECONDITIONERS[preconditioner]()}


def make(
    log_prob: Callable, num_adaptation_steps: Any, label: str, preconditioner: str = 'cholesky'
) -> tfpa.EntropyAdaptiveHMC:
    """A kernel by its label."""
    arguments = arguments_of(label, preconditioner)
    return tfpa.EntropyAdaptiveHMC(log_prob, num_adaptation_steps=num_adaptation_steps, **arguments)
