"""A log-density that is traced once for all programs, each of which calls it as a function.

`sample` makes up to ten programs, and some hold the density five times. To trace a joint
distribution with its gradient takes about a second each time, longer than XLA needs to compile what
comes of it: ten chains of the eight schools wait 8 s for all traces, and 22 s without this.

A density that holds a loop is traced in each program all the same: XLA differentiates a loop only
where that was traced for XLA, and not within a function. Where such a density was written for one
chain, XLA on a CPU is given its chains in turn.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import graphs
from tfp_adaptive.sampling import cholesky
from tfp_adaptive.sampling.targets import in_turn


class Traced:
    """A log-density of parts; calls within programs share a trace for every shape of the parts."""

    def __init__(self, fn: Callable, event_ranks: Sequence[int] | None = None):
        """Initializes this density.

        Args:
          fn: of parts [*batch, *event]. Outside of programs it is called as it is.
          event_ranks: of the parts of a density that was written for one chain and is mapped over
            several. Default `None`: it was written for several.
        """
        self._fn, self._event_ranks = fn, event_ranks
        self._traces: dict[tuple, Any] = {}

    def __reduce__(self):
        return Traced, (self._fn, self._event_ranks)

    def __call__(self, *parts: Any) -> Any:
        """The log-densities [*batch].

        Args:
          *parts: [*batch, *event].
        """
        if tf.executing_eagerly():
            return self._fn(*parts)
        parts = tuple(tf.convert_to_tensor(part) for part in parts)
        if not all(part.shape.is_fully_defined() for part in parts):
            return self._fn(*parts)
        graph = self.graph(parts)
        if not graphs.holds(graph, graphs.LOOPS):
            return self._trace(parts)(*parts)
        is_refused = cholesky.is_for_xla() and graphs.holds_nested_lists(graph)
        if self._event_ranks and is_refused:
            return in_turn.log_density(self._fn, parts, parts[0].shape.rank - self._event_ranks[0])
        return self._checked(*parts)

    def graph(self, parts: Sequence) -> tf.Graph:
        """What it is computed from.

        Args:
          parts: tensors [*batch, *event], for their shapes.
        """
        return self._trace(parts).graph

    def _trace(self, parts):
        specs = tuple(tf.TensorSpec(part.shape, part.dtype) for part in parts)
        if not cholesky.is_for_xla():
            return self._kept(specs, False)
        # without a factor there is nothing that a trace for XLA would do differently
        plain = self._traces.get((specs, False))
        is_same = plain is not None and not graphs.holds(plain.graph, {'Cholesky'})
        return self._kept(specs, not is_same)

    def _kept(self, specs, is_for_xla):
        key = specs, is_for_xla
        if key not in self._traces:
            function = tf.function(self._checked, autograph=False)
            self._traces[key] = function.get_concrete_function(*specs)
        return self._traces[key]

    def _checked(self, *parts):
        return _checked(self._fn(*parts), parts)


def _checked(log_probs: Any, parts: tuple) -> tf.Tensor:
    """The log-densities as a tensor [*batch] of the parts' dtype."""
    if not tf.is_tensor(log_probs):
        raise TypeError(
            '`target` must return a tensor of log-densities, computed from its state with '
            f'TensorFlow operations; got {type(log_probs).__name__}.'
        )
    if log_probs.dtype != parts[0].dtype:
        found = log_probs.dtype.name
        hint = f', or pass dtype=tf.{found}' if found in ('float32', 'float64') else ''
        raise TypeError(
            f'`target` must return the dtype of its state; got {found} for a state of '
            f'{parts[0].dtype.name}: cast its result{hint}.'
        )
    shape = log_probs.shape
    if shape.rank is None:
        raise ValueError(
            '`target` must return a tensor of statically known rank, the number of chain '
            'dimensions; use tf.ensure_shape on its result.'
        )
    for index, part in enumerate(parts):
        if part.shape[: shape.rank] != shape:
            raise ValueError(
                '`target` must return one log-density per chain, with the leading (chain) '
                f'dimensions of every part of the state; it returned shape {shape} for part '
                f'{index} of shape {part.shape}: sum it over all event dimensions.'
            )
        if 0 in part.shape:
            raise ValueError(
                '`initial_state` must hold at least one chain and one coordinate; part '
                f'{index} has shape {part.shape}.'
            )
    return log_probs
