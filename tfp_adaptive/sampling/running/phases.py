"""The fourth stage of `sample`: the programs run, the warm-up to its end, then the draws."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.figures import MIN_DRAWS, diagnose
from tfp_adaptive.sampling.programs import moves
from tfp_adaptive.sampling.programs.moves import LEARNED, LONGER, Moves
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
    count = (settings.num_between or 0) + 1
    first = store.restore('sampling', setup.begin_sampling(again))
    program = setup.sampling(again, first, count)
    start_seconds += time.perf_counter() - before
    num_tried = _num_tried(setup, count)
    drawn = _draw('sampling', program, first, seeds.sampling, setup, store, LEARNED, num_tried)
    compile_seconds += drawn.compile_seconds
    num_sampling_steps = drawn.num_steps
    if not drawn.verdict.is_over:
        first = store.restore('longer', _moving(drawn.position, LEARNED, LONGER))
        program = setup.sampling(again, first, count, LONGER)
        seed = random.fold_in(seeds.sampling, 1)
        drawn = _draw('longer', program, first, seed, setup, store, LONGER, 0, num_sampling_steps)
        compile_seconds += drawn.compile_seconds
        num_sampling_steps += drawn.num_steps
    missing = math.inf
    while settings.until is None and settings.num_between is None:
        count, taken, missing = _next_steps(drawn, missing, setup)
        if (count, taken) == (program.steps_per_row, drawn.moves):
            break
        phase = f'thinned-{count}{taken.label}'
        first = store.restore(phase, _moving(drawn.position, drawn.moves, taken))
        program = setup.sampling(again, first, count, taken)
        seed = random.fold_in(seeds.sampling, count)
        drawn = _draw(phase, program, first, seed, setup, store, taken)
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


def _num_tried(setup, steps_per_row) -> int:
    """The first draws, which tell whether to take longer moves: in many dimensions; else none."""
    settings, count = setup.settings, moves.NUM_TRIAL_STEPS // steps_per_row
    is_long = settings.num_warmup_steps >= moves.LEAST_WARMUP_STEPS
    has_many = setup.start.event_size >= MANY_DIMENSIONS
    most = math.inf if settings.until is None else settings.until.max_steps or math.inf
    has_room = (settings.num_results + count) * steps_per_row <= most
    is_asked = setup.is_default and has_many and is_long and has_room
    return count if is_asked and MIN_DRAWS <= count <= settings.num_results else 0


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
    taken = drawn.moves
    if setup.is_default and not taken.are_delayed:
        missing = thinning.shortfall(drawn.figures, num_draws, start.num_chains, math.inf)
        if missing > 1 and thinning.are_stuck(drawn.rows.parts, len(start.batch_shape)):
            most = thinning.MAX_DELAYED_STEPS_PER_DRAW
            # nothing is known of these moves; at first they may miss more, as chains come free
            count = thinning.steps_per_draw(num_steps, missing, most=most)
            return count, taken._replace(are_delayed=True), math.inf
    missing = thinning.shortfall(drawn.figures, num_draws, start.num_chains)
    most = thinning.MAX_DELAYED_STEPS_PER_DRAW if taken.are_delayed else thinning.MAX_STEPS_PER_DRAW
    count = thinning.steps_per_draw(num_steps, missing, before, most)
    if count > num_steps and setup.is_default and taken == LEARNED:
        return count // 2, LONGER, missing
    return count, taken, missing


def _warm_up(label, setup, first, store, seed) -> Execution:
    program, num_steps = setup.warmup(first), setup.settings.num_warmup_steps
    rows = store.rows(label, program.row_specs, num_steps)
    progress = setup.settings.progress
    warmup = Execution(label, program, first, seed, rows, progress=progress, store=store)
    with warmup:
        warmup.advance_to(num_steps)
    return warmup


def _draw(label, program, first, seed, setup, store, taken, num_tried=0, num_spent=0) -> Drawn:
    """Draws until the verdict is that there are enough; or that the first call for longer moves."""
    start, settings = setup.start, setup.settings
    num_results, until, progress = settings.num_results, settings.until, settings.progress
    rows = store.rows(label, program.row_specs, num_results)
    goals = list(stopping.goals(until, num_results, program.steps_per_row, num_spent))
    if until is None and first.num_rows > num_results:
        raise ValueError(
            f'`checkpoint` holds {first.num_rows} draws per chain, more than '
            f'num_results={num_results}: ask for at least as many.'
        )
    goals = [goal for goal in goals if goal >= first.num_rows] or [first.num_rows]
    batch_rank = len(start.batch_shape)
    draws = Execution(label, program, first, seed, rows, progress=progress, store=store)
    figures: Any = None  # draws that call for longer moves need none
    with draws:
        if num_tried:
            draws.advance_to(num_tried)
            kept = rows.read()
            early = [part[:num_tried] for part in kept.parts]
            if moves.are_slow(early, batch_rank, program.steps_per_row):
                verdict, goals = Verdict(False, None, ''), []
        for goal in goals:
            draws.advance_to(goal)
            kept = rows.read()
            figures = diagnose(kept.states(start.model.structure), batch_rank)
            verdict = stopping.judge(
                until,
                figures,
                kept.parts,
                steps_per_row=program.steps_per_row,
                moves=taken,
                batch_rank=batch_rank,
                is_last=goal == goals[-1],
            )
            if verdict.is_over:
                break
    return Drawn(program, draws.position, kept, figures, verdict, draws.compile_seconds, taken)
