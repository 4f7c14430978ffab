"""Troubles that ESS and R-hat of coordinates do not show: funnels, tails, log-densities apart.

The tail is that of the largest distance of a coordinate from its mean, in standard deviations: its
exceedances over a high level follow a generalised Pareto distribution whose shape is that of the
heaviest coordinate. Only moments of an order below one over the shape exist.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.kernels.marginal_base import MarginalKernel
from tfp_adaptive.sampling import coordinates
from tfp_adaptive.sampling.figures import diagnose

_TAIL, _FAR_TAIL = 0.1, 0.02
"""Shares of independent draws. A power law has one shape in both; the shape of the square of a
normal, say, seems to be a third in the first and is next to zero in the second."""
_MIN_TAIL = 25
_LIGHT_SHAPE = 0.15
"""That of a Student-t distribution with six or seven degrees of freedom."""
_Z = 2.0
_MAX_DRAWS = 20_000
_BLOCK_BYTES = 2**24
_MAX_RHAT, _MIN_ESS = 1.05, 100.0
_MIN_EBFMI = 0.3
"""As Stan has it: a variance of the log-density of 2.8 for every dimension. A Gaussian has 0.5, and
no log-concave density more than 1 (Fradelizi, Madiman & Wang 2016)."""


def energy_concerns(run: Any) -> Iterator[str]:
    """A log-density that varies more than moves with fresh velocities can follow: funnels.

    The energy U + K of Hamiltonian Monte Carlo has the variance var U + d / 2, and a fresh
    velocity changes it by d in the mean of squares. Their ratio, the E-BFMI (Betancourt 2016), is
    one for a Gaussian, for which var U = d / 2. Here it follows from the draws, whatever moves made
    them; var U is the median of those of the chains, so that modes of unlike heights do not matter.

    Args:
      run: a `SampleRun` whose chains had arrived when it began.
    """
    if isinstance(run.frozen_kernel, MarginalKernel):
        # the noise of the estimates counts for it, too
        return
    log_prob = np.asarray(run.statistics.log_prob, np.float64)
    if not np.isfinite(log_prob).all():
        return
    variance, size = float(np.median(log_prob.var(axis=0))), run.event_size
    ebfmi = size / (variance + size / 2)
    if ebfmi < _MIN_EBFMI:
        yield (
            f'The variance of the log-density is {variance:.0f}, where that of a Gaussian of '
            f'{size} dimensions is {size / 2:g} (an E-BFMI of {ebfmi:.2f}): the posterior narrows '
            'as a funnel does, or has heavy tails, and chains may hardly enter its narrowest or '
            'farthest parts, which R-hat does not show; write the model in coordinates that do '
            'not narrow (not centred, for effects of groups), or that have lighter tails.'
        )


def tail_concerns(run: Any) -> Iterator[str]:
    """Tails so heavy that variances, and errors of means by them, are not to be trusted.

    Args:
      run: a `SampleRun` whose chains mix.
    """
    found = heaviest_tail(tf.nest.flatten(run.unconstrained_states), len(run.batch_shape))
    if found is None:
        return
    shape, error, far_shape = found
    if shape > _LIGHT_SHAPE + _Z * error and far_shape > _LIGHT_SHAPE:
        yield (
            f'The tails fall off like a power law of shape {shape:.2f} (standard error '
            f'{error:.2f}): moments above order {1 / shape:.1f} do not exist, and chains go far '
            'out too rarely; trust quantiles rather than standard deviations, or sample '
            'transformed coordinates with lighter tails, such as through tfb.SinhArcsinh.'
        )


def log_density_concerns(run: Any) -> Iterator[str]:
    """Chains that agree in every coordinate and not in their log-densities.

    Args:
      run: a `SampleRun` whose coordinates have mixed.
    """
    log_prob = np.asarray(run.statistics.log_prob)
    if not np.isfinite(log_prob).all():
        return
    ess, _, rhat = (float(figure) for figure in diagnose(log_prob, len(run.batch_shape)))
    if rhat > _MAX_RHAT or ess < _MIN_ESS:
        yield (
            f'The log-density has not mixed (R-hat {rhat:.2f}, effective sample size {ess:.0f}) '
            'where every coordinate has: chains differ in how deep they went into a mode or a '
            'neck; draw more (`num_results`), or reparametrise where the posterior narrows.'
        )


def heaviest_tail(parts: list, batch_rank: int) -> tuple[float, float, float] | None:
    """Shape of the heaviest tail of any coordinate, its standard error, and the shape farther out.

    Args:
      parts: draws, each [num_results, *batch, *event].
      batch_rank: number of chain dimensions.

    Returns:
      `None` where there are too few independent draws to tell.
    """
    with np.errstate(invalid='ignore'):
        distance = _largest_distance(parts, batch_rank)
    if not np.isfinite(distance).all() or len(distance) < 4:
        return None
    ess = float(diagnose(distance, 1)[0])
    if not math.isfinite(ess):
        return None
    independent = np.ravel(distance[:: max(1, round(distance.size / ess))])
    if _FAR_TAIL * independent.size < _MIN_TAIL:
        return None
    ordered = np.sort(independent)
    shape, num_tail = _shape(ordered, _TAIL)
    return shape, (1 + max(shape, 0)) / math.sqrt(num_tail), _shape(ordered, _FAR_TAIL)[0]


def _shape(ordered, share):
    """(shape of the upper tail, number of exceedances)."""
    count = int(share * len(ordered))
    exceedances = ordered[-count:] - ordered[-count - 1]
    exceedances = exceedances[exceedances > 0]
    return (pareto_shape(exceedances) if len(exceedances) > 1 else 0.0), count


def _largest_distance(parts, batch_rank):
    """[n, C]: the largest |x_i - mean| / sd over coordinates i; constants count for nothing."""
    largest: Any = 0.0
    for part in parts:
        draws = coordinates.as_matrix(part, batch_rank)
        draws = draws[:: math.ceil(draws[..., 0].size / _MAX_DRAWS)]
        width = max(1, _BLOCK_BYTES // draws[..., 0].nbytes)
        for first in range(0, draws.shape[-1], width):
            block = draws[..., first : first + width]
            deviation = block.std(axis=(0, 1))
            unit = np.where(deviation > 0, deviation, np.inf)
            distance = np.abs(block - block.mean(axis=(0, 1))) / unit
            largest = np.maximum(largest, distance.max(axis=-1))
    return largest


def pareto_shape(exceedances: np.ndarray) -> float:
    """Shape k of a generalised Pareto distribution, P(X > x) = (1 + k x / sigma)^(-1 / k).

    The posterior mean of Zhang & Stephens (2009), over a grid of b = -k / sigma, of which the
    likelihood is known in closed form.

    Args:
      exceedances: ascending and positive, [n].
    """
    size = len(exceedances)
    grid_size = 30 + int(math.sqrt(size))
    quartile = exceedances[int(size / 4 + 0.5) - 1]
    grid = 1 - np.sqrt(grid_size / (np.arange(1, grid_size + 1) - 0.5))
    grid = 1 / exceedances[-1] + grid / (3 * quartile)
    shapes = np.array([np.log1p(-b * exceedances).mean() for b in grid])
    log_likelihood = size * (np.log(-grid / shapes) - shapes - 1)
    weight = np.exp(log_likelihood - log_likelihood.max())
    b = np.sum(grid * weight) / weight.sum()
    return float(np.log1p(-b * exceedances).mean())
