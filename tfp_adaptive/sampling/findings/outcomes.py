"""The last stage of `sample`: from a run that is over to what the user gets."""

import tensorflow as tf

from tfp_adaptive.kernels.marginal_base import MarginalKernel
from tfp_adaptive.sampling.figures import MAX_RHAT, MIN_ESS, extremes
from tfp_adaptive.sampling.findings.diagnostics import Diagnostics
from tfp_adaptive.sampling.findings.sample_run import SampleRun, Timings
from tfp_adaptive.sampling.findings.tails import heaviest_tail
from tfp_adaptive.sampling.programs.setups import Setup
from tfp_adaptive.sampling.programs.statistics import find_field
from tfp_adaptive.sampling.running.phases import Finished


def make_run(setup: Setup, finished: Finished) -> SampleRun:
    """Everything a run leaves behind.

    Args:
      setup: kernel and programs.
      finished: the run.
    """
    warmup, drawn = finished.warmup, finished.drawn
    rows, last, model = drawn.rows, drawn.position, setup.start.model
    frozen_kernel = setup.freeze(warmup, drawn.moves)
    return SampleRun(
        states=rows.states(model.structure),
        trace=rows.trace,
        warmup_trace=finished.warmup_rows.info or None,
        diagnostics=_diagnostics(finished, setup.kernel, frozen_kernel),
        timings=Timings(
            compile=finished.compile_seconds,
            warmup=warmup.seconds,
            sampling=last.seconds,
            start=finished.start_seconds,
        ),
        frozen_kernel=frozen_kernel,
        final_state=last.state,
        kernel_results=last.kernel_results,
        warmup_kernel_results=warmup.kernel_results,
        kernel=setup.kernel,
        statistics=rows.statistics,
        warmup_preconditioner=finished.warmup_rows.preconditioner,
        names=model.names,
        stop_reason=drawn.verdict.reason,
        is_converged=drawn.verdict.is_met,
        is_delayed=drawn.moves.are_delayed,
        has_longer_moves=drawn.moves.are_long,
        heaviest_tail=_heaviest_tail(setup.start, drawn, frozen_kernel),
        unconstrained_states=tf.nest.pack_sequence_as(model.sampler_structure, list(rows.parts)),
        constrain_parts=model.constrain,
    )


def _heaviest_tail(start, drawn, kernel):
    """Of draws that have mixed; it takes the density anew, which may refuse to be taken there."""
    min_ess, max_rhat = extremes(drawn.figures)
    if isinstance(kernel, MarginalKernel) or not (min_ess >= MIN_ESS and max_rhat <= MAX_RHAT):
        return None
    batch_rank, names = len(start.batch_shape), start.model.names
    try:
        rows = drawn.rows
        return heaviest_tail(rows.parts, names, batch_rank, start.density.scores, rows.own)
    except tf.errors.OpError:
        # an assertion, which XLA leaves out
        return None


def _diagnostics(finished, kernel, frozen_kernel) -> Diagnostics:
    drawn = finished.drawn
    warmup_info = find_field(finished.warmup.kernel_results, 'info')
    info = find_field(drawn.position.kernel_results, 'info')

    def count(info, name):
        figure = getattr(info, name, ())
        return None if isinstance(figure, tuple) else int(figure)

    num_warmup_gradients = count(warmup_info, 'num_gradients')
    num_sampling_gradients = count(info, 'num_gradients')
    if num_sampling_gradients is not None and kernel is frozen_kernel:
        # the counter has gone on from the warm-up
        num_sampling_gradients -= num_warmup_gradients
    ess, ess_of_squares, rhat = drawn.figures
    has_acceptance = drawn.program.has_acceptance
    warmup_evaluations, evaluations = (
        getattr(each, 'num_evaluations_per_step', 0) for each in (kernel, frozen_kernel)
    )
    return Diagnostics(
        ess=ess,
        ess_of_squares=ess_of_squares,
        rhat=rhat,
        accept_prob=drawn.position.accept_prob / drawn.num_steps if has_acceptance else None,
        num_divergences=drawn.position.num_divergences if has_acceptance else None,
        num_warmup_gradients=num_warmup_gradients,
        num_warmup_hessian_vector_products=count(warmup_info, 'num_hessian_vector_products'),
        num_sampling_gradients=num_sampling_gradients,
        num_restarts=finished.warmup.num_restarts,
        # and one at the start
        num_warmup_evaluations=1 + finished.warmup.num_rows * warmup_evaluations
        if warmup_evaluations
        else None,
        num_sampling_evaluations=finished.num_sampling_steps * evaluations or None,
        num_moved_starts=finished.warmup.num_moved_starts,
    )
