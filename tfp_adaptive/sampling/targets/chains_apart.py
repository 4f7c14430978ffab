"""Whether the log-density of a chain depends on its own state alone."""

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.targets.density import Density

_SEED = (0x70726F62, 0)  # any constant: the same points in every process
_RADIUS = 0.1
_TOLERANCE = 1e-3
_ROUNDINGS = 30


def check_chains_apart(density: Density, parts: list, log_probs: tf.Tensor) -> None:
    """Refuses a target whose log-density of one chain depends on the other chains.

    Args:
      density: of the target.
      parts: unconstrained, [*batch, *event].
      log_probs: of all chains together, [*batch].

    Raises:
      ValueError: if that of the first chain differs when it is alone, or changes while only the
        other chains move.
    """
    model = density.model
    if not model.event_shapes:
        _check_others_move(density, parts, log_probs)
    elif not model.is_vectorized and log_probs.shape.rank:
        _check_first_alone(model, parts, log_probs)


def _check_first_alone(model, parts, log_probs):
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
        f'{np.array2string(alone.ravel()[:3], precision=6)} alone; sum over event '
        'dimensions alone, or use a JointDistribution...AutoBatched class, which keeps them apart.'
    )


def _check_others_move(density, parts, log_probs):
    first = (0,) * log_probs.shape.rank
    is_first = np.zeros(log_probs.shape, bool)
    is_first[first] = True
    seeds = random.split(tf.constant(_SEED), len(parts))
    moved = [
        tf.where(
            is_first.reshape([*is_first.shape, *[1] * (part.shape.rank - is_first.ndim)]),
            part,
            part
            + _RADIUS * tf.maximum(tf.abs(part), 1) * random.normal(part.shape, seed, part.dtype),
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
        raise ValueError(
            f'`target` gives the first chain a log-density of {before:.6g}, and of {after:.6g} '
            'when nothing but other chains has moved: compute it from the state of its own chain '
            'alone, without sums over chains and without random numbers.'
        )
