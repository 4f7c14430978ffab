"""When to stop: draws until the chains agree and there are enough effective ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfp_adaptive.internal import arguments
from tfp_adaptive.sampling.figures import MAX_RHAT, MIN_ESS, extremes
from tfp_adaptive.sampling.programs.moves import LEARNED, Moves

_DEFAULT_NUM_ROUNDS = 20


@dataclass(frozen=True)
class Until:
    """What is to hold of the draws before `sample` stops.

    `sample` looks at all draws so far when there are `num_results` of them, and goes on for half as
    many again (at least `num_results`) unless every coordinate, in the space of the model, meets
    both bounds. Coordinates that are constant by construction, such as the diagonal of a
    correlation matrix, count for nothing. `SampleRun.stop_reason` says how it ended, and
    `SampleRun.is_converged` whether the bounds were met.

    Attributes:
      max_rhat: largest rank-normalised split R-hat; above 1. `None`: any will do.
      min_ess: smallest effective sample size over all chains, of every coordinate and of its
        squared deviation from the mean. `None`: any will do.
      max_steps: most steps of sampling a chain may take, thinned ones included. Default `None`: 20
        times those of the first `num_results` draws.

    Raises:
      ValueError: if a bound is out of its range, or both are `None`.

    Example:
      >>> run = tfpa.sample(
      ...     target_log_prob_fn, num_results=200, num_warmup_steps=200, initial_state=state,
      ...     until=tfpa.Until(min_ess=500, max_steps=20_000), seed=1, progress=False)
      >>> run.is_converged, bool(run.diagnostics.min_ess >= 500)
      (True, True)
    """

    max_rhat: float | None = MAX_RHAT
    min_ess: float | None = MIN_ESS
    max_steps: int | None = None

    def __post_init__(self):
        if self.max_rhat is not None and not (_is_number(self.max_rhat) and self.max_rhat > 1):
            raise ValueError(
                f'`max_rhat` must be above 1, where R-hat ends; got {self.max_rhat!r}.'
            )
        if self.min_ess is not None and not (_is_number(self.min_ess) and self.min_ess > 0):
            raise ValueError(f'`min_ess` must be a positive number; got {self.min_ess!r}.')
        if self.max_rhat is None and self.min_ess is None:
            raise ValueError('`max_rhat` and `min_ess` must not both be None: give at least one.')
        if self.max_steps is not None:
            arguments.count('max_steps', self.max_steps, 1)


class Verdict(NamedTuple):
    """Whether a run is over, and why."""

    is_over: bool
    is_met: bool | None
    """Whether the bounds are met; `None` where there are none."""
    reason: str
    """A sentence."""


def goals(
    until: Until | None, num_results: int, steps_per_row: int, num_spent: int = 0
) -> Iterator[int]:
    """Numbers of draws at which to look, ascending; the last is where sampling ends in any case.

    They follow from the arguments alone, so that a run that was interrupted ends where it would
    have ended.

    Args:
      until: what is to hold, or `None`.
      num_results: draws of the first round, which is taken in any case.
      steps_per_row: steps for each of them.
      num_spent: steps of draws that were thrown away.
    """
    limit = num_results
    if until is not None:
        steps = until.max_steps
        limit = _DEFAULT_NUM_ROUNDS * num_results
        if steps is not None:
            limit = max((steps - num_spent) // steps_per_row, num_results)
    goal = num_results
    while goal < limit:
        yield goal
        goal += max(num_results, goal // 2)
    yield limit


def check_until(until: Any, num_results: int, steps_per_row: int) -> None:
    """Refuses what is no `Until`, and one that leaves no room for the first draws.

    Args:
      until: as `sample` was given it.
      num_results: draws of the first round.
      steps_per_row: steps for each of them.

    Raises:
      TypeError: if it is neither `None` nor an `Until`.
      ValueError: if `max_steps` does not suffice for the first round.
    """
    if until is None:
        return
    if not isinstance(until, Until):
        raise TypeError(
            f'`until` must be a tfp_adaptive.Until or None; got {until!r:.60}: pass, for example, '
            'tfpa.Until(max_rhat=1.01, min_ess=400).'
        )
    needed = num_results * steps_per_row
    if until.max_steps is not None and until.max_steps < needed:
        raise ValueError(
            f'`until` allows max_steps={until.max_steps}, fewer than the {needed} steps of the '
            f'first num_results={num_results} draws: raise it, or lower `num_results`.'
        )


def judge(
    until: Until | None,
    figures: tuple[Any, Any, Any],
    parts: list,
    *,
    batch_rank: int,
    is_last: bool,
    steps_per_row: int = 1,
    moves: Moves = LEARNED,
) -> Verdict:
    """Whether to stop at these draws.

    Args:
      until: what is to hold, or `None` for no more than the draws asked for.
      figures: of `diagnose`, in the space of the model.
      parts: list of unconstrained draws [num_rows, *batch, *event].
      batch_rank: number of chain dimensions.
      is_last: whether to stop in any case.
      steps_per_row: steps for each draw.
      moves: that made them.
    """
    num_rows = len(parts[0])
    if until is None:
        every = '' if steps_per_row == 1 else f', one every {steps_per_row} steps'
        asked = f'as `num_results` asked{every}{moves}'
        return Verdict(True, None, f'{num_rows} draws per chain, {asked}.')
    # what is constant where every free coordinate has moved is constant by construction
    has_moved = not any(_is_constant(part, batch_rank).any() for part in parts)
    min_ess, max_rhat = extremes(figures) if has_moved else (np.nan, np.nan)
    findings, is_met = [], True
    if until.max_rhat is not None:
        findings.append(f'R-hat {max_rhat:.4f} (at most {until.max_rhat:g} asked)')
        is_met &= bool(max_rhat <= until.max_rhat)
    if until.min_ess is not None:
        findings.append(f'ESS {min_ess:.0f} (at least {until.min_ess:g} asked)')
        is_met &= bool(min_ess >= until.min_ess)
    after = f'after {num_rows} draws per chain: {" and ".join(findings)}.'
    if is_met:
        return Verdict(True, True, f'`until` was met {after}')
    return Verdict(is_last, False, f'`max_steps` was reached before `until` was met, {after}')


def _is_constant(part, batch_rank):
    """[*event]: whether all draws of a coordinate are the same; not so where some are NaN."""
    axes = tuple(range(1 + batch_rank))
    return np.min(part, axis=axes) == np.max(part, axis=axes)


def _is_number(value):
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
