"""Parts of joint distributions in coordinates of their own, while these are in use."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.sampling.targets import location_scale, markov_chains
from tfp_adaptive.sampling.targets.location_scale import Information, Parameters

tfb, tfd = tfp.bijectors, tfp.distributions


def suit(distribution: Any, part: tf.Tensor) -> bool:
    """Whether a part can have coordinates of its own.

    Args:
      distribution: of the part.
      part: [*event], any.
    """
    if isinstance(distribution, tfd.MarkovChain):
        return markov_chains.is_linear(distribution, part)
    return location_scale.parameters_or_none(distribution) is not None


def parameters(distribution: Any, part: tf.Tensor) -> Parameters:
    """Location and scale of every coordinate of a part.

    Args:
      distribution: of the part, which own coordinates `suit`.
      part: [*event]; the states of a Markov chain have theirs from the states before.
    """
    if isinstance(distribution, tfd.MarkovChain):
        return markov_chains.chain_parameters(distribution, part, part.shape.rank)
    return location_scale.parameters(distribution)


@contextlib.contextmanager
def in_use(informations: Sequence[Information | None], seen: list | None = None) -> Iterator[None]:
    """While it lasts, bijectors of joint distributions give their parts these coordinates.

    They ask the distribution of each part in turn for its bijector, and again from the first part
    on for other values of the parts.

    Args:
      informations: for every part, in the order of the model; the default bijector for `None`.
      seen: list to which the distributions are added. Default `None`: they are not.
    """
    own = tfd.Distribution.experimental_default_event_space_bijector
    count, is_inside = 0, False

    def bijector_of(distribution, *args, **kwargs):
        nonlocal count, is_inside
        default = functools.partial(own, distribution, *args, **kwargs)
        # a joint distribution asks its parts, and a sample or a chain asks what it is made of
        if is_inside or isinstance(distribution, tfd.JointDistribution):
            return default()
        information = informations[count % len(informations)]
        count += 1
        if seen is not None:
            seen.append(distribution)
        if information is not None:
            return _bijector(distribution, information)
        is_inside = True
        try:
            return default()
        finally:
            is_inside = False

    tfd.Distribution.experimental_default_event_space_bijector = bijector_of
    try:
        yield
    finally:
        tfd.Distribution.experimental_default_event_space_bijector = own


def _bijector(distribution, information):
    if isinstance(distribution, tfd.MarkovChain):
        return markov_chains.ChainBijector(distribution, information)
    found = location_scale.parameters(distribution)
    location, scale = location_scale.given_data(found, information)
    outer = location_scale.outer_bijector(distribution)
    return tfb.Chain([outer, tfb.Shift(location), tfb.Scale(scale)])
