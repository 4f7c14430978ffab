"""Local coordinates of a preconditioner family: where its gradient lives and how it moves.

Relative coordinates write a small change as C -> C (I + A) and learn A: the whitened problem looks
the same at every C, so learning is as fast on an ill-conditioned target as on an easy one.
Euclidean coordinates learn the raw entries, as the paper does.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

_PUBLISHED_MIN_DIAGONAL = 1e-3


class Chart(NamedTuple):
    """The three coordinate-dependent members of a `Preconditioner`, with its signatures."""

    gradient: Callable[[Any, Any], Any]
    log_det_gradient: Callable[[Any], Any]
    retract: Callable[[Any, Any], Any]


def select(coordinates: str, relative: Chart, euclidean: Chart) -> Chart:
    """The chart named by `coordinates`.

    Raises:
      ValueError: for any other name.
    """
    charts = {'relative': relative, 'euclidean': euclidean}
    if coordinates not in charts:
        raise ValueError(f'`coordinates` must be one of {sorted(charts)}; got {coordinates!r}.')
    return charts[coordinates]


def diagonal_floor(coordinates: str, min_diagonal: float | None) -> float:
    """Where a diagonal is clipped in euclidean coordinates: a step could make it change sign.

    Raises:
      ValueError: if the floor is not positive, or given for coordinates that need none.
    """
    if min_diagonal is None:
        return _PUBLISHED_MIN_DIAGONAL
    if coordinates != 'euclidean':
        raise ValueError(
            f'`min_diagonal` belongs to euclidean coordinates; {coordinates!r} ones stay positive '
            'by themselves. Leave it out.'
        )
    if min_diagonal <= 0:
        raise ValueError(f'`min_diagonal` must be positive; got {min_diagonal}.')
    return min_diagonal


def initial_parameters(family, event_size: int, dtype, guess):
    """Parameters of a preconditioner or flow at a guess of the scale of each coordinate.

    Args:
      family: a `Preconditioner` or `Flow`; one that takes a single scale is given the smallest.
      event_size: D.
      dtype: of the parameters.
      guess: scalar or [D]; for a family that takes one, a factor [D, D].
    """
    takes_all = family.takes_scales or tf.convert_to_tensor(guess).shape.rank == 2
    return family.init(event_size, dtype, guess if takes_all else tf.reduce_min(guess))


def initial_scale_vector(initial_scale, guess, event_size: int, dtype):
    """`initial_scale`, or else `guess`, as a vector [D]; either is a scalar or [D].

    Raises:
      ValueError: if `initial_scale` is not positive or does not broadcast to [D].
    """
    if initial_scale is None:
        return tf.broadcast_to(tf.cast(guess, dtype), [event_size])
    scale = tf.convert_to_tensor(initial_scale, dtype)
    static = tf.get_static_value(scale)
    if scale.shape.rank not in (0, 1) or (
        scale.shape.rank == 1 and scale.shape[0] not in (1, event_size)
    ):
        raise ValueError(
            f'`initial_scale` must be a scalar or have the event size [{event_size}]; '
            f'got shape {scale.shape}.'
        )
    if static is not None and not (np.isfinite(static).all() and (static > 0).all()):
        raise ValueError(f'`initial_scale` must be positive and finite; got {initial_scale}.')
    return tf.broadcast_to(scale, [event_size])
