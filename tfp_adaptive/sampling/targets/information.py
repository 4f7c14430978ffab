"""Which parts of a joint distribution get coordinates of their own, and what the data say of them.

The data are a Gaussian factor of precision P and centre c in each coordinate z. At a place where
the mass is, with coordinates of scale r, the second derivative of the log-density is
-r^2 (P + 1 / s^2), and the first one r (P (c - z) - (z - m) / s^2). Both depend on which
coordinates the other parts have. So P and c are found in a few rounds; the first one has P = 0.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import log_density, packing, random
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.coordinates import part_names
from tfp_adaptive.sampling.targets.density import Density
from tfp_adaptive.sampling.targets.dispersed import dispersed
from tfp_adaptive.sampling.targets.distributions import from_distribution
from tfp_adaptive.sampling.targets.location_scale import Information
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.own_coordinates import in_use, parameters, suit
from tfp_adaptive.tuning.arrive import arrive

_SEED = (0x696E666F, 0)  # any constant: the same coordinates in every process
_NUM_CHAINS = 10
_MAX_GRADIENTS = 250
_NUM_ROUNDS = 3
_NUM_PROBES = 8
_STEP = 0.01
_NEGLIGIBLE = 1e-3
"""A precision that takes a smaller share away from the variance in the model is zero."""
_MAX_DISTANCE = 3.0
"""Of a centre from where the mass is, in the larger one of the two widths."""


def in_own_coordinates(target: Any, model: Model) -> Model:
    """The model in coordinates that suit what the data say of its parts.

    It stays as it is if no part has a location or a scale that others change, or if the coordinates
    cannot be found: what fails here fails for the model as well, and is explained there.

    Args:
      target: a joint distribution, or any other.
      model: of it, in the coordinates of its bijector.
    """
    try:
        places = _places(target, model)
        has_some = any(place is not None for place in places)
        return _in_own_coordinates(target, model, places) if has_some else model
    except Exception:
        return model


def _places(target: Any, model: Model) -> list[int | None]:
    """For every part in the order of the model, its place in a state if others change it."""
    num_parts = len(model.event_shapes)
    seen: list = []
    watched = from_distribution(target, functools.partial(in_use, [None] * num_parts, seen))
    order = _order(target)
    if len(seen) != num_parts:
        return []
    found = []
    parts = [tf.ones(model.event_shapes[place], model.dtype) for place in order]
    for i in range(2):
        seeds = random.split(random.fold_in(tf.constant(_SEED), tf.constant(i)), num_parts)
        free = [
            random.uniform(shape, seed, model.dtype)
            for shape, seed in zip(model.event_shapes, seeds, strict=True)
        ]
        _constrained(watched, free)
        # the same state of a chain in both, which its locations depend on
        found.append(
            [
                parameters(distribution, part) if suit(distribution, part) else None
                for part, distribution in zip(parts, seen[-num_parts:], strict=True)
            ]
        )
    return [
        place if _differ(one, other, model.event_shapes[place]) else None
        for place, one, other in zip(order, *found, strict=True)
    ]


def _constrained(model, parts):
    assert model.constrain is not None  # as every joint distribution has a bijector
    return model.constrain(parts)


def _differ(one, other, shape):
    """Whether location or scale differ, of a part that has them."""
    if one is None or np.broadcast_shapes(one.location.shape, shape) != shape:
        return False
    return not all(np.array_equal(a, b) for a, b in zip(one[:2], other[:2], strict=True))


def _order(target: Any) -> list[int]:
    """For every part in the order of the model, its place in a state."""
    structure = target.dtype
    names = part_names(structure)
    joint = getattr(target, 'distribution', target)
    is_named = isinstance(structure, Mapping) or hasattr(structure, '_fields')
    if is_named and hasattr(joint, 'resolve_graph'):
        return [names.index(name) for name, _ in joint.resolve_graph() if name in names]
    return list(range(len(names)))


@dataclass(frozen=True)
class _Around:
    """Where the chains are, of a part with coordinates of its own; arrays [C, *event].

    Attributes:
      state: z.
      location: m.
      scale: s.
    """

    state: np.ndarray
    location: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, chains: list, part: tf.Tensor) -> '_Around':
        """By m and s of each chain, and the coordinates for P = 0."""
        location, scale = (
            np.broadcast_to(np.stack([np.asarray(chain[i], float) for chain in chains]), part.shape)
            for i in (0, 1)
        )
        return cls(location + scale * np.asarray(part, float), location, scale)

    def given_data(self, information: Information) -> tuple[np.ndarray, np.ndarray]:
        """Location and scale."""
        known = Information(*(np.asarray(each, float) for each in information))
        ratio = known.precision * self.scale**2
        location = self.location + ratio / (1 + ratio) * (known.centre - self.location)
        return location, self.scale / np.sqrt(1 + ratio)

    def coordinates(self, information: Information) -> tf.Tensor:
        """Coordinates e."""
        location, scale = self.given_data(information)
        return tf.constant((self.state - location) / scale, information.precision.dtype)


@dataclass(frozen=True)
class _Parts:
    """The parts of a joint distribution that get coordinates of their own.

    Attributes:
      target: the joint distribution.
      places: for every part in the order of the model, its place in a state, or `None` if it is
        none of them.
    """

    target: Any
    places: list[int | None]

    @property
    def own(self) -> list[int]:
        """Their places in a state."""
        return [place for place in self.places if place is not None]

    def model(self, informations: Sequence[Information], seen: list | None = None) -> Model:
        """In coordinates of what the data say; `seen` is as for `in_use`."""
        each = iter(informations)
        of_parts = [None if place is None else next(each) for place in self.places]
        return from_distribution(self.target, functools.partial(in_use, of_parts, seen))

    def scores(self, parts: list, informations: Sequence[Information]) -> list:
        """Derivatives of the log-density by their coordinates, [C, *event] each."""
        parts = [tf.identity(part) for part in parts]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            own = [parts[place] for place in self.own]
            tape.watch(own)
            log_probs = self.model(informations).log_prob_fn(*parts)
        return tape.gradient(log_probs, own)

    def locations_and_scales(self, parts: list, informations: Sequence[Information]) -> list:
        """Those of the joint distribution, for a chain [*event] with these coordinates."""
        seen: list = []
        state = _constrained(self.model(informations, seen), parts)
        distributions = seen[-len(self.places) :]
        return [
            parameters(distribution, state[place])[:2]
            for place, distribution in zip(self.places, distributions, strict=True)
            if place is not None
        ]


def _in_own_coordinates(target: Any, model: Model, places: list[int | None]) -> Model:
    """The model in coordinates of what the data say of these parts."""
    which = _Parts(target, places)
    zeros = [tf.zeros(model.event_shapes[place], model.dtype) for place in which.own]
    informations = [Information(zero, zero) for zero in zeros]
    parts, num_gradients = _arrived(Density(which.model(informations)))
    scores, of_chain = Compiled(which.scores), Compiled(which.locations_and_scales)
    chains = [of_chain([part[i] for part in parts], informations) for i in range(_NUM_CHAINS)]
    around = [
        _Around.of([chain[i] for chain in chains], parts[place])
        for i, place in enumerate(which.own)
    ]
    for i in range(_NUM_ROUNDS):
        for place, here, information in zip(which.own, around, informations, strict=True):
            parts[place] = here.coordinates(information)
        first = scores(parts, informations)
        second = _curvatures(scores, parts, informations, which.own, index=i)
        num_gradients += 1 + 2 * _NUM_PROBES
        before, informations = (
            informations,
            [_information(*each) for each in zip(around, informations, first, second, strict=True)],
        )
        if all(np.array_equal(a, b) for a, b in zip(before, informations, strict=True)):
            break
    return dataclasses.replace(
        which.model(informations), is_reparameterized=True, num_gradients=num_gradients
    )


def _arrived(density: Density) -> tuple[list, int]:
    """Parts [C, *event] of chains where the mass is, and the gradients that one took."""
    start_seed, seed = random.split(tf.constant(_SEED), 2)

    def run(parts):
        layout = packing.make_layout(parts, tf.TensorShape([_NUM_CHAINS]))
        target = log_density.packed_log_density(density.model.log_prob_fn, layout, parts)
        found = arrive(target, packing.pack(layout, parts), seed, tf.constant(_MAX_GRADIENTS))
        position = tf.where(found.is_funnel, found.resolved, found.position)
        count = found.num_gradients + found.num_values
        return packing.unpack(layout, position, [_NUM_CHAINS], like=parts), count

    parts, count = Compiled(run)(dispersed(density, _NUM_CHAINS, start_seed))
    return list(parts), int(count)


def _curvatures(scores, parts, informations, own, index) -> list[np.ndarray]:
    """Minus the second derivatives by each coordinate of these parts, [C, *event].

    By differences of scores along random signs, in which the mixed derivatives cancel on average.
    """
    seed = random.fold_in(tf.constant(_SEED), tf.constant(index + 2))
    total = [np.zeros(parts[place].shape) for place in own]
    for probe_seed in random.split(seed, _NUM_PROBES):
        seeds = random.split(probe_seed, len(own))
        signs = [
            np.sign(random.uniform(parts[place].shape, one, tf.float64) - 0.5)
            for place, one in zip(own, seeds, strict=True)
        ]
        ends = []
        for step in (-_STEP, _STEP):
            moved = list(parts)
            for place, sign in zip(own, signs, strict=True):
                moved[place] = parts[place] + tf.constant(step * sign, parts[place].dtype)
            ends.append([np.asarray(score, float) for score in scores(moved, informations)])
        for sums, sign, before, after in zip(total, signs, *ends, strict=True):
            sums += sign * (before - after) / (2 * _STEP * _NUM_PROBES)
    return total


def _information(here: _Around, before: Information, score: Any, curvature: Any) -> Information:
    """What the data say, by the derivatives in the coordinates of before."""
    _, width = here.given_data(before)
    typical = np.median(here.scale, axis=0)
    precision = _middle(curvature / width**2 - 1 / here.scale**2)
    is_known = precision * typical**2 > _NEGLIGIBLE
    precision = np.where(is_known, precision, 1 / typical**2)
    slope = np.asarray(score, float) / width + (here.state - here.location) / here.scale**2
    state = np.median(here.state, axis=0)
    most = _MAX_DISTANCE * np.maximum(typical, precision**-0.5)
    centre = state + np.clip(_middle(here.state - state + slope / precision), -most, most)
    # powers of two and multiples of such, so that another rounding gives the same coordinates
    precision = _power_of_two(precision)
    unit = _power_of_two(np.minimum(typical, precision**-0.5)) / 8
    return Information(
        tf.constant(np.where(is_known, precision, 0.0), before.precision.dtype),
        tf.constant(np.where(is_known, unit * np.round(centre / unit), 0.0), before.centre.dtype),
    )


def _middle(values):
    """Medians over chains; one without a finite value has zero."""
    return np.median(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), axis=0)


def _power_of_two(values):
    return 2 ** np.round(np.log2(values))
