"""Dispersed starts where the density and its gradient are finite."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.targets.density import Density

_RADIUS_AROUND_ZERO = 2.0
_RADIUS_AROUND_POINT = 1.0
_SHRINKAGE = 0.7
_MAX_ROUNDS = 40


def dispersed(density: Density, num_chains: int, seed: Any, around: list | None = None) -> list:
    """Dispersed unconstrained starts where the density and its gradient are finite.

    Each coordinate is uniform on (-2, 2), or within 1 of the point given. Chains without a finite
    density are drawn again, nearer to the centre each time, or every other time from the prior of
    the model; a target that is its own prior starts from exact draws.

    Args:
      density: the target.
      num_chains: C.
      seed: int32 [2].
      around: unconstrained parts [*event] of the centre; default: zero.

    Returns:
      Parts [C, *event].

    Raises:
      ValueError: if some chain has found no finite density in 40 rounds.
    """
    model = density.model
    prior = model.prior if around is None else None
    radius = _RADIUS_AROUND_ZERO if around is None else _RADIUS_AROUND_POINT
    centre = around or [tf.zeros(shape, model.dtype) for shape in model.event_shapes]
    parts: list = []
    is_finite = np.zeros([num_chains], bool)
    for attempt in range(_MAX_ROUNDS):
        seed_now = random.fold_in(seed, tf.constant(attempt))
        if prior is not None and attempt % 2 == (0 if model.is_prior else 1):
            fresh = model.unconstrain(prior(num_chains, seed_now))
        else:
            fresh = _near(centre, radius, num_chains, seed_now)
            radius *= _SHRINKAGE
        parts = fresh if not parts else _where(is_finite, parts, fresh)
        _, is_finite = density.evaluate(parts)
        if is_finite.all():
            return parts
    raise ValueError(
        f'no start with a finite density and gradient was found for {np.sum(~is_finite)} of '
        f'{num_chains} chains: pass `initial_state`, a point or one point per chain inside the '
        'support of `target`, and look for NaN in its data.'
    )


def _near(centre, radius, num_chains, seed):
    seeds = random.split(seed, len(centre))
    return [
        part + radius * (2 * random.uniform([num_chains, *part.shape], seed, part.dtype) - 1)
        for part, seed in zip(centre, seeds, strict=True)
    ]


def _where(mask, yes, no):
    """Chain by chain: mask [C], parts [C, *event]."""
    return [
        tf.where(np.reshape(mask, [-1] + [1] * (a.shape.rank - 1)), a, b)
        for a, b in zip(yes, no, strict=True)
    ]
