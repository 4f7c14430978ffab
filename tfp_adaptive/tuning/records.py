"""The records of the tuning axes: what a rule of the step size, of the metric and of the time is.

Notation (shapes: C chains, D event size after packing):
    eps   step size;  a  mean acceptance probability of a step, over chains
    C     factor of the metric, with C C^T the learned inverse mass
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tfp_adaptive.typing import Preconditioner, Tensor


class StepSizeRule(NamedTuple):
    """A pure state machine that steers the step size by the acceptance probability."""

    init: Callable[[Tensor], Any]
    """log eps, a scalar -> state."""
    update: Callable[[Any, Tensor], Any]
    """(state, a) -> state after a step that was accepted with probability a."""
    current: Callable[[Any], Tensor]
    """state -> log eps of the next step while the rule is at work."""
    learned: Callable[[Any], Tensor]
    """state -> log eps to keep when it stops."""


class MetricEstimator(NamedTuple):
    """An estimate of the metric from sums over draws, which replicas may pool."""

    preconditioner: Preconditioner
    """The family of C."""
    init: Callable[[int, Any], Any]
    """(event_size, dtype) -> state without a draw."""
    collect: Callable[[Any, Tensor, Tensor, Tensor], Any]
    """(state, position [C, D], score [C, D], is_alive [C]) -> sums over the chains alive."""
    absorb: Callable[[Any, Any], Any]
    """(state, sums, pooled or not) -> state."""
    restart: Callable[[Any], Any]
    """state -> state without a draw, for the next window."""
    unit: Callable[[int, Any], Any]
    """(event_size, dtype) -> parameters of C = I."""
    factor: Callable[[Any], Any]
    """state -> parameters of C."""
    scale: Callable[[Any, Tensor], Any]
    """(parameters of C, eps) -> parameters of eps C."""
    inverse_transpose: Callable[[Any, Tensor], Tensor]
    """(parameters of C, x [M, D]) -> C^-T x, row by row."""


class Plan(NamedTuple):
    """What each adaptation step is for; NumPy arrays [num_adaptation_steps]."""

    collects: np.ndarray
    """bool: whether the draw after the step counts for the metric."""
    ends_window: np.ndarray
    """bool: whether the metric is renewed after the step."""


class Schedule(NamedTuple):
    """When the metric is estimated."""

    plan: Callable[[int], Plan]
    """num_adaptation_steps -> plan."""
