"""The gradient-adaptive samplers as their authors ran them (Titsias & Dellaportas 2019).

One chain from N(0, I), a dense factor learned in its raw entries by RMSProp from 0.1 / sqrt(d) on
the diagonal, beta moved by the accept/reject outcomes without a ceiling, 20,000 steps of burn-in
and 20,000 draws. Reference figures are those of the authors' own code; see
papers/gradient_adaptive/README.md.
"""

import csv
import dataclasses
import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

import tfp_adaptive as tfpa
from experiments import effective_size
from experiments.programs import Run

QUANTITIES = ('acceptance', 'ess_min', 'ess_median', 'ess_max', 'entropy_weight')
GRADIENT_ADAPTIVE = ('fast', 'exact', 'random_walk')
METHODS = (*GRADIENT_ADAPTIVE, 'adaptive_metropolis')

_REFERENCE = pathlib.Path(__file__).parent / 'papers' / 'gradient_adaptive' / 'reference.csv'
_MIN_ENTROPY_WEIGHT = 1e-4
_CONTROLLER_RATE = 0.02


@dataclasses.dataclass(frozen=True)
class Sample:
    """Some quantities over independent runs.

    Attributes:
      mean: of each of `QUANTITIES`, [5].
      sd: over runs, [5].
      num_runs: independent runs.
    """

    mean: np.ndarray
    sd: np.ndarray
    num_runs: int


def make_kernel(
    method: str, target_log_prob_fn: Callable, event_size: int, num_adaptation_steps: int
) -> Any:
    """The kernel of one of `METHODS` in the published setting.

    Adaptive Metropolis, their rival, is that of this package, at the acceptance of their walks.
    """
    if method == 'adaptive_metropolis':
        return tfpa.AdaptiveMetropolis(
            target_log_prob_fn, num_adaptation_steps, target_accept_prob=0.25
        )
    is_walk = method == 'random_walk'
    arguments: dict[str, Any] = {
        'preconditioner': tfpa.preconditioners.cholesky(
            initial_scale=0.1 / math.sqrt(event_size), coordinates='euclidean'
        ),
        'optimizer': tfpa.optimizers.rmsprop(5e-5 if is_walk else 1.5e-4),
        'entropy_weight': tfpa.optimizers.acceptance_controller(
            target_accept_prob=0.25 if is_walk else 0.55,
            rate=_CONTROLLER_RATE,
            bounds=(_MIN_ENTROPY_WEIGHT, math.inf),
            signal='indicator',
        ),
    }
    if is_walk:
        return tfpa.GradientAdaptiveRandomWalk(
            target_log_prob_fn, num_adaptation_steps, **arguments
        )
    return tfpa.GradientAdaptiveMALA(target_log_prob_fn, num_adaptation_steps, method, **arguments)


def measure(run: Run) -> np.ndarray:
    """The `QUANTITIES` of a run of one chain."""
    ess = effective_size.initial_monotone(run.states[:, 0])
    return np.array(
        [run.accept_rate, ess.min(), np.median(ess), ess.max(), run.entropy_weight], np.float64
    )


def collect(measurements: list[np.ndarray]) -> Sample:
    """Mean and standard deviation over runs, NaN with a single one."""
    stacked = np.stack(measurements)
    sd = stacked.std(axis=0, ddof=1) if len(stacked) > 1 else np.full(len(QUANTITIES), np.nan)
    return Sample(stacked.mean(axis=0), sd, len(stacked))


def reference(target: str, method: str) -> Sample | None:
    """What the authors' code gives, or `None` where it was not run."""
    with _REFERENCE.open() as file:
        for row in csv.DictReader(file):
            if (row['target'], row['method']) == (target, method):
                return Sample(
                    mean=np.array([float(row[name]) for name in QUANTITIES]),
                    sd=np.array([float(row[f'{name}_sd']) for name in QUANTITIES]),
                    num_runs=int(row['runs']),
                )
    return None


def t_statistics(found: Sample, expected: Sample) -> tuple[np.ndarray, int]:
    """Two-sample t of each quantity, with the pooled variance, and its degrees of freedom."""
    degrees = found.num_runs + expected.num_runs - 2
    found_squares = (found.num_runs - 1) * found.sd**2 if found.num_runs > 1 else 0.0
    variance = (found_squares + (expected.num_runs - 1) * expected.sd**2) / degrees
    error = np.sqrt(variance * (1 / found.num_runs + 1 / expected.num_runs))
    return (found.mean - expected.mean) / error, degrees
