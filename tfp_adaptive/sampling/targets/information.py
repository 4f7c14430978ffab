"""What the data say of parts of a joint distribution that get coordinates of their own.

The data are a Gaussian factor of precision P and centre c in each coordinate z. At a place where
the mass is, with coordinates of scale r, the second derivative of the log-density is
-r^2 (P + 1 / s^2), and the first one r (P (c - z) - (z - m) / s^2), if z is normal in the model.
Both depend on which coordinates the other parts have. So P and c are found in a few rounds; the
first one has P = 0.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import log_density, packing, random
from tfp_adaptive.sampling import user_code
from tfp_adaptive.sampling.compiled import Compiled
from tfp_adaptive.sampling.targets.density import Density
from tfp_adaptive.sampling.targets.dependence import places_that_others_change
from tfp_adaptive.sampling.targets.dispersed import dispersed
from tfp_adaptive.sampling.targets.distributions import from_distribution
from tfp_adaptive.sampling.targets.location_scale import Information, given_data
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.own_coordinates import OwnCoordinates, parameters
from tfp_adaptive.tuning.arrive import arrive

_SEED = (0x696E666F, 0)  # any constant
_NUM_CHAINS = 10
_MAX_GRADIENTS = 250
_NUM_ROUNDS = 3
_NUM_PROBES = 8
_STEP = 0.1
_NEGLIGIBLE = 1e-5
"""A precision that takes a smaller share away from the variance in the model is zero: in a funnel
without data, rounding makes shares of 1e-7 of it in float32 (of 1e-6 with a step of 0.01)."""
_TOLERANCE = 1e-3
"""Of log-densities, relative, between the model and itself in own coordinates."""


def in_own_coordinates(target: Any, model: Model, stored: Sequence[np.ndarray] = ()) -> Model:
    """The model in coordinates that suit what the data say of its parts.

    It stays as it is if no part has a location or a scale that others change, and with a warning if
    the coordinates cannot be found. A model that fails itself is explained where it is sampled.

    Args:
      target: a joint distribution, or any other.
      model: of it, with positive parts as logarithms.
      stored: `as_arrays` of coordinates that were found before; empty to find them.
    """
    try:
        places = places_that_others_change(target, model)
        if all(place is None for place in places):
            return model
        which = _Parts(target, model, places)
        return which.stored(stored) if stored else _found(which)
    except Exception as error:
        user_code.warn(
            'Parts of `target` have no coordinates of their own, which cannot be found '
            f'({user_code.reason(error)}); they are sampled as they are written.'
        )
        return model


def as_arrays(model: Model) -> list[np.ndarray]:
    """What the own coordinates of a model can be made from again.

    Args:
      model: of `in_own_coordinates`.
    """
    if not model.informations:
        return []
    leaves = tf.nest.flatten(model.informations)
    return [*map(np.asarray, leaves), np.asarray(model.num_gradients)]


@dataclass(frozen=True)
class _Around:
    """Where the chains are, of a part with coordinates of its own; arrays [C, *event].

    Attributes:
      state: z.
      location: m.
      scale: s.
      slope: derivative by z of the log-density of z in the model.
      curvature: minus the second derivative.
    """

    state: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray

    @classmethod
    def of(cls, chains: list, part: tf.Tensor) -> '_Around':
        """By `_Parts.priors` of each chain, and the coordinates for P = 0."""
        location, scale, slope, curvature = (
            np.broadcast_to(np.stack([np.asarray(each, float) for each in figures]), part.shape)
            for figures in zip(*chains, strict=True)
        )
        state = location + scale * np.asarray(part, float)
        return cls(state, location, scale, slope / scale, -curvature / scale**2)

    def given_data(self, information: Information) -> tuple[np.ndarray, np.ndarray]:
        """Location and scale."""
        known = Information(*(np.asarray(each, float) for each in information))
        location, scale = given_data(self.location, self.scale, known)
        return np.asarray(location), np.asarray(scale)

    def coordinates(self, information: Information) -> tf.Tensor:
        """Coordinates e."""
        location, scale = self.given_data(information)
        return tf.constant((self.state - location) / scale, information.precision.dtype)


@dataclass(frozen=True)
class _Parts:
    """The parts of a joint distribution that get coordinates of their own.

    Attributes:
      target: the joint distribution.
      plain: its `Model` without them.
      places: for every part in the order of the model, its place in a state, or `None` if it is
        none of them.
    """

    target: Any
    plain: Model
    places: list[int | None]

    @property
    def own(self) -> list[int]:
        """Their places in a state."""
        return [place for place in self.places if place is not None]

    def model(self, informations: Sequence[Information], num_gradients: int = 0) -> Model:
        """In coordinates of what the data say, which took so many gradients to find."""
        found = from_distribution(self.target, OwnCoordinates(self.places, informations))
        known = tuple(informations)
        return dataclasses.replace(found, informations=known, num_gradients=num_gradients)

    def stored(self, arrays: Sequence[np.ndarray]) -> Model:
        """That of `as_arrays`."""
        *leaves, count = arrays
        leaves = [tf.constant(each, self.plain.dtype) for each in leaves]
        pairs = zip(leaves[::2], leaves[1::2], strict=True)
        return self.model([Information(*pair) for pair in pairs], int(count))

    def scores(self, parts: list, informations: Sequence[Information]) -> list:
        """Derivatives of the log-density by their coordinates, [C, *event] each."""
        parts = [tf.identity(part) for part in parts]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            own = [parts[place] for place in self.own]
            tape.watch(own)
            log_probs = self.model(informations).log_prob_fn(*parts)
        return tape.gradient(log_probs, own)

    def priors(self, parts: list, informations: Sequence[Information]) -> list:
        """What the joint distribution says, for a chain [*event] with coordinates for P = 0.

        Of each part m, s, and two derivatives of the log-density of (z - m) / s by the latter.
        """
        coordinates = OwnCoordinates(self.places, informations)
        distributions, state = coordinates.distributions(self.target, parts)
        found = []
        for place, distribution in zip(self.places, distributions, strict=True):
            if place is not None:
                there = parameters(distribution, state[place])
                found.append([there.location, there.scale, *_derivatives(there, parts[place])])
        return found


def _found(which: _Parts) -> Model:
    """The model in coordinates of what the data say of these parts."""
    model = which.plain
    zeros = [tf.zeros(model.event_shapes[place], model.dtype) for place in which.own]
    informations = [Information(zero, zero) for zero in zeros]
    parts, num_gradients = _arrived(Density(which.model(informations)))
    scores, of_chain = Compiled(which.scores), Compiled(which.priors)
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
        informations = [
            _information(*each) for each in zip(around, informations, first, second, strict=True)
        ]
    found = which.model(informations, num_gradients)
    if not _is_same(model, found, which.own, parts, around):
        # of data at 1e6 with a scale of 1, for example, in float32
        raise ArithmeticError('the density is another one in them, maybe by rounding: try float64')
    return found


def _derivatives(there, x):
    """First and second of the log-density of coordinates x for P = 0."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            log_prob = there.standard.log_prob(x)
        first = inner.gradient(log_prob, x)
    return first, outer.gradient(first, x, unconnected_gradients='zero')


def _is_same(model, found, own, parts, around) -> bool:
    """Whether the density is that of the model, at most of the places where the chains are."""
    log_det, plain = np.zeros(_NUM_CHAINS), list(parts)
    for place, here, information in zip(own, around, found.informations, strict=True):
        parts[place] = here.coordinates(information)
        plain[place] = tf.constant(here.state, model.dtype)
        _, scale = here.given_data(information)
        log_det += np.log(np.abs(scale)).reshape([_NUM_CHAINS, -1]).sum(axis=-1)
    both = Compiled(lambda one, other: (found.log_prob_fn(*one), model.log_prob_fn(*other)))
    one, other = (np.asarray(values, float) for values in both(parts, plain))
    other = other + log_det
    is_close = np.abs(one - other) <= _TOLERANCE * (len(log_det) + np.abs(one) + np.abs(log_det))
    return 2 * np.sum(is_close) > _NUM_CHAINS


def _arrived(density: Density) -> tuple[list, int]:
    """Parts [C, *event] of chains where the mass is, and the gradients that one took."""
    start_seed, seed = random.split(tf.constant(_SEED), 2)

    def run(parts):
        layout = packing.make_layout(parts, tf.TensorShape([_NUM_CHAINS]))
        target = log_density.packed_log_density(density.model.log_prob_fn, layout, parts)
        position = packing.pack(layout, parts)
        found = arrive(target, position, seed, tf.constant(_MAX_GRADIENTS))
        count = found.num_gradients + found.num_values
        # medians over chains forgive those that a funnel leads astray
        return packing.unpack(layout, found.end, [_NUM_CHAINS], like=parts), count

    parts, count = Compiled(run)(dispersed(density, _NUM_CHAINS, start_seed))
    return list(parts), int(count)


def _curvatures(scores, parts, informations, own, index) -> list[np.ndarray]:
    """Minus the second derivatives by each coordinate of these parts, [C, *event].

    By differences of scores along random signs, in which the mixed derivatives cancel on average.
    """
    seed = random.fold_in(tf.constant(_SEED), tf.constant(index))
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
    typical = np.median(np.abs(here.scale), axis=0)
    precision = _middle(curvature / width**2 - here.curvature)
    is_known = precision * typical**2 > _NEGLIGIBLE
    precision = np.where(is_known, precision, 1 / typical**2)
    slope = np.asarray(score, float) / width - here.slope
    centre = _middle(here.state + slope / precision)
    return Information(
        tf.constant(np.where(is_known, precision, 0.0), before.precision.dtype),
        tf.constant(np.where(is_known, centre, 0.0), before.centre.dtype),
    )


def _middle(values):
    """Medians over chains; one without a finite value has zero."""
    return np.median(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), axis=0)
