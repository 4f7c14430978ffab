"""From two finished phases to what `sample` returns."""

from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling.findings.diagnostics import Diagnostics
from tfp_adaptive.sampling.findings.run import SampleRun, Timings
from tfp_adaptive.sampling.running import setups
from tfp_adaptive.sampling.running.fields import find_field
from tfp_adaptive.sampling.running.phases import Position
from tfp_adaptive.sampling.running.programs import Program
from tfp_adaptive.sampling.running.until import Verdict
from tfp_adaptive.sampling.targets.model import Model


def make_run(
    model: Model,
    setup: setups.Setup,
    phases: tuple[Position, Position],
    rows: tuple[Any, Any],
    *,
    program: Program,
    batch_shape: tuple[int, ...],
    figures: tuple[Any, Any, Any],
    verdict: Verdict,
    compile_seconds: float,
    start_seconds: float,
    num_restarts: int,
) -> SampleRun:
    """Everything a run leaves behind.

    Args:
      model: the target.
      setup: kernel and programs.
      phases: last positions of warm-up and sampling.
      rows: what was kept of every row of both.
      program: of the sampling.
      batch_shape: chain dimensions.
      figures: of `diagnose`.
      verdict: why the run is over.
      compile_seconds: time spent compiling.
      start_seconds: time spent before the first steps, without compilation.
      num_restarts: chains that were started from the others.
    """
    (warmup, draws), (warmup_rows, draw_rows) = phases, rows
    parts, _, statistics, trace = draw_rows
    states = own_states(model, draw_rows)
    frozen_kernel = setups.freeze(setup.kernel, warmup.kernel_results)
    return SampleRun(
        states=states,
        trace=trace,
        warmup_trace=warmup_rows.info or None,
        diagnostics=_diagnostics(
            figures,
            warmup,
            draws,
            program,
            kernels=(setup.kernel, frozen_kernel),
            num_warmup_steps=warmup.num_rows * setup.warmup.steps_per_row,
            num_restarts=num_restarts,
        ),
        timings=Timings(
            compile=compile_seconds,
            warmup=warmup.seconds,
            sampling=draws.seconds,
            start=start_seconds,
        ),
        frozen_kernel=frozen_kernel,
        final_state=draws.state,
        kernel_results=draws.kernel_results,
        warmup_kernel_results=warmup.kernel_results,
        kernel=setup.kernel,
        statistics=statistics,
        warmup_preconditioner=warmup_rows.preconditioner,
        names=model.names,
        stop_reason=verdict.reason,
        is_converged=verdict.is_met,
        unconstrained_states=tf.nest.pack_sequence_as(model.sampler_structure, list(parts)),
    )


def own_states(model: Model, draw_rows: Any) -> Any:
    """The draws in the space and the structure of the model.

    Args:
      model: the target.
      draw_rows: what was kept of every draw.
    """
    parts, own, _, _ = draw_rows
    return tf.nest.pack_sequence_as(model.structure, list(own or parts))


def _diagnostics(
    figures, warmup, draws, program, *, kernels, num_warmup_steps, num_restarts
) -> Diagnostics:
    warmup_info = find_field(warmup.kernel_results, 'info')
    info = find_field(draws.kernel_results, 'info')

    def count(info, name):
        figure = getattr(info, name, ())
        return None if isinstance(figure, tuple) else int(figure)

    num_warmup_gradients = count(warmup_info, 'num_gradients')
    num_sampling_gradients = count(info, 'num_gradients')
    if num_sampling_gradients is not None and kernels[0] is kernels[1]:
        # the counter has gone on from the warm-up
        num_sampling_gradients -= num_warmup_gradients
    ess, ess_of_squares, rhat = figures
    num_steps = draws.num_rows * program.steps_per_row
    per_step = [getattr(kernel, 'num_evaluations_per_step', 0) for kernel in kernels]
    return Diagnostics(
        ess=ess,
        ess_of_squares=ess_of_squares,
        rhat=rhat,
        accept_prob=draws.accept_prob / num_steps if program.has_acceptance else None,
        num_divergences=draws.num_divergences if program.has_acceptance else None,
        num_warmup_gradients=num_warmup_gradients,
        num_warmup_hessian_vector_products=count(warmup_info, 'num_hessian_vector_products'),
        num_sampling_gradients=num_sampling_gradients,
        num_restarts=num_restarts,
        # and one at the start
        num_warmup_evaluations=1 + num_warmup_steps * per_step[0] if per_step[0] else None,
        num_sampling_evaluations=num_steps * per_step[1] or None,
    )
