"""Troubles that ESS and R-hat of coordinates do not show: funnels, tails, log-densities apart.

The shape k of a tail, P(X > x) ~ x^(-1/k), is told by scores. Given the coordinate alone, the mean
of its score is that of the marginal density p, E[d log pi / dx_i | x_i = x] = (log p)'(x), and

    d/dx (-1 / (log p)'(x)) -> k / (1 + k)    as x grows

(von Mises 1936): zero where the tail falls off like an exponential, negative where it does like a
Gaussian. It takes no more than a few hundred draws in the tail, however far out chains have been.
As far out as draws are, the shape of a Student-t with three degrees of freedom seems to be 0.31,
with a standard error of 0.02; it is 1/3.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfp_adaptive.kernels.marginal_base import MarginalKernel
from tfp_adaptive.sampling import coordinates
from tfp_adaptive.sampling.figures import diagnose

_NUM_SUSPECTS, _KURTOSIS = 3, 5.0
"""The coordinates with the largest kurtosis may have heavy tails if it is above this. That of a
Gaussian is 3, of a logistic distribution 4.2, of a Student-t with seven degrees of freedom 5."""
_TAIL, _FAR_TAIL = 0.05, 0.01
"""Shares of the draws, on either side."""
_MIN_FARTHEST = 10
"""Draws among those that say whether a tail gets lighter farther out."""
_MAX_SHAPE, _Z = 0.1, 2.0
"""Of a Student-t distribution with five degrees of freedom the shape seems to be 0.11."""
_MAX_SLOPE = 0.9
_MAX_SCORES, _MAX_CALLS = 256, 32
"""Of each half of either tail, and calls of the density for them."""
_MIN_DRAWS = 1000
_MAX_DRAWS = 20_000
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
    tail = run.heaviest_tail
    if tail is not None and tail.shape > _MAX_SHAPE + _Z * tail.error:
        yield (
            f'The tails of {tail.name} fall off like a power law of shape {tail.shape:.2f} '
            f'(standard error {tail.error:.2f}; that of an exponential is 0): chains go far out '
            'too rarely, and standard deviations come out too small, if they exist; trust '
            'quantiles, or sample transformed coordinates with lighter tails, such as through '
            'tfb.SinhArcsinh.'
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


class Tail(NamedTuple):
    """The tail of a coordinate.

    Attributes:
      name: of the coordinate.
      shape: k, of P(X > x) ~ x^(-1/k), as far out as the draws are; zero for an exponential.
      error: its standard error.
    """

    name: str
    shape: float
    error: float


def heaviest_tail(
    parts: Sequence[Any],
    names: Sequence[str],
    batch_rank: int,
    score_fn: Callable,
    own: Sequence[Any] = (),
) -> Tail | None:
    """The heaviest tail of the coordinates that may have heavy ones, by their kurtosis.

    That of the coordinate in the model must be large as well, or those of its whole part if it has
    others there: the logarithm of a scale may go far down, which moves the scale by little.

    Args:
      parts: draws, each [num_results, *batch, *event].
      names: one for every part.
      batch_rank: number of chain dimensions.
      score_fn: parts [*batch, *event] -> derivatives of the log-density, likewise.
      own: the draws in the model's space, likewise; empty where they are the same.

    Returns:
      `None` where no coordinate may have heavy tails, or where there are too few draws to tell.
    """
    matrices = [coordinates.as_matrix(part, batch_rank) for part in parts]
    num_draws, num_chains = matrices[0].shape[:2]
    if num_draws * num_chains < _MIN_DRAWS:
        return None
    with np.errstate(all='ignore'):
        columns = [_kurtosis(matrix) for matrix in matrices]
        for i, part in enumerate(own):
            of_model = _kurtosis(coordinates.as_matrix(part, batch_rank))
            if np.shape(part) != np.shape(parts[i]):
                of_model = np.min(of_model[of_model > 0]) if np.any(of_model) else 0
            columns[i] = np.minimum(columns[i], of_model)
    kurtosis = np.concatenate(columns)
    suspects = [i for i in np.argsort(-kurtosis)[:_NUM_SUSPECTS] if kurtosis[i] > _KURTOSIS]
    ends = np.cumsum([matrix.shape[-1] for matrix in matrices])
    found = []
    for suspect in suspects:
        chosen = int(np.searchsorted(ends, suspect, side='right'))
        coordinate = int(suspect - ends[chosen] + matrices[chosen].shape[-1])

        def score(draws, chosen=chosen, coordinate=coordinate):
            """Of the coordinate, at draws [n] of all chains in turn."""
            return _scores(matrices, parts, draws, score_fn, chosen)[:, coordinate]

        draws = np.ravel(matrices[chosen][..., coordinate])
        event_shape = np.shape(parts[chosen])[1 + batch_rank :]
        name = coordinates.labels(names[chosen], event_shape)[coordinate]
        sides = _sides(np.asarray(draws, np.float64), num_chains, score)
        found += [Tail(name, *side) for side in sides if side is not None]
    return max(found, key=lambda tail: tail.shape - _Z * tail.error, default=None)


def _scores(matrices, parts, draws, score_fn, chosen):
    """[n, D] derivatives by a part at draws [n] of all chains in turn, C draws at a time."""
    num_chains, count = matrices[0].shape[1], len(draws)
    draws = np.resize(draws, -(-count // num_chains) * num_chains)
    rows = [each[draws // num_chains, draws % num_chains] for each in matrices]
    found = []
    for first in range(0, len(draws), num_chains):
        state = [
            np.reshape(each[first : first + num_chains], np.shape(part)[1:])
            for each, part in zip(rows, parts, strict=True)
        ]
        scores = np.asarray(score_fn(state)[chosen], np.float64)
        found.append(scores.reshape([num_chains, -1]))
    return np.concatenate(found)[:count]


def _kurtosis(draws):
    """E z^4 of every coordinate of draws [num_results, C, D]; zero for constants.

    That of draws whose powers overflow is infinite.
    """
    draws = draws[:: math.ceil(draws[..., 0].size / _MAX_DRAWS)]
    found = []
    for columns in coordinates.column_blocks(draws, num_copies=4):
        block = np.asarray(columns, np.float64)
        squares = np.square(block - block.mean(axis=(0, 1)))
        variance = squares.mean(axis=(0, 1))
        ratio = np.square(squares).mean(axis=(0, 1)) / np.square(variance)
        ratio = np.where(variance > 0, ratio, 0)
        found.append(np.where(np.isnan(ratio), np.inf, ratio))
    return np.concatenate(found)


def _sides(draws, num_chains, score):
    """(shape, standard error) of both tails of draws [n]; `None` where scores do not tell.

    A power law only gets heavier farther out. Where a tail gets lighter, as where the data say less
    and less and the prior takes over, it is none.
    """
    order = np.argsort(draws)
    num_tail, num_far = (math.ceil(share * len(draws)) for share in (_TAIL, _FAR_TAIL))
    for sign, outward in ((1.0, order), (-1.0, order[::-1])):
        groups = outward[-num_tail:-num_far], outward[-num_far:]
        most = min(_MAX_SCORES, _MAX_CALLS * num_chains)
        near, far = (group[:: math.ceil(len(group) / most)] for group in groups)
        chosen = np.concatenate([near, far])
        rows = np.stack([sign * draws[chosen], sign * score(chosen), chosen % num_chains])
        begin, farthest = len(near), len(near) + 4 * len(far) // 5
        found = _slope(rows[:, :begin], rows[:, begin:])
        further = _slope(rows[:, begin:farthest], rows[:, farthest:])
        is_told = found and further and len(chosen) - farthest >= _MIN_FARTHEST
        if is_told and _is_less(further, found):
            found = None
        yield found and (found[0] / (1 - found[0]), found[1] / (1 - found[0]) ** 2)


def _is_less(one, other):
    """Whether a slope is less than another by more than chance."""
    return one[0] + _Z * math.hypot(one[1], other[1]) < other[0]


def _slope(near, far):
    """Of the reciprocal g = -1 / (log p)' of the mean scores, and its standard error.

    A mean score is a harmonic mean of distances: their own mean would run away from it.

    Args:
      near: of draws, [3, n]: place, score and chain.
      far: likewise, farther out.
    """
    distance = float(np.median(far[0]) - np.median(near[0]))
    means, errors = np.transpose([_mean(scores, chain) for _, scores, chain in (near, far)])
    if not (np.isfinite(means).all() and (means < 0).all() and distance > 0):
        return None
    g = -1 / means
    # no density falls off with a slope of one for long
    slope = min((g[1] - g[0]) / distance, _MAX_SLOPE)
    return float(slope), float(math.hypot(*(g**2 * errors)) / distance)


def _mean(scores, chain):
    """(mean, standard error), where scores of one chain may depend on one another."""
    residuals = scores - scores.mean()
    of_chains = np.bincount(chain.astype(int), residuals)
    return scores.mean(), math.sqrt(max(residuals @ residuals, of_chains @ of_chains)) / len(scores)
