"""One sampler on one posterior, judged; run as a program by the experiment robustness."""

import json
import sys
from typing import Any

import numpy as np

from experiments import effective_size
from experiments.robustness.samplers import SAMPLERS, SamplerError
from experiments.targets.base import Moments
from experiments.targets.posteriors import POSTERIORS, references

MAX_RHAT, MAX_ERROR, MAX_Z = 1.02, 0.1, 5.0
"""Of a run that passes; the error of a mean is in standard deviations, and z in standard errors."""


def measure(
    target: str, width: float, sampler: str, settings: dict[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """The runs with every seed: {'runs': one dict each, of verdict and figures}.

    Args:
      target: label of the posterior.
      width: chains start at uniform(-width, width).
      sampler: one of `SAMPLERS`.
      settings: of the experiment.
    """
    made = POSTERIORS[target]()
    run = SAMPLERS[sampler](made, width, settings)
    expected = references.reference(target, made)
    which = {'target': target, 'd': made.event_size, 'sampler': sampler, 'width': width}
    return {
        'runs': [
            {**which, 'seed': seed, **_judge(run, seed, settings, expected)}
            for seed in settings['seeds']
        ]
    }


def did_not_end(
    target: str, width: float, sampler: str, settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """As many runs that fail, of a process that was ended."""
    return [
        {
            **{'target': target, 'd': POSTERIORS[target]().event_size, 'sampler': sampler},
            **{'width': width, 'seed': seed, 'verdict': 'no end', 'is_warned': None},
        }
        for seed in settings['seeds']
    ]


def errors_of_means(states: np.ndarray, expected: Moments) -> tuple[float, float]:
    """Largest errors of the means of q: in standard deviations, and in standard errors.

    The standard errors are those of the draws and of the reference together.

    Args:
      states: [N, C, d].
      expected: of q.
    """
    draws = np.asarray(states, np.float64)
    own = draws.std(axis=(0, 1)) / np.sqrt(effective_size.of_squares_too(draws)[0])
    error = np.abs(draws.mean(axis=(0, 1)) - expected.mean)
    z = error / np.hypot(own, expected.standard_error or 0.0)
    return float(np.max(error / np.asarray(expected.sd))), float(np.max(z))


def _judge(run, seed, settings, expected):
    try:
        found = run(seed)
    except ValueError as problem:
        # of a peer it says nothing on whether it warns of runs that end
        is_warned = None if isinstance(problem, SamplerError) else True
        return {'verdict': 'fail', 'is_warned': is_warned, 'error': str(problem)}
    error, z = (None, None) if expected is None else errors_of_means(found.states, expected)
    if not found.max_rhat < MAX_RHAT:
        verdict = 'fail'
    elif error is None or z is None:
        verdict = 'no reference'
    else:
        verdict = 'pass' if error < MAX_ERROR and z < MAX_Z else 'fail'
    return {
        'verdict': verdict,
        'is_warned': found.is_warned,
        'max_rhat': found.max_rhat,
        'largest_error': error,
        'largest_z': z,
        'min_ess': found.min_ess,
        'num_gradients': found.num_gradients,
        'ess_per_gradient': found.min_ess / found.num_gradients / np.shape(found.states)[1],
        'ess_per_second': found.min_ess / found.seconds,
    }


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
