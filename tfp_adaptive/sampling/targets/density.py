"""A target as a compiled density: its values, its scores, and where both are finite."""

import contextlib
import dataclasses
import re

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling import user_code
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.traced import Traced

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
        ranks = [len(shape) for shape in model.event_shapes] if model.is_vectorized else None
        self.model = dataclasses.replace(model, log_prob_fn=Traced(model.log_prob_fn, ranks))
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
            log_probs, is_finite, _ = self._compiled(parts)
        return log_probs, is_finite.numpy()

    def scores(self, parts: list) -> list[tf.Tensor]:
        """Derivatives of the log-densities by every part, of the shapes of the parts.

        Args:
          parts: of shapes that were evaluated before.
        """
        return self._compiled([tf.convert_to_tensor(part) for part in parts])[2]

    def _evaluate(self, parts):
        parts = [tf.identity(part) for part in parts]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parts)
            log_probs = self.model.log_prob_fn(*parts)
        gradients = tape.gradient(
            log_probs, parts, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        is_finite = tf.math.is_finite(log_probs)
        for part, gradient in zip(parts, gradients, strict=True):
            event_axes = list(range(log_probs.shape.rank, part.shape.rank))
            is_finite &= tf.reduce_all(tf.math.is_finite(gradient), axis=event_axes)
        return log_probs, is_finite, gradients


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
