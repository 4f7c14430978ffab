"""The third stage of `sample`: a kernel on the target as compiled programs.

They are kept with the target for the next run like this one.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfp_adaptive import kernels
from tfp_adaptive.internal import arguments
from tfp_adaptive.kernels.adaptive import GradientAdaptiveKernel
from tfp_adaptive.sampling import user_code
from tfp_adaptive.sampling.compiled import XLA, Compiled
from tfp_adaptive.sampling.kept import Kept
from tfp_adaptive.sampling.programs import where_xla_pays
from tfp_adaptive.sampling.programs.arrival import ArrivalPrograms, make_arrival
from tfp_adaptive.sampling.programs.kernel_choice import check_density, make_kernel
from tfp_adaptive.sampling.programs.moves import LEARNED, Moves
from tfp_adaptive.sampling.programs.programs import Position, Program, make_program
from tfp_adaptive.sampling.programs.statistics import (
    DrawRows,
    draw_statistics,
    keeps_history,
    warmup_statistics_fn,
)
from tfp_adaptive.sampling.signatures import GLOBALS, signature
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.starts import Start


@dataclass(frozen=True)
class Settings:
    """What `sample` was asked for, beside the target and the start.

    Attributes:
      kernel: as `sample` was given it.
      num_warmup_steps: steps that adapt.
      num_results: draws per chain.
      num_between: steps thrown away between two draws; `None`: as many as it takes.
      trace_fn: (state, kernel_results) -> nest, or `None`.
      until: what is to hold of the draws, or `None`.
      progress: whether to show progress.
      jit_compile: whether to compile with XLA.
    """

    kernel: Any
    num_warmup_steps: int
    num_results: int
    num_between: int | None
    trace_fn: Callable | None
    until: Any
    progress: bool
    jit_compile: bool


@dataclass(frozen=True)
class Setup:
    """The kernel of a run, and its programs, each made when it is first asked for.

    Attributes:
      kernel: the one that warms up.
      descriptions: text that tells its settings from others, by their path.
      start: of the chains.
      settings: of the run.
      shared: what runs like this one share, whatever their numbers of draws and seeds.
    """

    kernel: Any
    descriptions: dict[str, str]
    start: Start
    settings: Settings
    shared: dict[Any, Any]

    def _shared(self, key, make):
        if key not in self.shared:
            self.shared[key] = make()
        return self.shared[key]

    @property
    def is_default(self) -> bool:
        """Whether the kernel is the default, which may take other moves than it learned with."""
        return self.settings.kernel is None

    def bootstrap(self, state: Any) -> Any:
        """The first kernel results.

        Args:
          state: of the chains.
        """
        return self._shared('bootstrap', lambda: Compiled(self.kernel.bootstrap_results))(state)

    def begin(self) -> Position:
        """The first position of the warm-up."""
        state = self.start.state
        return Position(state, self.bootstrap(state), num_moved_starts=self.start.num_moved)

    @property
    def arrival(self) -> ArrivalPrograms:
        """What moves the chains to the typical set."""
        return self._shared('arrival', lambda: make_arrival(self.kernel, self.start, self._xla))

    def warmup(self, first: Position) -> Program:
        """The program of the warm-up.

        One serves every length of it; or two, with the history of the preconditioner, and without
        where that would be too long.

        Args:
          first: its first position.
        """
        kernel = self.kernel
        lengths: tuple = ()
        with_history = keeps_history(kernel, first.kernel_results, self.settings.num_warmup_steps)
        if _takes_length(kernel):
            lengths = (tf.cast(kernel.num_adaptation_steps, tf.int32),)
        program = self._shared(
            ('warm-up', with_history),
            lambda: make_program(
                functools.partial(_with_length, kernel),
                warmup_statistics_fn(kernel, with_history),
                (first.state, first.kernel_results),
                steps_per_row=1,
                xla=self._xla,
                arguments=lengths,
            ),
        )
        return program._replace(arguments=lengths)

    def begin_sampling(self, warmup: Position) -> Position:
        """The first position of the sampling.

        Args:
          warmup: the last position of the warm-up.
        """
        kernel, state, results = self.kernel, warmup.state, warmup.kernel_results
        if not hasattr(kernel, 'frozen'):
            return Position(state, results)

        def frozen_results(state, results):
            return kernel.frozen(results).bootstrap_results(state)

        freeze = self._shared('freeze', lambda: Compiled(frozen_results))
        return Position(state, freeze(state, results))

    def freeze(self, warmup: Position, moves: Moves = LEARNED) -> Any:
        """The kernel that samples: frozen if it can be, else the kernel itself.

        Args:
          warmup: its last position.
          moves: that it takes.
        """
        kernel = self.kernel
        frozen = kernel.frozen(warmup.kernel_results) if hasattr(kernel, 'frozen') else kernel
        if moves == LEARNED:
            return frozen
        return frozen.copy(
            proposal=moves.proposal(kernel.parameters['momentum_refreshment']),
            step_size=frozen.parameters['step_size'] * moves.step_share,
        )

    def sampling(
        self, warmup: Position, first: Position, steps_per_draw: int, moves: Moves = LEARNED
    ) -> Program:
        """The program of the draws.

        Args:
          warmup: the last position of the warm-up.
          first: of the draws.
          steps_per_draw: steps taken for each.
          moves: that the kernel takes.
        """
        kernel = self.freeze(warmup, moves)

        def make():
            return make_program(
                lambda: kernel,
                _sampling_trace_fn(self.start.model, self.settings.trace_fn),
                (first.state, first.kernel_results),
                steps_per_row=steps_per_draw,
                xla=self._xla,
            )

        # what ours have learned travels in their results, so one program serves them all
        if kernel is not self.kernel and not _is_ours(kernel):
            return make()
        return self._shared(('sampling', steps_per_draw, moves), make)

    @property
    def _xla(self) -> XLA:
        def make():
            is_wanted, state = self.settings.jit_compile, self.start.state
            return XLA(is_wanted and where_xla_pays.compiles(self.kernel, state))

        return self._shared('xla', make)


def find_setup(start: Start, settings: Settings, kept: Kept) -> Setup:
    """The kernel of a run, with the programs of earlier runs like it.

    Args:
      start: of the chains.
      settings: of the run.
      kept: with the target.

    Raises:
      TypeError: if `kernel` makes no kernel or cannot run on this target and state.
      ValueError: likewise.
    """
    model = start.model
    kernel = make_kernel(settings.kernel, model.log_prob_fn, settings.num_warmup_steps)
    check_density(kernel, model, start.fingerprint)
    leaves = {
        **signature(kernel, 'kernel', target=model.log_prob_fn),
        **signature(settings.trace_fn, 'trace_fn'),
        **signature(
            {
                'num_warmup_steps': settings.num_warmup_steps,
                'num_steps_between_results': settings.num_between,
                'jit_compile': settings.jit_compile,
                'reparameterize': model.is_reparameterized,
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
    # what helpers are made of is told apart in this process, and is no setting of a checkpoint
    descriptions = {
        path: leaf.text for path, leaf in leaves.items() if GLOBALS not in path.split('.')
    }
    shared = kept.get(key)
    setup = Setup(kernel, descriptions, start, settings, {} if shared is None else shared)
    if shared is None:
        _try(setup)
        kept.put(key, setup.shared)
    return setup


def _try(setup):
    """Refuses a kernel or a `trace_fn` that fails, before the warm-up."""
    with user_code.explained('kernel', tf.nest.flatten(setup.start.state)), user_code.renamed():
        first = setup.begin()
    setup.sampling(first, setup.begin_sampling(first), (setup.settings.num_between or 0) + 1)


def _takes_length(kernel):
    """Whether one program serves every length of the adaptation."""
    return isinstance(kernel, GradientAdaptiveKernel) and _is_ours(kernel)


def _is_ours(kernel):
    """Not a subclass from elsewhere, of which a copy may lose something."""
    return type(kernel).__module__.startswith(kernels.__name__)


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
