"""`sample`: from a target to draws and diagnostics in one call."""

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import arguments, random
from tfp_adaptive.sampling import options
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.findings import convergence, outcomes
from tfp_adaptive.sampling.findings.diagnostics import diagnose
from tfp_adaptive.sampling.findings.run import SampleRun
from tfp_adaptive.sampling.running import setups, thinning
from tfp_adaptive.sampling.running import until as stopping
from tfp_adaptive.sampling.running.execution import Execution
from tfp_adaptive.sampling.running.running_rhat import rhat_figures
from tfp_adaptive.sampling.running.until import Until
from tfp_adaptive.sampling.storage import checkpoint as checkpoint_files
from tfp_adaptive.sampling.targets.initial import find_start

# one call, as every operation before the first draw is waited for
_split = Compiled(lambda seed: random.split(seed, 4))


@options.explained
def sample(
    target: Any,
    num_results: int = 1000,
    num_warmup_steps: int = 1000,
    num_chains: int | None = None,
    *,
    initial_state: Any = None,
    kernel: Any = None,
    dtype: Any = None,
    num_steps_between_results: int | None = None,
    trace_fn: Callable | None = None,
    until: Until | None = None,
    checkpoint: Any = None,
    seed: Any = None,
    progress: bool = True,
    jit_compile: bool = True,
) -> SampleRun:
    """Adapts, freezes, then draws.

    Warm-up and sampling are two compiled programs; the second holds no adaptation code. Both run
    in chunks of about a quarter of a second, between which the progress bar moves; the draws do
    not depend on the chunks. The programs are kept with `target`: a second call with the same
    target, settings and shapes compiles nothing, whatever its seed and its numbers of draws and,
    for adaptive kernels of this package, of warm-up steps (as long as the history of the proposal
    stays on one side of 32 MiB, up to which it is kept). A kernel, or a target, that has changed
    since then (a density that reads data which now differ) is compiled anew.

    Args:
      target: one of
        - a log-density, a callable of the state parts [*batch, *event] -> [*batch]; for a state
          that is a dict it is called by keyword;
        - a TFP distribution, above all a joint distribution with its data pinned by
          `experimental_pin`. It is sampled on unconstrained parts, and draws come back in its own
          space, structure and names. A joint distribution without pins is its prior;
        - an Inference Gym model, likewise.
      num_results: draws per chain.
      num_warmup_steps: steps that adapt and are thrown away.
      num_chains: chains to start. Default `None`: those of `initial_state`, or 10 without one.
      initial_state: in the model's own space, one of
        - a state per chain, structure of parts [*batch, *event]: taken as it is;
        - one point, parts [*event]. With `num_chains`, so many chains start within 1 of it in each
          unconstrained coordinate; without, it starts a single chain without chain dimension;
        - `None`, for models: each unconstrained coordinate starts uniform on (-2, 2), or, without
          pins, from exact draws.
        Dispersed starts are drawn again, ever closer to their centre, where the density or its
        gradient is not finite; models with a prior draw every other attempt from it.
      kernel: a `tfp.mcmc.TransitionKernel` on the unconstrained parts, or a callable that makes one
        from their log-density, such as a class or `lambda log_prob: ...`. One with a method
        `frozen` is frozen after warm-up, any other goes on as it is: it must have stopped adapting
        by then, which is checked but for kernels inside `ReplicaExchangeMC`. Default `None`:
        `EntropyAdaptiveHMC` with one leapfrog step and `momentum_refreshment=0.6`.
      dtype: floating dtype that `initial_state` is cast to. Default `None`: its own, or that of the
        model.
      num_steps_between_results: steps thrown away between two draws. Default `None`: as many as the
        chains need. That is none, unless fewer than 5 % of the first `num_results` draws of all
        chains are effective, and less than 400, or R-hat is above 1.01. These draws are then thrown
        away, and others taken with 1, 3, 7, up to 63 steps between them, by the effective size of
        the first. With `until`, which goes on for as long as it takes, none.
      trace_fn: (state, kernel_results) -> nest of tensors to keep with every draw; the state is in
        the model's own space. Default `None`: nothing but the draws.
      until: what is to hold of the draws, such as `Until(max_rhat=1.01, min_ess=400)`: sampling
        goes on until it does, or `max_steps` are taken. Default `None`: `num_results` draws.
      checkpoint: path of a file, such as 'run.h5', to keep the run in while it goes on; the rows
        are appended to a file in the folder 'run.h5.rows'. The same call goes on from there after
        any interruption, to the same draws bit for bit; one with a larger `num_results` or another
        `until` draws more; `initial_state` has no influence any more. Arrays of the result are then
        read-only maps of these files, so that memory stays flat. Needs h5py. Default `None`:
        nothing is written.
      seed: an int or a pair of ints, or anything else that `tfp.random.sanitize_seed` takes. Ints
        make runs reproducible. Default `None`: another run every time, or that of the checkpoint.
      progress: whether to show progress: a bar in terminals and notebooks, else a line at most
        every ten seconds.
      jit_compile: whether to compile with XLA.

    Returns:
      A `SampleRun`. What there is to worry about is also a `SamplingWarning`.

    Raises:
      ImportError: if `checkpoint` is given without h5py.
      OSError: if `checkpoint` cannot be written.
      TypeError: if an argument is of the wrong kind, or is no argument of `sample`.
      ValueError: if a count is out of range, if `initial_state` is missing or does not fit, if the
        density or its gradient is not finite there, if `target` mixes chains, if `kernel` samples
        another density or adapts for longer than the warm-up, if `checkpoint` holds another run, or
        a damaged one, or if code that was given fails; the cause is then in `__cause__`.

    Example:
      >>> run = tfpa.sample(
      ...     target_log_prob_fn, num_results=100, num_warmup_steps=100, num_chains=4,
      ...     initial_state=tf.zeros([3]), seed=1, progress=False)
      >>> run.states.shape
      (100, 4, 3)
    """
    begin = time.perf_counter()
    num_results = arguments.count('num_results', num_results, least=1)
    num_warmup_steps = arguments.count('num_warmup_steps', num_warmup_steps, least=0)
    num_between = num_steps_between_results
    if num_between is not None:
        num_between = arguments.count('num_steps_between_results', num_between, least=0)
    if num_chains is not None:
        num_chains = arguments.count('num_chains', num_chains, least=1)
    arguments.check_flag('progress', progress)
    arguments.check_flag('jit_compile', jit_compile)
    arguments.check_trace_fn(trace_fn)
    dtype, own_seed = arguments.floating_dtype(dtype), arguments.stateless_seed(seed)
    steps_per_draw = (num_between or 0) + 1
    stopping.check(until, num_results, steps_per_draw)
    settings = setups.Settings(kernel, num_warmup_steps, num_between, trace_fn, jit_compile)
    with checkpoint_files.open_store(checkpoint) as store:
        run_seed = store.seed(own_seed, is_given=seed is not None)
        warmup_seed, sampling_seed, start_seed, arrival_seed = _split(run_seed)
        start = find_start(target, initial_state, num_chains, dtype, start_seed)
        setup = setups.find_setup(target, start, settings)
        store.admit(start, setup)
        arrived = setup.arrive(start.state, arrival_seed, num_warmup_steps)
        first = store.restore('warm-up', arrived.position)
        start_seconds = time.perf_counter() - begin
        warmup = _warm_up(setup, first, warmup_seed, num_warmup_steps, store, progress)
        begin = time.perf_counter()
        first = store.restore('sampling', setup.begin_sampling(warmup.position))
        program = setup.make_sampling(warmup.position, first, steps_per_draw)
        start_seconds += time.perf_counter() - begin
        draws, figures, verdict = _draw(
            'sampling', program, first, sampling_seed, start, until, num_results, store, progress
        )
        compile_seconds = warmup.compile_seconds + draws.compile_seconds
        if until is None and num_between is None:
            steps_per_draw = thinning.steps_per_draw(figures, draws.position.num_rows, start)
        if steps_per_draw > program.steps_per_row:
            first = store.restore('thinned', draws.position.anew())
            program = setup.make_sampling(warmup.position, first, steps_per_draw)
            seed = random.fold_in(sampling_seed, steps_per_draw)
            draws, figures, verdict = _draw(
                'thinned', program, first, seed, start, until, num_results, store, progress
            )
            compile_seconds += draws.compile_seconds
        run = outcomes.make_run(
            start.model,
            setup,
            (warmup.position, draws.position),
            (warmup.rows.read(), draws.rows.read()),
            program=program,
            batch_shape=start.batch_shape,
            figures=figures,
            verdict=verdict,
            compile_seconds=compile_seconds,
            start_seconds=start_seconds,
            num_restarts=arrived.num_restarts,
        )
    convergence.emit(run.warnings, stacklevel=3)
    return run


def _warm_up(setup, first, seed, num_steps, store, progress) -> Execution:
    """The warm-up, finished."""
    warmup = Execution(
        'warm-up',
        setup.warmup,
        first,
        seed,
        store.rows('warm-up', setup.warmup.row_specs, num_steps),
        progress=progress,
        store=store,
    )
    with warmup:
        warmup.advance_to(num_steps)
    return warmup


def _draw(label, program, first, seed, start, until, num_results, store, progress):
    """The sampling, finished, with what `diagnose` says of it and the verdict that ended it."""
    rows = store.rows(label, program.row_specs, num_results)
    goals = list(stopping.goals(until, num_results, program.steps_per_row))
    if until is None and first.num_rows > num_results:
        raise ValueError(
            f'`checkpoint` holds {first.num_rows} draws per chain, more than '
            f'num_results={num_results}: ask for at least as many.'
        )
    goals = [goal for goal in goals if goal >= first.num_rows] or [first.num_rows]
    batch_rank = len(start.batch_shape)
    before = tf.nest.flatten(rows.read()) if first.num_rows and progress else None
    draws = Execution(
        label,
        program,
        first,
        seed,
        rows,
        progress=progress,
        store=store,
        figures_fn=rhat_figures(len(tf.nest.flatten(start.state)), batch_rank, before),
    )
    with draws:
        for goal in goals:
            draws.advance_to(goal)
            kept = rows.read()
            states = outcomes.own_states(start.model, kept)
            figures = diagnose(states, batch_rank)
            verdict = stopping.judge(
                until,
                figures,
                states,
                kept[0],
                steps_per_row=program.steps_per_row,
                batch_rank=batch_rank,
                is_last=goal == goals[-1],
            )
            if verdict.is_over:
                break
    return draws, figures, verdict
