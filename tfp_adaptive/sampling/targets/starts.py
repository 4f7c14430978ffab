"""Where the chains start: as the user says, or dispersed where the density is finite."""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.coordinates import part_names
from tfp_adaptive.sampling.targets.density import Density
from tfp_adaptive.sampling.targets.model import Model

DEFAULT_NUM_CHAINS = 10
_RADIUS_AROUND_ZERO = 2.0
_RADIUS_AROUND_POINT = 1.0
_SHRINKAGE = 0.7
_MAX_ROUNDS = 40
_SUPPORT_TOLERANCE = 1e-2


def to_tensors(initial_state: Any, dtype: Any = None) -> Any:
    """`initial_state` as a nest of floating tensors of one dtype.

    Args:
      initial_state: a nest of what `tf.convert_to_tensor` takes.
      dtype: what to cast it to; `None` for no cast.

    Raises:
      TypeError: if a part is no floating tensor, or the parts differ in dtype.
    """
    values = tf.nest.flatten(initial_state)
    if not values:
        raise TypeError('`initial_state` holds no tensor; pass at least one part.')
    parts = []
    for name, value in zip(part_names(initial_state), values, strict=True):
        try:
            part = tf.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f'`initial_state` must be a nest of tensors or arrays; part {name!r} is '
                f'{type(value).__name__}, which is none: pass np.zeros([num_chains, ...]) or the '
                'like.'
            ) from error
        part = part if dtype is None or not _is_real(part.dtype) else tf.cast(part, dtype)
        if part.dtype not in (tf.float32, tf.float64):
            remedy = 'pass dtype=tf.float32' if _is_real(part.dtype) else 'pass numbers'
            raise TypeError(
                f'`initial_state` must be floating point, float32 or float64; part {name!r} is '
                f'{part.dtype.name}: {remedy}.'
            )
        parts.append(part)
    dtypes = sorted({part.dtype.name for part in parts})
    if len(dtypes) > 1:
        raise TypeError(
            f'all parts of `initial_state` must share one dtype; got {" and ".join(dtypes)}: pass '
            f'dtype=tf.{dtypes[0]}.'
        )
    return tf.nest.pack_sequence_as(initial_state, parts)


def given(model: Model, initial_state: Any) -> list:
    """Unconstrained parts of a user's state.

    Args:
      model: the target.
      initial_state: a nest of tensors in the model's own space.

    Raises:
      ValueError: if it has not the structure or the shapes of the model.
    """
    if not model.event_shapes:
        return tf.nest.flatten(initial_state)
    parts = _aligned(model, initial_state)
    batch_shapes = {
        tuple(part.shape[: part.shape.rank - rank])
        for part, rank in zip(parts, model.own_event_ranks, strict=True)
        if part.shape.rank >= rank
    }
    free: list = []
    if len(batch_shapes) == 1:
        with contextlib.suppress(ValueError, tf.errors.InvalidArgumentError):
            free = model.unconstrain(parts)
    fits = free and all(
        part.shape == (*batch_shape, *event)
        for batch_shape in batch_shapes
        for part, event in zip(free, model.event_shapes, strict=True)
    )
    if not fits:
        raise ValueError(
            '`initial_state` must have the shapes of the model, perhaps with the same chain '
            f'dimensions before each; got {_describe(model.names, parts)}: pass a state such as '
            'the model samples.'
        )
    _check_support(model, parts, free)
    return free


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
    centre = around or [
        tf.zeros(shape, dtype)
        for shape, dtype in zip(model.event_shapes, model.dtypes, strict=True)
    ]
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


def _check_support(model, parts, free):
    """Refuses a state that the way to unconstrained space and back turns into another."""
    back = model.constrain(free) if model.constrain else parts
    for name, part, again in zip(model.names, parts, back, strict=True):
        if not np.allclose(part, again, rtol=_SUPPORT_TOLERANCE, atol=_SUPPORT_TOLERANCE):
            raise ValueError(
                f'`initial_state` must lie inside the support of `target`; part {name!r} does not: '
                'move it there, or leave `initial_state` out.'
            )


def _is_real(dtype):
    return dtype.is_floating or dtype.is_integer


def _aligned(model, initial_state):
    """The parts of a state in the order of the model's; those of a dict go by their names."""
    names, parts = part_names(initial_state), tf.nest.flatten(initial_state)
    if isinstance(initial_state, Mapping):
        by_name = dict(zip(names, parts, strict=True))
        fits = sorted(names) == sorted(model.names)
        parts = [by_name[name] for name in model.names] if fits else []
    else:
        try:
            tf.nest.assert_same_structure(model.structure, initial_state, check_types=False)
        except (TypeError, ValueError):
            parts = []
    if not parts:
        raise ValueError(
            f'`initial_state` must have the parts {", ".join(model.names)} of `target`; got '
            f'{", ".join(names)}: pass a dict with these names, or what the model samples.'
        )
    return parts


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


def _describe(names, parts):
    return ', '.join(f'{name} {tuple(part.shape)}' for name, part in zip(names, parts, strict=True))
