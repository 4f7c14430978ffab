"""Another sampler's word on a long run: NUTS of TFP, in coordinates that the run has whitened."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from experiments import effective_size
from experiments.benchmark import peers_tfp
from experiments.benchmark.sampling import Problem
from experiments.robustness.measure import errors_of_means
from experiments.targets.base import Moments, Target
from experiments.targets.posteriors import uniform_start

_WIDTH = 2.0
_MAX_RHAT, _MAX_Z = 1.01, 5.0


@dataclasses.dataclass(frozen=True)
class Confirmation:
    """What NUTS found.

    Attributes:
      max_rhat: of its chains.
      min_ess: over coordinates and their squares.
      z: largest difference of a mean, in standard errors of both runs.
    """

    max_rhat: float
    min_ess: float
    z: float

    @property
    def confirms(self) -> bool:
        """Whether it has converged, and to the same means."""
        return self.max_rhat <= _MAX_RHAT and self.z < _MAX_Z

    @property
    def contradicts(self) -> bool:
        """Whether it has converged, and to other means."""
        return self.max_rhat <= _MAX_RHAT and not self.z < _MAX_Z


def by_nuts(
    target: Target,
    draws: np.ndarray,
    bring: Callable,
    expected: Moments,
    settings: dict[str, Any],
) -> Confirmation:
    """NUTS with a step size of its own, from starts spread about the mean of a run.

    In the coordinates that the run has whitened NUTS needs no metric, and its chains start uniform
    within two standard deviations of the mean. It shares nothing else with the run.

    Args:
      target: the posterior, in the coordinates of the run.
      draws: of the run, [N, C, d].
      bring: the draws in those coordinates -> in the coordinates of `expected`.
      expected: what the run says of the means.
      settings: of the experiment.
    """
    flat = np.asarray(draws, np.float64).reshape([-1, target.event_size])
    mean = flat.mean(axis=0)
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(flat.T)))

    def log_prob(white):
        return target.log_prob(mean + tf.linalg.matvec(factor, white))

    def initial_state(num_chains, seed):
        start = uniform_start(target.event_size, _WIDTH)(num_chains, seed)
        return tf.cast(start, tf.float64)

    problem = Problem(
        target=dataclasses.replace(target, log_prob=log_prob, initial_state=initial_state),
        arguments=None,
        preconditioner='',
        num_chains=settings['num_chains'],
        num_warmup_steps=settings['nuts_warmup_steps'],
        num_results=settings['nuts_results'],
        num_short_results=settings['nuts_results'],
        max_seconds=np.inf,
    )
    white = np.asarray(peers_tfp.nuts(problem)(settings['seed']).states, np.float64)
    states = bring(mean + white @ factor.T)
    min_ess, max_rhat = effective_size.smallest(states)
    return Confirmation(max_rhat, min_ess, errors_of_means(states, expected)[1])
