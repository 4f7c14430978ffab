"""The fourth stage of `sample`: the programs run, the warm-up to its end, then the draws."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.figures import MIN_DRAWS, diagnose
from tfp_adaptive.sampling.programs import moves as moving
from tfp_adaptive.sampling.programs.moves import LEARNED, Moves
from tfp_adaptive.sampling.programs.programs import Position, Program
from tfp_adaptive.sampling.programs.setups import Setup
from tfp_adaptive.sampling.programs.statistics import DrawRows, WarmupStatistics
from tfp_adaptive.sampling.running import arriving, thinning
from tfp_adaptive.sampling.running import until as stopping
from tfp_adaptive.sampling.running.execution import Execution
from tfp_adaptive.sampling.running.until import Verdict
from tfp_adaptive.tuning.first_metric import MANY_DIMENSIONS


class Seeds(NamedTuple):
    """Seeds of a run, each int32 [2]."""

    warmup: Any
    sampling: Any
    start: Any
    arrival: Any
    """For the way to the typical set."""


@dataclass(frozen=True)
class Drawn:
    """Draws of one program.

    Attributes:
      program: that made them.
      position: the last.
      rows: what was kept of every draw.
      figures: what `diagnose` says of them.
      verdict: why they are enough.
      compile_seconds: spent compiling.
      moves: that made them.
    """

    program: Program
    position: Position
    rows: DrawRows
    figures: tuple[Any, Any, Any]
    verdict: Verdict
    compile_seconds: float
    moves: Moves

    @property
    def num_steps(self) -> int:
        """Steps that the draws took."""
        return self.position.num_rows * self.program.steps_per_row


@dataclass(frozen=True)
class Finished:
    """A run that is over.

    Attributes:
      warmup: the last position of the warm-up.
      warmup_rows: what was kept of its steps.
      drawn: the draws.
      num_sampling_steps: of the draws, and of those that were thrown away for them.
      start_seconds: spent before the first steps, with the compilation of the arrival.
      compile_seconds: spent compiling.
    """

    warmup: Position
    warmup_rows: WarmupStatistics
    drawn: Drawn
    num_sampling_steps: int
    start_seconds: float
    compile_seconds: float


def run_phases(setup: Setup, store: Any, seeds: Seeds, begin: float) -> Finished:
    """Warms up and draws, or goes on where the store says that the run was interrupted.

    Args:
      setup: kernel and programs.
      store: where the run is kept.
      seeds: of the run.
      begin: when the call of `sample` began, by `time.perf_counter`.

    Raises:
      OSError: if the store cannot be written.
      ValueError: if a program fails, or the store holds another run, or more draws.
    """
    store.admit(setup)
    settings = setup.settings
    begun = setup.begin()
    first = store.restore('warm-up', begun)
    if first is begun:
        first = arriving.arrive(setup, begun, seeds.arrival)
    start_seconds = time.perf_counter() - begin
    warmup = _warm_up('warm-up', setup, first, store, seeds.warmup)
    compile_seconds = warmup.compile_seconds
    before = time.perf_counter()
    ended = warmup.position
    again = store.restore('arrival-2', ended)
    if again is ended and arriving.are_apart(setup, ended):
        again = arriving.arrive_again(setup, ended, random.fold_in(seeds.arrival, 1))
        store.moved('arrival-2', again)
    start_seconds += time.perf_counter() - before
    if again.num_restarts > ended.num_restarts:
        first = store.restore('warm-up-2', again)
        warmup = _warm_up('warm-up-2', setup, first, store, random.fold_in(seeds.warmup, 1))
        compile_seconds += warmup.compile_seconds
        again = warmup.position
    before = time.perf_counter()
    first, moves = setup.begin_sampling(again), LEARNED
    count = (settings.num_between or 0) + 1
    program = setup.sampling(again, first, count)
    start_seconds += time.perf_counter() - before
    num_sampling_steps = 0
    if _is_tried(setup):
        tried = _try(program, first, random.fold_in(seeds.warmup, 2), setup, store)
        moves = moving.after_trial(tried.figures, tried.num_steps * setup.start.num_chains)
        first = _moving(tried.position, LEARNED, moves)
        program = setup.sampling(again, first, count, moves)
        compile_seconds += tried.compile_seconds
        num_sampling_steps += tried.num_steps
    first = store.restore('sampling', first)
    drawn = _draw('sampling', program, first, seeds.sampling, setup, store, moves)
    compile_seconds += drawn.compile_seconds
    num_sampling_steps += drawn.num_steps
    missing = math.inf
    while settings.until is None and settings.num_between is None:
        count, moves, missing = _next_steps(drawn, missing, setup)
        if count == program.steps_per_row:
            break
        phase = f'thinned-{count}-delayed' if moves.are_delayed else f'thinned-{count}'
        first = store.restore(phase, _moving(drawn.position, drawn.moves, moves))
        program = setup.sampling(again, first, count, moves)
        seed = random.fold_in(seeds.sampling, count)
        drawn = _draw(phase, program, first, seed, setup, store, moves)
        compile_seconds += drawn.compile_seconds
        num_sampling_steps += drawn.num_steps
    return Finished(
        warmup=again,
        warmup_rows=warmup.rows.read(),
        drawn=drawn,
        num_sampling_steps=num_sampling_steps,
        start_seconds=start_seconds,
        compile_seconds=compile_seconds,
    )


def _is_tried(setup):
    """Whether the first draws are to tell what moves to take: in many dimensions."""
    is_long = setup.settings.num_warmup_steps >= moving.LEAST_WARMUP_STEPS
    return setup.is_default and is_long and setup.start.event_size >= MANY_DIMENSIONS


def _try(program, first, seed, setup, store) -> Drawn:
    """Draws that tell how fast chains mix; they are thrown away."""
    first = store.restore('trial', first)
    count = max(moving.NUM_TRIAL_STEPS // program.steps_per_row, MIN_DRAWS)
    rows = store.rows('trial', program.row_specs, count)
    progress = setup.settings.progress
    trial = Execution('trial', program, first, seed, rows, progress=progress, store=store)
    with trial:
        trial.advance_to(count)
    kept = rows.read()
    figures = diagnose(kept.states(setup.start.model.structure), len(setup.start.batch_shape))
    verdict = Verdict(True, None, '')
    return Drawn(program, trial.position, kept, figures, verdict, trial.compile_seconds, LEARNED)


def _moving(position, before, after) -> Position:
    """Where draws begin that take other moves than those before."""
    first = position.anew()
    if before == after:
        return first
    results = first.kernel_results
    step_size = results.step_size * (after.step_share / before.step_share)
    return replace(first, kernel_results=results._replace(step_size=step_size))


def _next_steps(drawn, before, setup) -> tuple[int, Moves, float]:
    """(steps of a draw, the moves to take, what these moves miss)."""
    start, num_steps = setup.start, drawn.program.steps_per_row
    num_draws = drawn.position.num_rows * start.num_chains
    moves = drawn.moves
    if setup.is_default and not moves.are_delayed:
        missing = thinning.shortfall(drawn.figures, num_draws, start.num_chains, math.inf)
        if missing > 1 and thinning.are_stuck(drawn.rows.parts, len(start.batch_shape)):
            most = thinning.MAX_DELAYED_STEPS_PER_DRAW
            # nothing is known of these moves; at first they may miss more, as chains come free
            count = thinning.steps_per_draw(num_steps, missing, most=most)
            return count, moves._replace(are_delayed=True), math.inf
    missing = thinning.shortfall(drawn.figures, num_draws, start.num_chains)
    most = thinning.MAX_DELAYED_STEPS_PER_DRAW if moves.are_delayed else thinning.MAX_STEPS_PER_DRAW
    return thinning.steps_per_draw(num_steps, missing, before, most), moves, missing


def _warm_up(label, setup, first, store, seed) -> Execution:
    program, num_steps = setup.warmup(first), setup.settings.num_warmup_steps
    rows = store.rows(label, program.row_specs, num_steps)
    progress = setup.settings.progress
    warmup = Execution(label, program, first, seed, rows, progress=progress, store=store)
    with warmup:
        warmup.advance_to(num_steps)
    return warmup


def _draw(label, program, first, seed, setup, store, moves) -> Drawn:
    """Draws until the verdict is that there are enough."""
    start, settings = setup.start, setup.settings
    num_results, until, progress = settings.num_results, settings.until, settings.progress
    rows = store.rows(label, program.row_specs, num_results)
    goals = list(stopping.goals(until, num_results, program.steps_per_row))
    if until is None and first.num_rows > num_results:
        raise ValueError(
            f'`checkpoint` holds {first.num_rows} draws per chain, more than '
            f'num_results={num_results}: ask for at least as many.'
        )
    goals = [goal for goal in goals if goal >= first.num_rows] or [first.num_rows]
    batch_rank = len(start.batch_shape)
    draws = Execution(label, program, first, seed, rows, progress=progress, store=store)
    with draws:
        for goal in goals:
            draws.advance_to(goal)
            kept = rows.read()
            figures = diagnose(kept.states(start.model.structure), batch_rank)
            verdict = stopping.judge(
                until,
                figures,
                kept.parts,
                steps_per_row=program.steps_per_row,
                moves=moves,
                batch_rank=batch_rank,
                is_last=goal == goals[-1],
            )
            if verdict.is_over:
                break
    return Drawn(program, draws.position, kept, figures, verdict, draws.compile_seconds, moves)
