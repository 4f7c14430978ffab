"""The draws of a run in the packed coordinates of the sampler."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling import coordinates as labelling


def labels(run: Any) -> list[str]:
    """Labels of the D coordinates, such as 'w[3]'."""
    return [
        label
        for name, shape in zip(run.part_names, run.layout.event_shapes, strict=True)
        for label in labelling.labels(name, shape)
    ]


def choose(run: Any, wanted: Sequence[str]) -> list[int]:
    """Indices of the coordinates with these labels.

    Raises:
      ValueError: for an unknown label, or none.
    """
    index = {label: i for i, label in enumerate(labels(run))}
    unknown = [label for label in wanted if label not in index]
    if unknown or not wanted:
        raise ValueError(
            '`coordinates` must be labels of coordinates of the sampler, such as '
            f'{next(iter(index))!r}; got {unknown or list(wanted)}.'
        )
    return [index[label] for label in wanted]


def are_unconstrained(run: Any) -> bool:
    """Whether the sampler saw other numbers than the user: a model with bounds has a bijector."""
    if run.unconstrained_states is None:
        return False
    pairs = zip(tf.nest.flatten(run.states), tf.nest.flatten(run.unconstrained_states), strict=True)
    return not all(
        np.shape(own) == np.shape(free) and np.array_equal(own[-1], free[-1]) for own, free in pairs
    )


def columns(run: Any, chosen: Sequence[int]) -> np.ndarray:
    """Draws [len(chosen), num_results, C] of some coordinates, without a bijector of a model."""
    states = run.states if run.unconstrained_states is None else run.unconstrained_states
    parts = [labelling.as_matrix(part, len(run.batch_shape)) for part in tf.nest.flatten(states)]
    starts = np.cumsum([0, *(part.shape[-1] for part in parts)])
    where = [(int(np.searchsorted(starts, i, side='right')) - 1, i) for i in chosen]
    return np.stack([parts[part][..., i - starts[part]] for part, i in where])
