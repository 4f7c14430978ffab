"""A target as a compiled density: its values, and where they are finite."""

import contextlib
import re
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling import user_code
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.targets.model import Model

_SHAPES = 'write it for parts of shape [*chains, *event], or change the shapes of `initial_state`'
_MODEL_SHAPES = (
    'see that the shapes of its data and pins fit, and use the JointDistribution...AutoBatched '
    'class, which keeps chains apart'
)


class Density:
    """The log-density of unconstrained parts, compiled once for every shape."""

    def __init__(self, model: Model):
        """Initializes this density.

        Args:
          model: the target.
        """
        self.model = model
        self._compiled = Compiled(self._evaluate)

    def evaluate(self, parts: list) -> tuple[tf.Tensor, np.ndarray]:
        """Log-densities, and whether they and all their derivatives are finite.

        Args:
          parts: unconstrained, [*batch, *event].

        Returns:
          log_probs: tensor [*batch].
          is_finite: array [*batch] of bool.

        Raises:
          TypeError: if the target returns no tensor, or one of another dtype than its state.
          ValueError: if it does not return one value per chain.
        """
        shapes = _MODEL_SHAPES if self.model.event_shapes else _SHAPES
        with user_code.explained('target', parts, shapes=shapes), _dtypes_explained(parts):
            log_probs, is_finite = self._compiled(parts)
        return log_probs, is_finite.numpy()

    def _evaluate(self, parts):
        parts = [tf.identity(part) for part in parts]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parts)
            log_probs = _checked(self.model.log_prob_fn(*parts), parts)
        gradients = tape.gradient(
            log_probs, parts, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        is_finite = tf.math.is_finite(log_probs)
        for part, gradient in zip(parts, gradients, strict=True):
            gradient = tf.convert_to_tensor(gradient)
            event_axes = list(range(log_probs.shape.rank, part.shape.rank))
            is_finite &= tf.reduce_all(tf.math.is_finite(gradient), axis=event_axes)
        return log_probs, is_finite


def _checked(log_probs: Any, parts: list) -> tf.Tensor:
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


@contextlib.contextmanager
def _dtypes_explained(parts):
    """Says what to do if a target trips over the dtype of its state."""
    dtype = parts[0].dtype
    other, alias = ('float32', 'float') if dtype == tf.float64 else ('float64', 'double')
    try:
        yield
    except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
        if user_code.is_ours(error) or not re.search(f'{other}|{alias} tensor', str(error)):
            raise
        raise TypeError(
            f'`target` fails on a state of {dtype.name}, mixing it with {other}: pass '
            f'dtype=tf.{other}, or build `target` in {dtype.name}.'
        ) from error
