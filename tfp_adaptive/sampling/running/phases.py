"""The fourth stage of `sample`: the programs run, the warm-up to its end, then the draws."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.kernels.adaptive import GradientAdaptiveKernel
from tfp_adaptive.sampling.figures import diagnose
from tfp_adaptive.sampling.programs.programs import Position, Program
from tfp_adaptive.sampling.programs.setups import Setup
from tfp_adaptive.sampling.programs.statistics import DrawRows, WarmupStatistics, find_field
from tfp_adaptive.sampling.running import thinning
from tfp_adaptive.sampling.running import until as stopping
from tfp_adaptive.sampling.running.execution import Execution
from tfp_adaptive.sampling.running.until import Verdict
from tfp_adaptive.sampling.targets.starts import Start
from tfp_adaptive.sampling.user_code import explained
from tfp_adaptive.tuning.arrive import LOST

_ARRIVAL_SHARE = 4
_LEAST_GRADIENTS = 25
_COUNTS = ('num_gradients', 'num_hessian_vector_products', 'num_nonfinite')


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


def run_phases(start: Start, setup: Setup, store: Any, seeds: Seeds, begin: float) -> Finished:
    """Warms up and draws, or goes on where the store says that the run was interrupted.

    Args:
      start: of the chains.
      setup: kernel and programs.
      store: where the run is kept.
      seeds: of the run.
      begin: when the call of `sample` began, by `time.perf_counter`.

    Raises:
      OSError: if the store cannot be written.
      ValueError: if a program fails, or the store holds another run, or more draws.
    """
    store.admit(start, setup)
    settings = setup.settings
    begun = setup.begin()
    first = store.restore('warm-up', begun)
    if first is begun:
        first = arrive(setup, begun, seeds.arrival)
    start_seconds = time.perf_counter() - begin
    warmup = _warm_up('warm-up', setup, first, store, seeds.warmup)
    before = time.perf_counter()
    compile_seconds = warmup.compile_seconds
    again = with_lost_chains_moved(setup, warmup.position, random.fold_in(seeds.arrival, 1))
    if again is not None:
        start_seconds += time.perf_counter() - before
        first = store.restore('warm-up-2', again)
        warmup = _warm_up('warm-up-2', setup, first, store, random.fold_in(seeds.warmup, 1))
        before = time.perf_counter()
    first = store.restore('sampling', setup.begin_sampling(warmup.position))
    program = setup.sampling(warmup.position, first, (settings.num_between or 0) + 1)
    start_seconds += time.perf_counter() - before
    drawn = _draw('sampling', program, first, seeds.sampling, setup, store)
    compile_seconds += drawn.compile_seconds
    num_sampling_steps = drawn.num_steps
    missing = math.inf
    while settings.until is None and settings.num_between is None:
        count, is_delayed, missing = _next_steps(drawn, missing, setup.can_delay, start)
        if count == program.steps_per_row:
            break
        phase = f'thinned-{count}-delayed' if is_delayed else f'thinned-{count}'
        first = store.restore(phase, drawn.position.anew())
        program = setup.sampling(warmup.position, first, count, is_delayed)
        seed = random.fold_in(seeds.sampling, count)
        drawn = _draw(phase, program, first, seed, setup, store, is_delayed)
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


def arrive(setup: Setup, begun: Position, seed: Any, walks: bool = True) -> Position:
    """The chains go to the typical set, and the kernel starts at their scales.

    Those of gradient-adaptive kernels that use scores do. The descent takes at most a quarter as
    many gradients as the warm-up has steps, with four log-densities beside each; in a funnel the
    walk takes as many gradients again. All count as gradients of the warm-up. With less than a
    hundred steps of warm-up chains stay where they are, and so do the chains of other kernels.

    Args:
      setup: kernel and programs.
      begun: the position to arrive from.
      seed: int32 [2].
      walks: whether chains walk in a funnel; otherwise they stay where they are. Default `True`.
    """
    state, most = begun.state, setup.settings.num_warmup_steps // _ARRIVAL_SHARE
    uses_scores = isinstance(setup.kernel, GradientAdaptiveKernel) and bool(
        begun.kernel_results.grads_target_log_prob
    )
    if not uses_scores or most < _LEAST_GRADIENTS:
        return begun
    with explained('target` or `kernel', tf.nest.flatten(state)):
        first, is_funnel, resolved = setup.arrival.descend(state, seed, tf.constant(most))
        num_gradients = first.num_gradients
        if is_funnel and not walks:
            return begun
        if is_funnel:
            first = setup.arrival.walk(state, resolved, seed, tf.constant(most))
            num_gradients += first.num_gradients
    results = setup.bootstrap(first.state)
    return replace(
        begun,
        state=first.state,
        kernel_results=results._replace(
            adaptation=results.adaptation._replace(preconditioner=first.proposal),
            info=results.info._replace(num_gradients=results.info.num_gradients + num_gradients),
        ),
        num_restarts=begun.num_restarts + int(first.num_restarts),
    )


def with_lost_chains_moved(setup: Setup, warmup: Position, seed: Any) -> Position | None:
    """Where the warm-up begins once more, because it has found a better mode than the arrival.

    A chain may come upon it that no descent has led to. The others are then left in modes of next
    to no weight, and start from where that chain is, as they would have done on arrival.

    Args:
      setup: kernel and programs.
      warmup: the last position of the warm-up.
      seed: int32 [2].

    Returns:
      `None` if the log-densities of the chains are no farther apart than those of draws may be, or
      if no chain is lost.
    """
    results = warmup.kernel_results
    log_prob = find_field(results, 'target_log_prob')
    if log_prob is None or _spread(log_prob) <= LOST + setup.start.event_size:
        return None
    found = arrive(setup, warmup, seed, walks=False)
    if found.num_restarts == warmup.num_restarts:
        return None
    info = found.kernel_results.info
    info = info._replace(
        **{name: getattr(info, name) + getattr(results.info, name) for name in _COUNTS}
    )
    return replace(
        found, kernel_results=found.kernel_results._replace(info=info), num_rows=0, accept_prob=0.0
    )


def _spread(log_prob) -> float:
    """Of the finite ones."""
    finite = log_prob.numpy()[np.isfinite(log_prob)]
    return float(np.ptp(finite)) if finite.size else 0.0


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


def _warm_up(label, setup, first, store, seed) -> Execution:
    program, num_steps = setup.warmup(first), setup.settings.num_warmup_steps
    rows = store.rows(label, program.row_specs, num_steps)
    progress = setup.settings.progress
    warmup = Execution(label, program, first, seed, rows, progress=progress, store=store)
    with warmup:
        warmup.advance_to(num_steps)
    return warmup


def _draw(label, program, first, seed, setup, store, is_delayed=False) -> Drawn:
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
                is_delayed=is_delayed,
                batch_rank=batch_rank,
                is_last=goal == goals[-1],
            )
            if verdict.is_over:
                break
    return Drawn(program, draws.position, kept, figures, verdict, draws.compile_seconds, is_delayed)
