"""Joint distributions with parts in coordinates of their own."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling.targets import bijectors, location_scale, normal_vectors
from tfp_adaptive.sampling.targets.location_scale import Information, Parameters


class OwnCoordinates:
    """Which parts have coordinates of their own, in the order of the model."""

    def __init__(self, places: Sequence[int | None], informations: Sequence[Information]):
        """Initializes this record.

        Args:
          places: for every part, its place in a state, or `None` without coordinates of its own.
          informations: what the data say of those that have them, in the same order.
        """
        self._places = tuple(places)
        each = iter(informations)
        self._informations = [None if place is None else next(each) for place in places]

    def holds(self, place: int) -> bool:
        """Whether the part at a place in a state has coordinates of its own.

        Args:
          place: in a state.
        """
        return place in self._places

    def bijector(self, target: Any) -> Any:
        """The bijector of a joint distribution, with these coordinates.

        Its log-determinants are log-densities for these parts (`CoordinatesBijector`).

        Args:
          target: the joint distribution.
        """
        return _with_bijectors_of_parts(target, self._of_part)

    def distributions(self, target: Any, parts: list) -> tuple[list, list]:
        """The distributions of all parts, and the parts themselves in the order of a state.

        Args:
          target: the joint distribution.
          parts: in these coordinates, of one chain.
        """
        seen = []

        def of_part(index, distribution):
            seen.append(distribution)
            return self._of_part(index, distribution)

        packed = tf.nest.pack_sequence_as(target.dtype, [tf.identity(part) for part in parts])
        with bijectors.mended(takes_logs=True):
            state = _with_bijectors_of_parts(target, of_part).forward(packed)
        # it may have asked before for those of a draw from the prior
        return seen[-len(self._places) :], tf.nest.flatten(state)

    def _of_part(self, index, distribution):
        information = self._informations[index]
        if information is None:
            return distribution.experimental_default_event_space_bijector()
        has_factor = location_scale.parameters(distribution).factor is not None
        make = normal_vectors.VectorBijector if has_factor else location_scale.PartBijector
        return make(distribution, information)


def _with_bijectors_of_parts(target: Any, of_part: Callable) -> Any:
    """The bijector of a joint distribution, with others for its parts.

    It asks for those of its parts one after the other, and again for other values of the parts. No
    argument of TFP leads to what it asks.

    Args:
      target: the joint distribution.
      of_part: (index, distribution) -> bijector.
    """
    bijector = target.experimental_default_event_space_bijector()
    count, num_parts = itertools.count(), len(target.dtype)

    def of_next(distribution):
        return of_part(next(count) % num_parts, distribution)

    inner = getattr(bijector, '_joint_bijector', bijector)
    inner._bijector_fn = of_next
    if inner is not bijector:
        # one that maps over chains makes the inner one anew for pinned values
        bijector._bijector_kwargs = {'bijector_fn': of_next}
    return bijector


def parameters(distribution: Any, part: tf.Tensor) -> Parameters:
    """Location and scale of every coordinate of a part.

    Args:
      distribution: of the part, which has them.
      part: [*event]; coordinates of vectors have theirs from those before.
    """
    found = location_scale.parameters(distribution)
    return found if found.factor is None else normal_vectors.given_those_before(found, part)
