"""What a run leaves behind."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import packing
from tfp_adaptive.sampling import coordinates
from tfp_adaptive.sampling.findings import convergence, export
from tfp_adaptive.sampling.findings.diagnostics import Diagnostics
from tfp_adaptive.sampling.findings.learned import LearnedProposal, learned_proposal
from tfp_adaptive.sampling.findings.summary import Summary, summarise
from tfp_adaptive.sampling.findings.tails import Tail


@dataclass(frozen=True)
class Timings:
    """Wall seconds of a run.

    Attributes:
      compile: of the programs of the warm-up and of sampling.
      warmup: of its steps.
      sampling: of its steps.
      start: before the first step of both: checks of the target, starts of the chains and what
        kernels need before they step; in the first call with a target mostly for tracing it.
    """

    compile: float
    warmup: float
    sampling: float
    start: float


@dataclass(frozen=True)
class SampleRun:
    """Everything a run leaves behind.

    Attributes:
      states: draws, NumPy arrays [num_results, *batch, *event] in the structure of the state.
      trace: what `trace_fn` returned, stacked [num_results, ...].
      warmup_trace: `typing.Info` of the warm-up, each field [num_warmup_steps]; `None` for kernels
        that have none.
      diagnostics: `Diagnostics`.
      timings: `Timings`.
      frozen_kernel: the kernel that made the draws, to go on with.
      final_state: state after the last draw.
      kernel_results: its kernel results.
      warmup_kernel_results: kernel results at the end of warm-up, with everything learned.
      kernel: the kernel that warmed up.
      statistics: `DrawStatistics` of every draw.
      warmup_preconditioner: parameters of the preconditioner after every step of the warm-up, each
        [num_warmup_steps, ...]; an empty tuple where they would take more than 32 MiB.
      names: one name for every part of `states`, or `None` for those the structure gives.
      unconstrained_states: the draws as the sampler made them, before the bijectors of a model;
        those of a log-density callable are `states` themselves. `constrain` leads from others of
        the same kind to the model's space.
      stop_reason: why sampling stopped where it did, in a sentence.
      is_converged: whether `until` was met; `None` for a run without it.
      is_delayed: whether moves that were rejected were tried once more, with a shorter step; see
        `num_steps_between_results` of `sample`.
      has_longer_moves: whether draws took two or three leapfrog steps (two if `is_delayed`), where
        the default kernel has learned with one; see `kernel` of `sample`.
      heaviest_tail: (name, shape, standard error) of the heaviest tail of an unconstrained
        coordinate, which is like x^(-1 / shape), or an exponential if the shape is 0; `None` where
        none is suspicious (no kurtosis above 5, in the space of the model as well), or where the
        chains have not mixed. To tell takes up to 128 gradients a chain for each of three
        coordinates, which are not counted.
      constrain_parts: what `constrain` calls, with unconstrained parts [n, *event]; `None` where
        the spaces are the same.
    """

    states: Any
    trace: Any
    warmup_trace: Any
    diagnostics: Diagnostics
    timings: Timings
    frozen_kernel: Any
    final_state: Any
    kernel_results: Any
    warmup_kernel_results: Any
    kernel: Any = None
    statistics: Any = None
    warmup_preconditioner: Any = ()
    names: Sequence[str] | None = None
    unconstrained_states: Any = None
    stop_reason: str = ''
    is_converged: bool | None = None
    is_delayed: bool = False
    has_longer_moves: bool = False
    heaviest_tail: Tail | None = None
    constrain_parts: Callable | None = None

    def __repr__(self) -> str:
        """What was drawn, and how it went; never the draws themselves."""
        parts = zip(self.part_names, tf.nest.flatten(self.diagnostics.rhat), strict=True)
        shapes = ', '.join(f'{name} {list(np.shape(rhat))}' for name, rhat in parts)
        count = len(self.warnings)
        notice = f'\n{count} warning{"s"[: count > 1]}: see `warnings`' if count else ''
        return f'SampleRun of {shapes}\n{self._title()}{notice}'

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Chain dimensions; () for a single chain without one."""
        return np.shape(self.statistics.log_prob)[1:]

    @property
    def part_names(self) -> list[str]:
        """One name for every part of `states`."""
        return coordinates.part_names(self.states, self.names)

    @functools.cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to worry about, one sentence each, with what to do; empty for a good run.

        Judged are starts without a finite density, draws that are not finite, chains that stand
        still, divergences, a log-density that varies as in funnels (E-BFMI below 0.3), noisy
        estimates of a likelihood, an acceptance rate far from its target, an adaptation that had
        not settled, chains that had not arrived when sampling began, fewer than four draws, R-hat
        above 1.01, effective sample sizes below 400, a log-density that has not
        mixed, tails like a power law, and a run that ended before `until` was met. `sample` emits
        them as `SamplingWarning`.
        """
        return convergence.find_concerns(self)

    @functools.cached_property
    def learned(self) -> LearnedProposal | None:
        """The learned proposal; `None` if it is no linear map, or the kernel does not learn one.

        It is one for the entropy and gradient families, `WindowedHMC`, `WindowedNUTS` and
        `AdaptiveMetropolis`.
        """
        return learned_proposal(self.frozen_kernel, self.layout)

    @property
    def layout(self) -> packing.Layout:
        """How the state, as the sampler sees it, is packed to D coordinates a chain."""
        return packing.make_layout(
            packing.to_parts(self.final_state),
            tf.TensorShape(self.batch_shape),
            packing.part_names(self.final_state),
        )

    @property
    def event_size(self) -> int:
        """D, coordinates of one chain as the sampler sees it."""
        return self.layout.event_size

    def constrain(self, unconstrained_states: Any) -> Any:
        """States in the model's space, such as of chains that go on by `frozen_kernel`.

        The bijector of the target does not lead there where parts have coordinates of their own.

        Args:
          unconstrained_states: with the structure of `final_state`, parts [*batch, *event] with any
            batch shape.

        Returns:
          The structure of `states`, parts [*batch, *event].

        Raises:
          ValueError: if the structure is another one, or the shapes do not fit.

        Example:
          >>> run.constrain(run.final_state).shape
          TensorShape([4, 3])
        """
        shapes = self.layout.event_shapes
        try:
            tf.nest.assert_same_structure(self.final_state, unconstrained_states, check_types=False)
            dtype = tf.nest.flatten(self.final_state)[0].dtype
            parts = [tf.cast(part, dtype) for part in tf.nest.flatten(unconstrained_states)]
            batch_shape = parts[0].shape[: parts[0].shape.rank - len(shapes[0])]
            for part, shape in zip(parts, shapes, strict=True):
                part.shape.assert_is_compatible_with([*batch_shape, *shape])
        except (TypeError, ValueError) as error:
            raise ValueError(
                '`unconstrained_states` must have the structure of `final_state`, as the sampler '
                f'sees it, and events of the shapes {", ".join(map(str, shapes))}.'
            ) from error
        if self.constrain_parts is not None:
            flat = [
                tf.reshape(part, [-1, *shape]) for part, shape in zip(parts, shapes, strict=True)
            ]
            parts = [
                tf.reshape(part, [*batch_shape, *part.shape[1:]])
                for part in self.constrain_parts(flat)
            ]
        return tf.nest.pack_sequence_as(self.states, parts)

    def summary(
        self,
        parts: Sequence[str] | None = None,
        *,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        max_rows: int = 25,
    ) -> Summary:
        """A table of means, spreads and diagnostics with a row for every coordinate.

        Args:
          parts: names of the parts of the state to show. Default `None`: all.
          quantiles: probabilities in [0, 1]. Default (0.05, 0.5, 0.95).
          max_rows: most rows to print, the worst; all are computed. Default 25.

        Returns:
          A `Summary`, which prints as text and, in notebooks, as HTML.

        Raises:
          ValueError: for a part that does not exist, a quantile outside [0, 1], or no rows.

        Example:
          >>> summary = run.summary(max_rows=10)
          >>> len(summary.names)
          3
        """
        return summarise(self, self._title(), parts, quantiles, max_rows)

    def _title(self) -> str:
        num_chains = math.prod(self.batch_shape)
        facts = [
            f'{num_chains} chain{"s"[: num_chains != 1]} of {len(self.statistics.log_prob)} draws',
            f'warm-up {self.timings.warmup:.1f} s',
            f'sampling {self.timings.sampling:.1f} s',
        ]
        if self.diagnostics.accept_prob is not None:
            facts.append(f'acceptance {self.diagnostics.accept_prob:.2f}')
        if self.diagnostics.num_divergences is not None:
            facts.append(f'{self.diagnostics.num_divergences} divergences')
        if self.diagnostics.num_sampling_evaluations is not None:
            facts.append(f'{self.diagnostics.num_sampling_evaluations:,} evaluations a chain')
        return ', '.join(facts)

    def to_arviz(
        self,
        *,
        coords: Mapping[str, Sequence] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
    ) -> Any:
        """The run for ArviZ: its plots, its diagnostics, its NetCDF files.

        Groups: `posterior` holds the draws by name, `sample_stats` what is known of every draw
        (lp, acceptance_rate, diverging, n_steps), `warmup_sample_stats` the adaptation.

        Args:
          coords: {dimension: labels}. Default `None`: 0, 1, ...
          dims: {part: names of its event dimensions}. Default `None`: part_dim_0, ...

        Returns:
          An `arviz.InferenceData`; with ArviZ 1 an `xarray.DataTree`.

        Raises:
          ImportError: without ArviZ.
          ValueError: if `dims` or `coords` do not fit the shapes.

        Example:
          >>> data = run.to_arviz(dims={'x': ['axis']}, coords={'axis': ['a', 'b', 'c']})
          >>> data['posterior']['x'].dims
          ('chain', 'draw', 'axis')
        """
        return export.to_arviz(self, coords=coords or {}, dims=dims or {})
