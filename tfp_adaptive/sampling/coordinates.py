"""Names of the scalar coordinates of a state structure, and draws as one matrix a part."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_BLOCK_BYTES = 2**26


def part_names(structure: Any, names: Sequence[str] | None = None) -> list[str]:
    """One name for every part of a structure, in the order of `tf.nest.flatten`.

    Keys of a dict and fields of a namedtuple name their parts; parts of a list or tuple are x0, x1,
    ...; a state that is one tensor is x; names of nested parts are joined by dots.

    Args:
      structure: a nest.
      names: names to use instead. Default `None`.

    Raises:
      ValueError: if there are not as many `names` as parts, or if two are equal.
    """
    found = list(_paths(structure, '')) if names is None else [str(name) for name in names]
    num_parts = len(tf.nest.flatten(structure))
    if len(found) != num_parts or len(set(found)) != num_parts:
        raise ValueError(
            f'`names` must be {num_parts} different strings, one for every part of the state; '
            f'got {found}.'
        )
    return found


def _paths(structure: Any, prefix: str) -> Iterator[str]:
    """Names in the order of `tf.nest.flatten`, which sorts the keys of a dict."""
    if isinstance(structure, dict):
        children = [(str(key), structure[key]) for key in sorted(structure)]
    elif hasattr(structure, '_fields'):
        children = [(field, getattr(structure, field)) for field in structure._fields]
    elif isinstance(structure, (list, tuple)):
        children = [(f'x{i}', part) for i, part in enumerate(structure)]
    else:
        yield prefix.removesuffix('.') or 'x'
        return
    for name, child in children:
        yield from _paths(child, f'{prefix}{name}.')


def template(structure: Any) -> Any:
    """The same nest with the number of each leaf in its place.

    Args:
      structure: a nest.
    """
    if not tf.nest.is_nested(structure):
        return 0
    count = len(tf.nest.flatten(structure))
    return tf.nest.pack_sequence_as(structure, list(range(count)))


def labels(name: str, event_shape: Sequence[int]) -> list[str]:
    """The name of every entry of a part in row-major order: 'w' alone, or 'w[0,1]'.

    Args:
      name: of the part.
      event_shape: shape of the part without chain dimensions; may be empty.
    """
    if not len(event_shape):
        return [name]
    return [f'{name}[{",".join(map(str, index))}]' for index in np.ndindex(*event_shape)]


def as_matrix(draws: Any, batch_rank: int) -> np.ndarray:
    """Draws [num_results, *batch, *event] of a part as [num_results, C, D], without copying.

    Args:
      draws: of one part.
      batch_rank: number of chain dimensions; with none, C is 1.
    """
    draws = np.asarray(draws)
    num_chains = int(np.prod(draws.shape[1 : 1 + batch_rank]))
    event_size = int(np.prod(draws.shape[1 + batch_rank :]))
    return draws.reshape([len(draws), num_chains, event_size])


def column_blocks(draws: np.ndarray, num_copies: int = 1) -> Iterator[np.ndarray]:
    """Draws of some coordinates at a time, so few that what is computed of them stays small.

    Args:
      draws: [N, C, D].
      num_copies: in float64 that are held at a time. Default 1.
    """
    bytes_per_coordinate = max(1, num_copies * 8 * draws.shape[0] * draws.shape[1])
    width = max(1, _BLOCK_BYTES // bytes_per_coordinate)
    for first in range(0, draws.shape[-1], width):
        yield draws[..., first : first + width]


def row_blocks(draws: np.ndarray) -> list[slice]:
    """Slices of rows that keep what is compared at a time small.

    Args:
      draws: [N, ...].
    """
    rows = max(1, _BLOCK_BYTES // max(1, draws[:1].nbytes))
    return [slice(i, i + rows) for i in range(0, len(draws), rows)]
