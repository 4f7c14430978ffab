"""The fourth stage of `sample`: the programs run, the warm-up to its end, then the draws."""

import math
import time
from dataclasses import dataclass
from typing import Any

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.figures import diagnose
from tfp_adaptive.sampling.programs.programs import Position, Program
from tfp_adaptive.sampling.programs.setups import Setup
from tfp_adaptive.sampling.programs.statistics import DrawRows, WarmupStatistics
from tfp_adaptive.sampling.running import thinning
from tfp_adaptive.sampling.running import until as stopping
from tfp_adaptive.sampling.running.execution import Execution
from tfp_adaptive.sampling.running.until import Until, Verdict
from tfp_adaptive.sampling.targets.starts import Start


@dataclass(frozen=True)
class Orders:
    """What is to be run.

    Attributes:
      num_warmup_steps: steps that adapt.
      num_results: draws per chain.
      num_between: steps thrown away between two draws; `None`: as many as it takes.
      until: what is to hold of the draws, or `None`.
      progress: whether to show progress.
      arrival_seed: int32 [2], for the way to the typical set.
      warmup_seed: likewise, for the warm-up.
      sampling_seed: likewise, for the draws.
      begin: when the call of `sample` began, by `time.perf_counter`.
    """

    num_warmup_steps: int
    num_results: int
    num_between: int | None
    until: Until | None
    progress: bool
    arrival_seed: Any
    warmup_seed: Any
    sampling_seed: Any
    begin: float


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
      is_delayed: whether moves that were rejected were tried once more.
    """

    program: Program
    position: Position
    rows: DrawRows
    figures: tuple[Any, Any, Any]
    verdict: Verdict
    compile_seconds: float
    is_delayed: bool

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


def run_phases(start: Start, setup: Setup, store: Any, orders: Orders) -> Finished:
    """Warms up and draws, or goes on where the store says that the run was interrupted.

    Args:
      start: of the chains.
      setup: kernel and programs.
      store: where the run is kept.
      orders: what is to be run.

    Raises:
      OSError: if the store cannot be written.
      ValueError: if a program fails, or the store holds more draws.
    """
    begin = setup.begin(start.state, start.num_moved)
    first = store.restore('warm-up', begin)
    if first is begin:
        first = setup.arrive(begin, orders.arrival_seed, orders.num_warmup_steps)
    start_seconds = time.perf_counter() - orders.begin
    warmup = _warm_up(setup.warmup, first, store, orders)
    before = time.perf_counter()
    first = store.restore('sampling', setup.begin_sampling(warmup.position))
    program = setup.make_sampling(warmup.position, first, (orders.num_between or 0) + 1)
    start_seconds += time.perf_counter() - before
    drawn = _draw('sampling', program, first, orders.sampling_seed, start, store, orders)
    compile_seconds = warmup.compile_seconds + drawn.compile_seconds
    num_sampling_steps = drawn.num_steps
    missing = math.inf
    while orders.until is None and orders.num_between is None:
        count, is_delayed, missing = _next_steps(drawn, missing, setup.can_delay, start)
        if count == program.steps_per_row:
            break
        phase = f'thinned-{count}-delayed' if is_delayed else f'thinned-{count}'
        first = store.restore(phase, drawn.position.anew())
        program = setup.make_sampling(warmup.position, first, count, is_delayed)
        seed = random.fold_in(orders.sampling_seed, count)
        drawn = _draw(phase, program, first, seed, start, store, orders, is_delayed)
        compile_seconds += drawn.compile_seconds
        num_sampling_steps += drawn.num_steps
    return Finished(
        warmup=warmup.position,
        warmup_rows=warmup.rows.read(),
        drawn=drawn,
        num_sampling_steps=num_sampling_steps,
        start_seconds=start_seconds,
        compile_seconds=compile_seconds,
    )


def _next_steps(drawn, before, can_delay, start) -> tuple[int, bool, float]:
    """(steps of a draw, whether rejected moves are tried once more, what these moves miss)."""
    num_steps, num_draws = drawn.program.steps_per_row, drawn.position.num_rows * start.num_chains
    if can_delay and not drawn.is_delayed:
        missing = thinning.shortfall(drawn.figures, num_draws, max_rhat=math.inf)
        if missing > 1 and thinning.are_stuck(drawn.rows.parts, len(start.batch_shape)):
            most = thinning.MAX_DELAYED_STEPS_PER_DRAW
            # nothing is known of these moves; at first they may miss more, as chains come free
            return thinning.steps_per_draw(num_steps, missing, most=most), True, math.inf
    missing = thinning.shortfall(drawn.figures, num_draws)
    most = thinning.MAX_DELAYED_STEPS_PER_DRAW if drawn.is_delayed else thinning.MAX_STEPS_PER_DRAW
    count = thinning.steps_per_draw(num_steps, missing, before, most)
    return count, drawn.is_delayed, missing


def _warm_up(program, first, store, orders) -> Execution:
    rows = store.rows('warm-up', program.row_specs, orders.num_warmup_steps)
    seed, progress = orders.warmup_seed, orders.progress
    warmup = Execution('warm-up', program, first, seed, rows, progress=progress, store=store)
    with warmup:
        warmup.advance_to(orders.num_warmup_steps)
    return warmup


def _draw(label, program, first, seed, start, store, orders, is_delayed=False) -> Drawn:
    """Draws until the verdict is that there are enough."""
    num_results, until, progress = orders.num_results, orders.until, orders.progress
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
                is_delayed=is_delayed,
                batch_rank=batch_rank,
                is_last=goal == goals[-1],
            )
            if verdict.is_over:
                break
    return Drawn(program, draws.position, kept, figures, verdict, draws.compile_seconds, is_delayed)
