"""`sample`: from a target to draws and diagnostics in one call."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.internal import random
from tfp_adaptive.sampling import convergence, outcomes, phases, setups
from tfp_adaptive.sampling.initial import find_start
from tfp_adaptive.sampling.phases import Position
from tfp_adaptive.sampling.progress import make_reporter
from tfp_adaptive.sampling.rows import MemoryRows
from tfp_adaptive.sampling.run import SampleRun


def sample(
    target: Any,
    num_results: int = 1000,
    num_warmup_steps: int = 1000,
    num_chains: int | None = None,
    *,
    initial_state: Any = None,
    kernel: Any = None,
    dtype: Any = None,
    num_steps_between_results: int = 0,
    trace_fn: Callable | None = None,
    seed: Any = None,
    progress: bool = True,
    jit_compile: bool = True,
) -> SampleRun:
    """Adapts, freezes, then draws.

    Warm-up and sampling are two compiled programs; the second holds no adaptation code. Both run
    in chunks of about a quarter of a second, between which the progress bar moves; the draws do
    not depend on the chunks. The programs are kept with `target`: a second call with the same
    target, settings and shapes compiles nothing. A kernel, or a target, that has changed since
    then (a density that reads data which now differ) is compiled anew.

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
        `frozen` is frozen after warm-up, any other goes on as it is. Default `None`:
        `EntropyAdaptiveHMC` with one leapfrog step and `momentum_refreshment=0.6`.
      dtype: floating dtype that `initial_state` is cast to. Default `None`: its own, or that of the
        model.
      num_steps_between_results: steps thrown away between two draws, to save memory. Default 0.
      trace_fn: (state, kernel_results) -> nest of tensors to keep with every draw; the state is in
        the model's own space. Default `None`: nothing but the draws.
      seed: an int or a pair of ints, or anything else that `tfp.random.sanitize_seed` takes. Ints
        make runs reproducible. Default `None`: another run every time.
      progress: whether to show progress: a bar in terminals and notebooks, else a line at most
        every ten seconds.
      jit_compile: whether to compile with XLA.

    Returns:
      A `SampleRun`. What there is to worry about is also a `SamplingWarning`.

    Raises:
      TypeError: if `target` is no target, `kernel` makes no kernel, or dtypes are not floating or
        differ.
      ValueError: if a count is out of range, if `initial_state` is missing or does not fit, if the
        density or its gradient is not finite there, or if `kernel` adapts for longer than the
        warm-up.

    Example:
      >>> run = tfpa.sample(
      ...     target_log_prob_fn, num_results=100, num_warmup_steps=100, num_chains=4,
      ...     initial_state=tf.zeros([3]), seed=1, progress=False)
      >>> run.states.shape
      (100, 4, 3)
    """
    _check_count('num_results', num_results, least=1)
    _check_count('num_warmup_steps', num_warmup_steps, least=0)
    _check_count('num_steps_between_results', num_steps_between_results, least=0)
    if num_chains is not None:
        _check_count('num_chains', num_chains, least=1)
    warmup_seed, sampling_seed, start_seed = random.split(_stateless_seed(seed), 3)
    start = find_start(target, initial_state, num_chains, dtype, start_seed)
    settings = setups.Settings(
        kernel, num_warmup_steps, num_steps_between_results, trace_fn, jit_compile
    )
    setup = setups.find_setup(target, start, settings)
    warmup, warmup_rows, warmup_compilation = _run_phase(
        'warm-up',
        setup.warmup,
        Position(start.state, setup.bootstrap(start.state)),
        warmup_seed,
        num_warmup_steps,
        progress,
    )
    kernel_results = setup.freeze(warmup.kernel_results, warmup.state)
    program = setup.make_sampling(
        setups.freeze(setup.kernel, warmup.kernel_results), warmup.state, kernel_results
    )
    draws, draw_rows, compilation = _run_phase(
        'sampling',
        program,
        Position(warmup.state, kernel_results),
        sampling_seed,
        num_results,
        progress,
    )
    run = outcomes.make_run(
        start.model,
        setup,
        (warmup, draws),
        (warmup_rows.read(), draw_rows.read()),
        program=program,
        batch_shape=start.batch_shape,
        compile_seconds=warmup_compilation + compilation,
    )
    convergence.emit(run.warnings)
    return run


def _run_phase(label, program, position, seed, num_rows, progress):
    """(position after `num_rows` rows, the rows, seconds spent compiling)."""
    rows = MemoryRows(program.row_specs, num_rows)
    if not num_rows:
        return position, rows, 0.0
    steps_per_row = program.steps_per_row
    with make_reporter(label, num_rows * steps_per_row, progress) as report:
        before = time.perf_counter()
        if program.advance.is_new:
            report.compiling()
        phases.compile_program(program, position, seed)
        compile_seconds = time.perf_counter() - before
        report.begin(0)

        def keep(leaves, position):
            rows.append(leaves)
            num_steps = position.num_rows * steps_per_row
            figures = {}
            if program.has_acceptance:
                figures['acceptance'] = position.accept_prob / num_steps
            report.advance(num_steps, figures)

        position = phases.advance(program, position, seed, num_rows, keep)
    return position, rows, compile_seconds


def _stateless_seed(seed):
    """int32 [2]; an int, which TFP would use to seed a stateful generator, by its two halves."""
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        halves = np.array([(int(seed) >> 32) & 0xFFFFFFFF, int(seed) & 0xFFFFFFFF], np.uint32)
        return tf.constant(halves.view(np.int32))
    return tfp.random.sanitize_seed(seed)


def _check_count(name, value, least):
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f'`{name}` must be an int of at least {least}; got {value!r}.')
