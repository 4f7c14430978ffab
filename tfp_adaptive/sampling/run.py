"""What a run leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfp_adaptive.sampling.diagnostics import Diagnostics


@dataclass(frozen=True)
class Timings:
    """Wall seconds of a run, compilation apart."""

    compile: float
    warmup: float
    sampling: float


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
