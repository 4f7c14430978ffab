"""What is kept of every step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.kernels import SamplerKernel

DIVERGENCE_THRESHOLD = -1000.0
"""A step whose log acceptance ratio lies below this counts as divergent."""

_MAX_LEARNED_BYTES = 2**25
_NESTING_FIELDS = ('inner_results', 'accepted_results')


class DrawStatistics(NamedTuple):
    """How every draw came about; a field is an empty tuple where the kernel does not tell.

    With steps thrown away between two draws, all but `num_gradients` speak of the last step.
    """

    log_prob: Any
    """[num_results, *batch] target log-density of the draw."""
    accept_prob: Any = ()
    """[num_results, *batch] probability with which the step's proposal was accepted."""
    is_divergent: Any = ()
    """[num_results, *batch] bool: a log acceptance ratio below -1000 or not a number."""
    num_gradients: Any = ()
    """[num_results] int: gradients a chain has spent since its kernel was bootstrapped."""
    num_leapfrog_steps: Any = ()
    """[num_results, *batch] int: leapfrog steps of the trajectory, for NUTS."""


class DrawRows(NamedTuple):
    """What is kept of every draw."""

    parts: Any
    """List of unconstrained parts."""
    own: Any
    """List of parts in the model's space; empty if these are the same."""
    statistics: DrawStatistics
    trace: Any
    """What the user's `trace_fn` returns."""

    def states(self, structure: Any) -> Any:
        """The draws in the model's space.

        Args:
          structure: of the model.
        """
        return tf.nest.pack_sequence_as(structure, list(self.own or self.parts))


def find_field(kernel_results: Any, name: str) -> Any:
    """The outermost field of this name in the nested results of any TFP kernel; `None` if absent.

    Args:
      kernel_results: of a step.
      name: such as 'log_accept_ratio'.
    """
    if hasattr(kernel_results, name):
        return getattr(kernel_results, name)
    for nesting in _NESTING_FIELDS:
        if hasattr(kernel_results, nesting):
            return find_field(getattr(kernel_results, nesting), name)
    return None


def draw_statistics(kernel_results: Any) -> DrawStatistics:
    """The statistics of the step that led to `kernel_results`, of any TFP kernel.

    Args:
      kernel_results: results of a kernel that reports `target_log_prob`.
    """
    # the log-density within a `TransformedTransitionKernel` is that of the transformed state
    is_transformed = find_field(kernel_results, 'transformed_state') is not None
    statistics = DrawStatistics(
        log_prob=None if is_transformed else find_field(kernel_results, 'target_log_prob'),
        num_gradients=getattr(find_field(kernel_results, 'info'), 'num_gradients', ()),
    )
    ratio = find_field(kernel_results, 'log_accept_ratio')
    if ratio is not None:
        accept_prob = tf.exp(tf.minimum(ratio, 0))
        statistics = statistics._replace(
            accept_prob=tf.where(tf.math.is_nan(ratio), tf.zeros_like(ratio), accept_prob),
            is_divergent=is_divergent(kernel_results),
        )
    num_leapfrog_steps = find_field(kernel_results, 'leapfrogs_taken')
    if num_leapfrog_steps is not None:
        statistics = statistics._replace(num_leapfrog_steps=num_leapfrog_steps)
    return statistics


def is_divergent(kernel_results: Any) -> Any:
    """[*batch] bool, whether each chain's step diverged; as the kernel reports it, where it does.

    Without gradients nothing is integrated, and a proposal far out is only rejected.

    Args:
      kernel_results: results that have `log_accept_ratio`.
    """
    own = find_field(kernel_results, 'has_divergence')
    if own is not None:
        return own
    ratio = find_field(kernel_results, 'log_accept_ratio')
    if not find_field(kernel_results, 'grads_target_log_prob'):
        return tf.math.is_nan(ratio)
    return tf.math.is_nan(ratio) | (ratio < DIVERGENCE_THRESHOLD)


class WarmupStatistics(NamedTuple):
    """What is kept of every step of the warm-up."""

    info: Any
    """`typing.Info`, or an empty tuple for kernels that have none."""
    preconditioner: Any
    """Parameters of the preconditioner, or an empty tuple where they would not fit."""


def keeps_history(kernel: Any, kernel_results: Any, num_steps: int) -> bool:
    """Whether the history of the preconditioner takes at most 32 MiB.

    So a dense factor in 90 dimensions, or a diagonal in 8,000, can be watched over 1,000 steps.

    Args:
      kernel: the kernel that warms up.
      kernel_results: its first results, or their `tf.TensorSpec`s.
      num_steps: length of the warm-up.
    """
    if not isinstance(kernel, SamplerKernel):
        return False
    leaves = tf.nest.flatten(getattr(kernel_results.adaptation, 'preconditioner', ()))
    history = num_steps * sum(leaf.dtype.size * leaf.shape.num_elements() for leaf in leaves)
    return history <= _MAX_LEARNED_BYTES


def warmup_statistics_fn(kernel: Any, with_history: bool) -> Callable:
    """The trace function of a warm-up: (state, kernel_results) -> `WarmupStatistics`.

    Args:
      kernel: the kernel that warms up.
      with_history: whether to keep the preconditioner of every step.
    """
    if not isinstance(kernel, SamplerKernel):
        return lambda state, results: WarmupStatistics((), ())
    if not with_history:
        return lambda state, results: WarmupStatistics(results.info, ())
    return lambda state, results: WarmupStatistics(
        results.info, getattr(results.adaptation, 'preconditioner', ())
    )
