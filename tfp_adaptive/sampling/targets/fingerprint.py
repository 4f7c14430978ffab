"""A density by its values at a few points: whether it is still the one that was compiled."""

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.targets.model import Model

_SEED = (0x70726F62, 0)  # any constant: the same points in every process
_RADIUS = 0.1
_DISTANCES = (1.0, 10.0, 30.0)
_TOLERANCE = 100
_NUM_CHAINS = 3


@dataclass(frozen=True)
class Fingerprint:
    """A density by its values at a few points.

    Attributes:
      points: parts [*batch, *event].
      log_probs: NumPy array [*batch].
    """

    points: list
    log_probs: np.ndarray

    def mismatch(
        self, model: Model, num_roundings: float = _TOLERANCE
    ) -> tuple[float, float] | None:
        """(log-density then, now) at a point where they differ by more than rounding, or `None`.

        Args:
          model: the target as it is now.
          num_roundings: of each value, that do not count. Default 100, for another process.
        """
        then, now = np.ravel(self.log_probs), np.ravel(_log_probs(model, self.points))
        if then.shape != now.shape:
            return then[0], now[0]
        tolerance = num_roundings * np.finfo(then.dtype).eps
        same = np.isclose(then, now, rtol=tolerance, atol=tolerance, equal_nan=True)
        worst = int(np.argmin(same))
        return None if same.all() else (then[worst], now[worst])


def fingerprint(model: Model, parts: list) -> Fingerprint:
    """The values of the target near a state, computed outside any compiled program.

    Args:
      model: the target.
      parts: unconstrained, [*batch, *event].
    """
    ranks = [len(shape) for shape in model.event_shapes] or [
        max(part.shape.rank - 1, 0) for part in parts
    ]
    for radius in (_RADIUS, _RADIUS**3, 0.0):
        seeds = random.split(tf.constant(_SEED), len(parts))
        points = [
            part + radius * _distances(part, rank) * random.normal(part.shape, seed, part.dtype)
            for part, seed, rank in zip(parts, seeds, ranks, strict=True)
        ]
        try:
            log_probs = _log_probs(model, points)
        except (tf.errors.OpError, TypeError, ValueError):
            # some operations fail as a whole outside the support; at the start itself they do not
            if not radius:
                raise
            continue
        if np.isfinite(log_probs).any():
            break
    return Fingerprint(points, log_probs)


def _distances(part, event_rank):
    """Of every chain, in turn: near points alone do not tell a wide density from a wider one."""
    batch_shape = part.shape[: part.shape.rank - event_rank]
    index = np.arange(math.prod(batch_shape)).reshape([*batch_shape, *[1] * event_rank])
    return tf.constant(np.take(_DISTANCES, index, mode='wrap'), part.dtype)


def _log_probs(model, points) -> np.ndarray:
    """[*batch]; of a model that works on one point at a time, some chains one by one."""
    points = [tf.identity(point) for point in points]
    has_chains = model.is_vectorized and points[0].shape.rank > len(model.event_shapes[0])
    if not has_chains:
        return np.asarray(model.log_prob_fn(*points))
    num_chains = len(points[0])
    chains = [[point[i] for point in points] for i in range(min(num_chains, _NUM_CHAINS))]
    return np.stack([model.log_prob_fn(*chain) for chain in chains])
