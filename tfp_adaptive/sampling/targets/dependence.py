"""Which parts of a joint distribution have a location or a scale that other parts change."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.sampling.coordinates import part_names
from tfp_adaptive.sampling.targets.location_scale import parameters_or_none
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.own_coordinates import OwnCoordinates, parameters

_SEED = (0x64657065, 0)  # any constant


def places_that_others_change(target: Any, model: Model) -> list[int | None]:
    """For every part in the order of the model, its place in a state if others change it.

    That is, if its distribution has a location and a scale, and one of them is not the same at two
    random states. `None` for the others; empty if none can have coordinates of its own.

    Args:
      target: a joint distribution, or any other.
      model: of it, in the coordinates of its bijector.
    """
    num_parts = len(model.event_shapes)
    is_joint = hasattr(target, 'unnormalized_log_prob_parts')
    order = _order(target) if is_joint and len(target.dtype) == num_parts else []
    if len(order) < num_parts:
        return []  # a distribution alone, or one that holds other joint distributions
    found = []
    seeds = random.split(tf.constant(_SEED), 3)

    def values(seed):
        """Parts [*event] of both signs, in the order of a state."""
        return [
            random.normal(shape, one, model.dtype)
            for shape, one in zip(model.event_shapes, random.split(seed, num_parts), strict=True)
        ]

    # the same vectors for both, as the locations of their coordinates depend on them
    state = values(seeds[2])
    for i in range(2):
        none = OwnCoordinates([None] * num_parts, [])
        distributions, _ = none.distributions(target, values(seeds[i]))
        if len(distributions) < num_parts:
            return []  # a joint distribution with a bijector that does not ask for those of parts
        found.append(
            [
                _parameters_or_none(distribution, state[place])
                for place, distribution in zip(order, distributions, strict=True)
            ]
        )
    return [
        place if _differ(one, other) else None
        for place, one, other in zip(order, *found, strict=True)
    ]


def _parameters_or_none(distribution, part):
    """(location, scale) of a part that has them, of its shape."""
    if parameters_or_none(distribution) is None:
        return None
    found, shape = parameters(distribution, part), tuple(part.shape)
    fits = len(found.location.shape) <= len(shape) and all(
        size in (1, whole)
        for size, whole in zip(reversed(found.location.shape), reversed(shape), strict=False)
    )
    return found[:2] if fits else None


def _differ(one, other):
    """Whether location or scale differ, of a part that has them."""
    if one is None or other is None:
        return False
    return not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _order(target: Any) -> list[int]:
    """For every part in the order of the model, its place in a state."""
    structure = target.dtype
    names = part_names(structure)
    joint = getattr(target, 'distribution', target)
    is_named = isinstance(structure, Mapping) or hasattr(structure, '_fields')
    if is_named and hasattr(joint, 'resolve_graph'):
        return [names.index(name) for name, _ in joint.resolve_graph() if name in names]
    return list(range(len(names)))
