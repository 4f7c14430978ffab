"""`sample`: from a target to draws and diagnostics in one call."""

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.internal import arguments, random
from tfp_adaptive.sampling import options
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.findings.convergence import emit
from tfp_adaptive.sampling.findings.outcomes import make_run
from tfp_adaptive.sampling.findings.sample_run import SampleRun
from tfp_adaptive.sampling.kept import kept_with
from tfp_adaptive.sampling.programs.setups import Settings, find_setup
from tfp_adaptive.sampling.running.phases import Seeds, run_phases
from tfp_adaptive.sampling.running.until import Until, check_until
from tfp_adaptive.sampling.storage.checkpoint import open_store
from tfp_adaptive.sampling.targets.models import make_model
from tfp_adaptive.sampling.targets.starts import clear_if_changed, find_start, remember

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
    reparameterize: bool = True,
) -> SampleRun:
    """Adapts, freezes, then draws.

    Warm-up and sampling are two compiled programs; the second holds no adaptation code. Both run in
    chunks of about a quarter of a second, between which the progress bar moves; the draws do not
    depend on the chunks. The programs are kept with `target`: a second call with the same target,
    settings and shapes compiles nothing, whatever its seed and its numbers of draws and, for
    gradient-adaptive kernels, of warm-up steps (the history of the proposal is kept only up to 32
    MiB: a length that takes it beyond this limit, or back, is compiled anew). A kernel, or a
    target, that has changed since then (a density that reads data which now differ) is compiled
    anew.

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
        - a state per chain, structure of parts [*batch, *event]. Chains without a finite density or
          gradient there begin where one of the others does, with a warning;
        - one point, parts [*event]. With `num_chains`, so many chains start within 1 of it in each
          unconstrained coordinate; without, it starts a single chain without chain dimension;
        - `None`, for models: each unconstrained coordinate starts uniform on (-2, 2), or, without
          pins, from exact draws.
        Dispersed starts are drawn again, ever closer to their centre, where the density or its
        gradient is not finite; models with a prior draw every other attempt from it. A warm-up of
        at least 100 steps with the default kernel, or another that learns from scores, begins by
        moving the chains to the typical set; and begins again if some are far below the others at
        its end.
      kernel: a `tfp.mcmc.TransitionKernel` on the unconstrained parts, or a callable that makes one
        from their log-density, such as a class or `lambda log_prob: ...`. One with a method
        `frozen` is frozen after warm-up, any other goes on as it is: it must have stopped adapting
        by then, which is checked but for kernels inside `ReplicaExchangeMC`. Default `None`:
        `EntropyAdaptiveHMC` with `momentum_refreshment=0.6` and one leapfrog step. In 50 dimensions
        or more it starts from the Hessian, if there are at least four chains; and after a warm-up
        of at least 500 steps, if `num_results` is at least 200, the first 200 steps tell whether
        chains mix slowly. If so they are thrown away, and draws take two or three leapfrog steps
        at random, three quarters as long.
      dtype: floating dtype that `initial_state` is cast to. Default `None`: its own, or that of the
        model.
      num_steps_between_results: steps thrown away between two draws. Default `None`: as many as the
        chains need. The first `num_results` draws are kept if they are good (400 effective draws of
        all chains, R-hat at most 1.01), if more than 5 % are effective and R-hat is no larger than
        by chance (1 + 2 C / ESS), or if the chains are in different modes (R-hat above 10).
        Otherwise they are thrown away, and others taken with 1, 3 or 7 steps between them, by how
        much the first ones lack; the default kernel takes half as many steps, of two or three
        leapfrog steps. While that helps and is not enough, another round follows with up
        to eight times as many steps, at most 256. If a chain stayed at one point for 50 draws, the
        default kernel then tries rejected moves once more with a step an eighth as long
        (`proposals.delayed_rejection`), which takes three gradients a leapfrog step, and a draw at
        most 128 such steps. With `until`, which goes on for as long as it takes, none.
      trace_fn: (state, kernel_results) -> nest of tensors to keep with every draw; the state is in
        the model's own space. Default `None`: nothing but the draws.
      until: what is to hold of the draws, such as `Until(max_rhat=1.01, min_ess=400)`: sampling
        goes on until it does, or `max_steps` are taken. Default `None`: `num_results` draws.
      checkpoint: path of a file, such as 'run.npz', to keep the run in while it goes on; the rows
        are appended to a file in the folder 'run.npz.rows'. The same call goes on from there after
        any interruption, to the same draws bit for bit; one with a larger `num_results` or another
        `until` draws more; `initial_state` has no influence any more. Arrays of the result are then
        read-only maps of these files, so that memory stays flat. Default `None`: nothing is
        written.
      seed: an int or a pair of ints, or anything else that `tfp.random.sanitize_seed` takes. Ints
        make runs reproducible. Default `None`: another run every time, or that of the checkpoint.
      progress: whether to show progress: a bar in terminals and notebooks, else a line at most
        every ten seconds.
      jit_compile: whether to compile with XLA. Left out, with a warning, for a target that XLA
        cannot compile, such as a state space model of TFP, or with which it would not come to an
        end on a CPU, such as steps of an ODE written one after another.
      reparameterize: whether a distribution of TFP is sampled in coordinates other than those of
        its bijector. Positive parts are sampled as logarithms. Parts of a joint distribution whose
        location or scale depends on other parts, such as effects of groups, are sampled in
        coordinates that do not narrow with the scale, as far as the data allow: not centred where
        they say little, centred where they say much. Draws come back as the model has them. It
        does nothing to other targets, nor with a kernel that is given ready-made.

    Returns:
      A `SampleRun`. What there is to worry about is also a `SamplingWarning`.

    Raises:
      OSError: if `checkpoint` cannot be written.
      RuntimeError: within a `tf.function`.
      TypeError: if an argument is of the wrong kind, or is no argument of `sample`.
      ValueError: if a count is out of range, if `initial_state` is missing or does not fit, if the
        density or its gradient is finite for no chain, if `target` mixes chains, if `kernel`
        samples another density or adapts for longer than the warm-up, if `checkpoint` holds another
        run, or a damaged one, or if code that was given fails; the cause is then in `__cause__`.

    Example:
      >>> run = tfpa.sample(
      ...     target_log_prob_fn, num_results=100, num_warmup_steps=100, num_chains=4,
      ...     initial_state=tf.zeros([3]), seed=1, progress=False)
      >>> run.states.shape
      (100, 4, 3)
    """
    begin = time.perf_counter()
    if not tf.executing_eagerly():
        raise RuntimeError('`sample` compiles programs of its own: call it outside `tf.function`.')
    num_results = arguments.count('num_results', num_results, least=1)
    num_warmup_steps = arguments.count('num_warmup_steps', num_warmup_steps, least=0)
    num_between = num_steps_between_results
    if num_between is not None:
        num_between = arguments.count('num_steps_between_results', num_between, least=0)
    if num_chains is not None:
        num_chains = arguments.count('num_chains', num_chains, least=1)
    arguments.check_flag('progress', progress)
    arguments.check_flag('jit_compile', jit_compile)
    arguments.check_flag('reparameterize', reparameterize)
    # a kernel that is there already has the coordinates of its density
    is_free = reparameterize and not isinstance(kernel, tfp.mcmc.TransitionKernel)
    arguments.check_trace_fn(trace_fn)
    dtype, own_seed = arguments.floating_dtype(dtype), arguments.stateless_seed(seed)
    check_until(until, num_results, (num_between or 0) + 1)
    settings = Settings(
        kernel, num_warmup_steps, num_results, num_between, trace_fn, until, progress, jit_compile
    )
    with open_store(checkpoint) as store:
        seeds = Seeds(*_split(store.seed(own_seed, is_given=seed is not None)))
        kept = kept_with(target)
        clear_if_changed(target, kept)
        model = make_model(target, initial_state, dtype, is_free, store.coordinates(), kept)
        start = find_start(model, initial_state, num_chains, seeds.start, kept)
        setup = find_setup(start, settings, kept)
        finished = run_phases(setup, store, seeds, begin)
        run = make_run(setup, finished)
        remember(target, kept)
    emit(run.warnings)
    return run
