"""The target as a compiled density: its value, where it is finite, whether it is well formed."""

import contextlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.targets import user_code
from tfp_adaptive.sampling.targets.model import Model

_PROBE_SEED = (0x70726F62, 0)  # any constant: the same points in every process
_PROBE_RADIUS = 0.1
_PROBE_TOLERANCE = 100
_PROBE_CHAINS = 3
_MIXING_TOLERANCE = 1e-3

_SHAPES = 'write it for parts of shape [*chains, *event], or change the shapes of `initial_state`'
_MODEL_SHAPES = (
    'see that the shapes of its data and pins fit, and use the JointDistribution...AutoBatched '
    'class, which keeps chains apart'
)


@dataclass(frozen=True)
class Fingerprint:
    """A density by its values at a few points.

    Attributes:
      points: parts [*batch, *event].
      log_probs: NumPy array [*batch].
    """

    points: list
    log_probs: np.ndarray

    def mismatch(self, model: Model) -> tuple[float, float] | None:
        """(log-density then, now) at a point where they differ by more than rounding, or `None`.

        Args:
          model: the target as it is now.
        """
        then, now = np.ravel(self.log_probs), np.ravel(_log_probs(model, self.points))
        if then.shape != now.shape:
            return then[0], now[0]
        tolerance = _PROBE_TOLERANCE * np.finfo(then.dtype).eps
        scale = np.max(np.abs(then[np.isfinite(then)]), initial=1.0)
        same = np.isclose(then, now, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
        worst = int(np.argmin(same))
        return None if same.all() else (then[worst], now[worst])


def fingerprint(model: Model, parts: list) -> Fingerprint:
    """The values of the target near a state, computed outside any compiled program.

    Args:
      model: the target.
      parts: unconstrained, [*batch, *event].
    """
    for radius in (_PROBE_RADIUS, _PROBE_RADIUS**3, 0.0):
        seeds = random.split(tf.constant(_PROBE_SEED), len(parts))
        points = [
            part + radius * random.normal(part.shape, seed, part.dtype)
            for part, seed in zip(parts, seeds, strict=True)
        ]
        log_probs = _log_probs(model, points)
        if np.isfinite(log_probs).any():
            break
    return Fingerprint(points, log_probs)


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


def check_start(is_finite: np.ndarray) -> None:
    """Refuses chains that start where the density or its gradient is not finite.

    Args:
      is_finite: [*batch] bool.

    Raises:
      ValueError: if there are any.
    """
    if is_finite.all():
        return
    bad = np.argwhere(~np.atleast_1d(is_finite))
    raise ValueError(
        f'the log-density or its gradient is not finite at `initial_state` for {len(bad)} of '
        f'{is_finite.size} chains, first for chain {tuple(bad[0].tolist())}: start inside the '
        'support, where the density is finite and smooth.'
    )


def check_chains_apart(model: Model, parts: list, log_probs: tf.Tensor) -> None:
    """Refuses a model whose log-density of one chain depends on the other chains.

    Args:
      model: the target.
      parts: unconstrained, [*batch, *event].
      log_probs: of all chains together, [*batch].

    Raises:
      ValueError: if that of the first chain differs when it is alone.
    """
    if not model.needs_batch_check or not log_probs.shape.rank:
        return
    alone = np.asarray(model.log_prob_fn(*[part[:1] for part in parts]))
    together = log_probs[:1].numpy()
    tolerance = 1e3 * np.finfo(together.dtype).eps
    if alone.shape == together.shape and np.allclose(
        alone, together, rtol=tolerance, atol=tolerance
    ):
        return
    raise ValueError(
        '`target` mixes chains: the log-density of the first chain is '
        f'{together.flat[0]:.6g} among {len(log_probs)} chains and '
        f'{np.array2string(alone.ravel()[:3], precision=6)} alone; use the '
        'JointDistribution...AutoBatched class, which keeps them apart.'
    )


def check_own_state(density: Density, parts: list, log_probs: tf.Tensor) -> None:
    """Refuses a log-density callable that depends on anything but the state of its own chain.

    Args:
      density: the target.
      parts: unconstrained, [*batch, *event].
      log_probs: of all chains together, [*batch].

    Raises:
      ValueError: if that of the first chain changes while only the other chains move.
    """
    if density.model.event_shapes:
        return
    first = (0,) * log_probs.shape.rank
    is_first = np.zeros(log_probs.shape, bool)
    is_first[first] = True
    seeds = random.split(tf.constant(_PROBE_SEED), len(parts))
    moved = [
        tf.where(
            is_first.reshape([*is_first.shape, *[1] * (part.shape.rank - is_first.ndim)]),
            part,
            part + _PROBE_RADIUS * random.normal(part.shape, seed, part.dtype),
        )
        for part, seed in zip(parts, seeds, strict=True)
    ]
    try:
        after = float(density.evaluate(moved)[0][first])
    except (TypeError, ValueError):  # some operations fail as a whole outside the support
        return
    before = float(log_probs[first])
    # solvers whose steps suit all chains move a density by less
    if not np.isclose(before, after, rtol=_MIXING_TOLERANCE, atol=_MIXING_TOLERANCE):
        raise ValueError(
            f'`target` gives the first chain a log-density of {before:.6g}, and of {after:.6g} '
            'when nothing but other chains has moved: compute it from the state of its own chain '
            'alone, without sums over chains and without random numbers.'
        )


def _log_probs(model, points) -> np.ndarray:
    """[*batch]; of a model that works on one point at a time, some chains one by one."""
    points = [tf.identity(point) for point in points]
    has_chains = model.is_vectorized and points[0].shape.rank > len(model.event_shapes[0])
    if not has_chains:
        return np.asarray(model.log_prob_fn(*points))
    num_chains = len(points[0])
    chains = [[point[i] for point in points] for i in range(min(num_chains, _PROBE_CHAINS))]
    return np.stack([model.log_prob_fn(*chain) for chain in chains])


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
