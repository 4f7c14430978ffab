"""Whether the log-density of a chain depends on its own state alone."""

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.targets.density import Density

_SEED = (0x70726F62, 0)  # any constant: the same points in every process
_RADIUS = 0.1
_TOLERANCE = 1e-3
_ROUNDINGS = 30
_OF_MODELS = (
    'sum over event dimensions alone, or use a JointDistribution...AutoBatched class, which keeps '
    'them apart'
)
_OF_FUNCTIONS = (
    'compute it from the state of its own chain alone, without sums over chains and without random '
    'numbers'
)


def check_chains_apart(density: Density, parts: list, log_probs: tf.Tensor) -> None:
    """Refuses a target whose log-density of one chain depends on the other chains.

    Args:
      density: of the target.
      parts: unconstrained, [*batch, *event].
      log_probs: of all chains together, [*batch].

    Raises:
      ValueError: if that of the first chain changes while only the other chains move.
    """
    if density.model.is_vectorized:
        return
    first = (0,) * log_probs.shape.rank
    is_first = np.zeros(log_probs.shape, bool)
    is_first[first] = True
    seeds = random.split(tf.constant(_SEED), len(parts))
    moved = [
        tf.where(
            is_first.reshape([*is_first.shape, *[1] * (part.shape.rank - is_first.ndim)]),
            part,
            part + _RADIUS * random.normal(part.shape, seed, part.dtype),
        )
        for part, seed in zip(parts, seeds, strict=True)
    ]
    try:
        log_probs_after = density.evaluate(moved)[0].numpy()
    except (TypeError, ValueError):  # some operations fail as a whole outside the support
        return
    before, after = float(log_probs[first]), float(log_probs_after[first])
    # solvers whose steps suit all chains move a density by less than a share of what the others do
    changes = np.abs(log_probs_after - log_probs.numpy())[~is_first]
    change = np.max(changes[np.isfinite(changes)], initial=0.0)
    rounding = _ROUNDINGS * np.finfo(log_probs_after.dtype).eps * max(abs(before), 1.0)
    if not abs(after - before) <= _TOLERANCE * change + rounding:
        remedy = _OF_MODELS if density.model.event_shapes else _OF_FUNCTIONS
        raise ValueError(
            f'`target` mixes chains: it gives the first one a log-density of {before:.6g}, and of '
            f'{after:.6g} when nothing but other chains has moved; {remedy}.'
        )
