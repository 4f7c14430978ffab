"""The start that the user gives, as unconstrained parts."""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling.coordinates import part_names
from tfp_adaptive.sampling.targets.model import Model

_SUPPORT_TOLERANCE = 1e-2


def given(model: Model, initial_state: Any) -> list:
    """Unconstrained parts of a user's state.

    Args:
      model: the target.
      initial_state: a nest of what `tf.convert_to_tensor` takes, in the model's own space.

    Raises:
      TypeError: if a part is no floating tensor, or the parts differ in dtype.
      ValueError: if it has not the structure or the shapes of the model.
    """
    initial_state = _to_tensors(initial_state, model.dtype)
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


def _to_tensors(initial_state, dtype):
    """`initial_state` as a nest of floating tensors of one dtype."""
    values, parts = tf.nest.flatten(initial_state), []
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


def _check_support(model, parts, free):
    """Refuses a state that the way to unconstrained space and back turns into another."""
    back = model.constrain(free) if model.constrain else parts
    is_back = [
        np.allclose(part, again, rtol=_SUPPORT_TOLERANCE, atol=_SUPPORT_TOLERANCE)
        for part, again in zip(parts, back, strict=True)
    ]
    if not all(is_back):
        # one on a bound takes along those with coordinates of their own
        is_inside = [bool(np.isfinite(part).all()) for part in free]
        name = model.names[(is_inside if not all(is_inside) else is_back).index(False)]
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


def _describe(names, parts):
    return ', '.join(f'{name} {tuple(part.shape)}' for name, part in zip(names, parts, strict=True))
