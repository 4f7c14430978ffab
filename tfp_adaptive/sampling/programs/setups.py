"""The third stage of `sample`: a kernel on the target as compiled programs.

They are kept with the target for the next run like this one.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import arguments
from tfp_adaptive.kernels import FrozenKernel
from tfp_adaptive.kernels.adaptive import GradientAdaptiveKernel
from tfp_adaptive.proposals import delayed_rejection
from tfp_adaptive.sampling import user_code
from tfp_adaptive.sampling.compiled import XLA, Compiled
from tfp_adaptive.sampling.kept import Kept
from tfp_adaptive.sampling.programs import where_xla_pays
from tfp_adaptive.sampling.programs.arrival import make_arrival
from tfp_adaptive.sampling.programs.kernel_choice import check_density, make_kernel
from tfp_adaptive.sampling.programs.programs import Position, Program, make_program
from tfp_adaptive.sampling.programs.signatures import GLOBALS, signature
from tfp_adaptive.sampling.programs.statistics import (
    DrawRows,
    draw_statistics,
    keeps_history,
    warmup_statistics_fn,
)
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.starts import Start


@dataclass(frozen=True)
class Settings:
    """What a run depends on beside the target and the state.

    Attributes:
      kernel: as `sample` was given it.
      num_warmup_steps: steps that adapt.
      num_steps_between_results: steps thrown away between two draws; `None`: as many as it takes.
      trace_fn: (state, kernel_results) -> nest, or `None`.
      jit_compile: whether to compile with XLA.
    """

    kernel: Any
    num_warmup_steps: int
    num_steps_between_results: int | None
    trace_fn: Callable | None
    jit_compile: bool


@dataclass(frozen=True)
class Setup:
    """Everything of a run that another run with the same arguments shares.

    All but `kernel`, `descriptions` and `warmup` serve any length of the warm-up.

    Attributes:
      kernel: the one that warms up.
      descriptions: text that tells its settings from others, by their path.
      begin: (state, chains whose start was moved) -> first position of the warm-up.
      arrive: (that, seed, number of warm-up steps) -> the same in the typical set.
      make_warmup: (kernel, number of steps) -> program of the warm-up.
      warmup: the one of this kernel and number of steps.
      begin_sampling: last position of the warm-up -> first position of the sampling.
      make_sampling: (last position of the warm-up, any of the sampling, steps per draw,
        is_delayed=False) -> program.
      can_delay: whether the kernel is the default, which may try rejected moves once more.
    """

    kernel: Any
    descriptions: dict[str, str]
    begin: Callable[[Any, int], Position]
    arrive: Callable[[Position, Any, int], Position]
    make_warmup: Callable[[Any, int], Program]
    warmup: Program
    begin_sampling: Callable[[Position], Position]
    make_sampling: Callable[..., Program]
    can_delay: bool

    def freeze(self, warmup: Position, is_delayed: bool = False) -> Any:
        """The kernel that samples: frozen if it can be, else the kernel itself.

        Args:
          warmup: its last position.
          is_delayed: whether moves that are rejected are tried once more.
        """
        return _freeze(self.kernel, warmup, is_delayed)


def find_setup(start: Start, settings: Settings, kept: Kept) -> Setup:
    """The setup of an earlier run like this one, whatever its length of the warm-up, or a new one.

    Args:
      start: of the chains.
      settings: of the run.
      kept: with the target.

    Raises:
      TypeError: if `kernel` makes no kernel or cannot run on this target and state.
      ValueError: likewise.
    """
    model = start.model
    kernel = make_kernel(
        settings.kernel, model.log_prob_fn, settings.num_warmup_steps, start.event_size
    )
    check_density(kernel, model, start.fingerprint)
    leaves = {
        **signature(kernel, 'kernel', target=model.log_prob_fn),
        **signature(settings.trace_fn, 'trace_fn'),
        **signature(
            {
                'num_warmup_steps': settings.num_warmup_steps,
                'num_steps_between_results': settings.num_steps_between_results,
                'jit_compile': settings.jit_compile,
            },
            'settings',
        ),
    }
    # the program of the warm-up takes them as an argument
    lengths = {'settings.num_warmup_steps', 'kernel.num_adaptation_steps'}
    fixed = {
        path: leaf
        for path, leaf in leaves.items()
        if not _takes_length(kernel) or path not in lengths
    }
    shapes = tuple((part.shape, part.dtype) for part in tf.nest.flatten(start.state))
    key = (start.key, shapes, tuple(sorted(fixed.items(), key=lambda item: item[0])))
    found = kept.get(key)
    # what helpers are made of is told apart in this process, and is no setting of a checkpoint
    descriptions = {
        path: leaf.text for path, leaf in leaves.items() if GLOBALS not in path.split('.')
    }
    if found is None:
        return kept.put(key, _make_setup(kernel, descriptions, start, settings))
    return dataclasses.replace(
        found,
        kernel=kernel,
        descriptions=descriptions,
        warmup=found.make_warmup(kernel, settings.num_warmup_steps),
    )


def _takes_length(kernel):
    """Whether one program serves every length of the adaptation.

    Not for subclasses from elsewhere, of which a copy may lose something.
    """
    own = GradientAdaptiveKernel.__module__.rpartition('.')[0]
    return isinstance(kernel, GradientAdaptiveKernel) and type(kernel).__module__.startswith(own)


def _freeze(kernel, warmup, is_delayed):
    frozen = kernel.frozen(warmup.kernel_results) if hasattr(kernel, 'frozen') else kernel
    if not is_delayed:
        return frozen
    num_leapfrog_steps = kernel.parameters['num_leapfrog_steps']
    return frozen.copy(proposal=delayed_rejection(num_leapfrog_steps))


def _make_setup(kernel, descriptions, start, settings):
    xla = XLA(settings.jit_compile and where_xla_pays.compiles(kernel, start.state))
    can_freeze = hasattr(kernel, 'frozen')
    bootstrap = Compiled(kernel.bootstrap_results)
    with user_code.explained('kernel', tf.nest.flatten(start.state)), user_code.renamed():
        first = Position(start.state, bootstrap(start.state))

    def begin(state, num_moved_starts):
        return Position(state, bootstrap(state), num_moved_starts=num_moved_starts)

    @Compiled
    def freeze_results(kernel_results, state):
        return kernel.frozen(kernel_results).bootstrap_results(state)

    def begin_sampling(warmup):
        results = warmup.kernel_results
        results = freeze_results(results, warmup.state) if can_freeze else results
        return Position(warmup.state, results)

    trace_fn = _sampling_trace_fn(start.model, settings.trace_fn)
    make_sampling = _sampling_maker(kernel, trace_fn, xla)
    # a `trace_fn` that fails is to do so before the warm-up
    make_sampling(first, begin_sampling(first), (settings.num_steps_between_results or 0) + 1)
    make_warmup = _warmup_maker(first, xla)
    return Setup(
        kernel=kernel,
        descriptions=descriptions,
        begin=begin,
        arrive=make_arrival(kernel, bootstrap, start, xla),
        make_warmup=make_warmup,
        warmup=make_warmup(kernel, settings.num_warmup_steps),
        begin_sampling=begin_sampling,
        make_sampling=make_sampling,
        can_delay=settings.kernel is None,
    )


def _warmup_maker(first: Position, xla: XLA) -> Callable[[Any, int], Program]:
    """(kernel, number of steps) -> program of the warm-up.

    Two serve all numbers of steps: with the history of the preconditioner, and without where it
    would be too long.
    """
    specs = tf.nest.map_structure(tf.type_spec_from_value, (first.state, first.kernel_results))
    programs: dict[bool, Program] = {}

    def make_warmup(kernel, num_steps):
        with_history = keeps_history(kernel, specs[1], num_steps)
        lengths: tuple = ()
        if _takes_length(kernel):
            lengths = (tf.cast(kernel.num_adaptation_steps, tf.int32),)
        if with_history not in programs:
            programs[with_history] = make_program(
                functools.partial(_with_length, kernel),
                warmup_statistics_fn(kernel, with_history),
                specs,
                steps_per_row=1,
                xla=xla,
                arguments=lengths,
            )
        return programs[with_history]._replace(arguments=lengths)

    return make_warmup


def _sampling_maker(kernel, trace_fn, xla: XLA) -> Callable[..., Program]:
    """(last position of the warm-up, any of the sampling, steps a draw, is_delayed) -> program."""
    shared: dict[tuple[int, bool], Program] = {}

    def make_sampling(warmup, position, steps_per_draw, is_delayed=False):
        frozen_kernel = _freeze(kernel, warmup, is_delayed)

        def make():
            return make_program(
                lambda: frozen_kernel,
                trace_fn,
                (position.state, position.kernel_results),
                steps_per_row=steps_per_draw,
                xla=xla,
            )

        # what a FrozenKernel has learned travels in its results, so one program serves them all
        if frozen_kernel is not kernel and not isinstance(frozen_kernel, FrozenKernel):
            return make()
        key = steps_per_draw, is_delayed
        if key not in shared:
            shared[key] = make()
        return shared[key]

    return make_sampling


def _with_length(kernel, num_adaptation_steps=None):
    if num_adaptation_steps is None:
        return kernel
    return kernel.copy(num_adaptation_steps=num_adaptation_steps)


def _sampling_trace_fn(model: Model, trace_fn: Callable | None) -> Callable:
    """(state, kernel results) -> `DrawRows`."""

    def trace(state, kernel_results):
        parts = tf.nest.flatten(state)
        own = model.constrain(parts) if model.constrain else []
        statistics = draw_statistics(kernel_results)
        if statistics.log_prob is None:
            statistics = statistics._replace(log_prob=model.log_prob_fn(*parts))
        users = ()
        if trace_fn is not None:
            own_state = tf.nest.pack_sequence_as(model.structure, own or parts)
            with user_code.explained('trace_fn'):
                users = arguments.traced_tensors(trace_fn(own_state, kernel_results))
        return DrawRows(parts, own, statistics, users)

    return trace
