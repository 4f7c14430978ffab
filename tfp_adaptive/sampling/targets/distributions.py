"""TFP distributions and Inference Gym models as targets: they know their own parts."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.sampling.coordinates import part_names, template
from tfp_adaptive.sampling.targets import bijectors
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.own_coordinates import OwnCoordinates

tfb = tfp.bijectors

_OF_GYM_MODELS = ('unnormalized_log_prob', 'default_event_space_bijector', 'event_shape', 'dtype')


def is_distribution(target: Any) -> bool:
    """Whether `target` knows its own parts, as a distribution or an Inference Gym model does."""
    return _is_of_tfp(target) or all(hasattr(target, name) for name in _OF_GYM_MODELS)


def from_distribution(
    target: Any, own: OwnCoordinates | None = None, *, takes_logs: bool = False
) -> Model:
    """A `Model` of a TFP distribution or an Inference Gym model.

    Args:
      target: has `experimental_default_event_space_bijector`, or else the attributes
        `unnormalized_log_prob`, `default_event_space_bijector`, `event_shape` and `dtype`.
      own: coordinates for parts of a joint distribution. Default `None`: those of its bijector.
      takes_logs: whether positive parts are sampled as logarithms (`bijectors.in_logs`), which the
        other parts always are beside those with own coordinates. Default `False`.

    Raises:
      TypeError: if a part is not floating point.
      ValueError: if an event shape is not static or the model has a batch shape.
    """
    if not _is_of_tfp(target):
        return _of_gym_model(target)
    return _of_distribution(target, own, takes_logs or own is not None)


def _is_of_tfp(target):
    return hasattr(target, 'experimental_default_event_space_bijector')


def _of_distribution(target, own, takes_logs):
    batch_shapes = [tf.TensorShape(shape) for shape in tf.nest.flatten(target.batch_shape)]
    if any(shape.rank != 0 for shape in batch_shapes):
        raise ValueError(
            f'`target` must have no batch shape; got {target.batch_shape}: make its batch part of '
            'the event with tfd.Independent, tfd.Sample or a JointDistribution...AutoBatched.'
        )
    _check_dtypes(target.dtype)
    _check_support(target)
    is_pinned = hasattr(target, 'sample_unpinned')

    def prior(num_chains, seed):
        draw = target.sample_unpinned if is_pinned else target.sample
        return tf.nest.flatten(draw(num_chains, seed=seed))

    if own is None:
        with bijectors.mended(takes_logs):
            bijector = target.experimental_default_event_space_bijector()

    def make_bijector():
        return bijector if own is None else own.bijector(target)

    def log_prob(state):
        if own is None:
            return target.unnormalized_log_prob(state)
        parts = target.unnormalized_log_prob_parts(state)
        unpinned, pinned = (parts.unpinned, parts.pinned) if is_pinned else (parts, ())
        kept = [p for i, p in enumerate(tf.nest.flatten(unpinned)) if not own.holds(i)]
        return sum([*kept, *tf.nest.flatten(pinned)])

    return _with_bijector(
        target,
        log_prob,
        make_bijector,
        takes_logs=takes_logs,
        names=_graph_names(target),
        prior=prior,
        is_prior=not is_pinned,
        is_vectorized=getattr(target, 'use_vectorized_map', False),
    )


def _of_gym_model(target):
    _check_dtypes(target.dtype)
    bijector = target.default_event_space_bijector
    if tf.nest.is_nested(bijector):
        bijector = tfb.JointMap(bijector)

    def prior(num_chains, seed):
        return tf.nest.flatten(target.prior_distribution().sample(num_chains, seed=seed))

    return _with_bijector(
        target,
        target.unnormalized_log_prob,
        lambda: bijector,
        prior=prior if hasattr(target, 'prior_distribution') else None,
    )


def _with_bijector(target, log_prob, make_bijector, *, takes_logs=False, names=None, **settings):
    """A `Model` of a log-density in constrained space and the bijector into that space.

    The bijector is made anew for every use, as one with own coordinates counts what it is asked.
    """
    structure = target.dtype
    with bijectors.mended(takes_logs):
        bijector = make_bijector()
    dtypes, own_names = tf.nest.flatten(structure), tuple(part_names(structure))

    def pack(parts):
        # a bijector recognises tensors it has made; new ones keep its cache from the gradient
        return tf.nest.pack_sequence_as(structure, [tf.identity(part) for part in parts])

    def shapes(values):
        return [tf.TensorShape(shape) for shape in _flatten_up_to(structure, values)]

    own_shapes = shapes(target.event_shape)
    if not all(shape.is_fully_defined() for shape in own_shapes):
        raise ValueError(f'`target` must have a static event shape; got {target.event_shape}.')
    packed_shapes = tf.nest.pack_sequence_as(structure, own_shapes)
    event_shapes = tuple(
        tuple(shape.as_list()) for shape in shapes(bijector.inverse_event_shape(packed_shapes))
    )
    empty = [name for name, shape in zip(own_names, event_shapes, strict=True) if 0 in shape]
    if empty:
        raise ValueError(
            f'`target` has nothing to sample in {empty[0]!r}: give it a non-empty event, or, if it '
            'is a tfd.Deterministic, compute it in the model without it.'
        )
    event_ndims = tf.nest.pack_sequence_as(structure, [len(shape) for shape in event_shapes])

    def log_prob_fn(*parts):
        free = pack(parts)
        with bijectors.mended(takes_logs):
            bijector = make_bijector()
            log_det = bijector.forward_log_det_jacobian(free, event_ndims=event_ndims)
            return log_prob(bijector.forward(free)) + log_det

    def constrain(parts):
        with bijectors.mended(takes_logs):
            return tf.nest.flatten(make_bijector().forward(pack(parts)))

    def unconstrain(parts):
        with bijectors.mended(takes_logs):
            return tf.nest.flatten(make_bijector().inverse(pack(parts)))

    return Model(
        log_prob_fn=log_prob_fn,
        names=names if names and len(names) == len(dtypes) else own_names,
        structure=template(structure),
        sampler_structure=list(range(len(dtypes))) if tf.nest.is_nested(structure) else 0,
        constrain=constrain,
        unconstrain=unconstrain,
        event_shapes=event_shapes,
        own_event_ranks=tuple(shape.rank for shape in own_shapes),
        dtype=dtypes[0],
        takes_logs=takes_logs,
        **settings,
    )


def _flatten_up_to(structure, values):
    """What `values` holds at every leaf of `structure`, in the order of `tf.nest.flatten`."""
    if isinstance(structure, Mapping):
        children = [(structure[key], values[key]) for key in sorted(structure)]
    elif isinstance(structure, (list, tuple)):
        children = list(zip(structure, values, strict=True))
    else:
        return [values]
    return [leaf for child in children for leaf in _flatten_up_to(*child)]


def _graph_names(target):
    """Names of the parts of a joint distribution that has a graph but no named fields."""
    if not isinstance(target.dtype, list):
        return None
    joint, pins = getattr(target, 'distribution', target), getattr(target, 'pins', {})
    if not hasattr(joint, 'resolve_graph'):
        return None
    return tuple(name for name, _ in joint.resolve_graph() if name not in pins)


def _check_support(target):
    """Refuses a model without parts, and one whose parts are not all continuous."""
    if not tf.nest.flatten(target.dtype):
        raise ValueError('`target` has no part left to sample: leave one of them without a pin.')
    try:
        bijector = target.experimental_default_event_space_bijector()
        if bijector is not None:
            bijector.inverse_event_shape(target.event_shape)
    except (AttributeError, NotImplementedError):
        bijector = None
    if bijector is None:
        raise TypeError(
            '`target` has a part without a map from the real line onto its support, such as the '
            'counts of a Poisson: pin it with `experimental_pin`, or sum it out of the model. TFP '
            'has none for mixtures, either: pass the `log_prob` of one with an `initial_state`.'
        )


def _check_dtypes(structure):
    """Refuses parts that are not floating point, or of more than one dtype."""
    found = {}
    for name, dtype in zip(part_names(structure), tf.nest.flatten(structure), strict=True):
        found[name] = 'unknown' if dtype is None else tf.as_dtype(dtype).name
        if dtype is None or not tf.as_dtype(dtype).is_floating:
            raise TypeError(
                f'`target` must have floating-point parts only; {name} is of dtype {found[name]}: '
                'pin it with `experimental_pin`, or sum it out of the model.'
            )
        if tf.as_dtype(dtype) not in (tf.float32, tf.float64):
            raise TypeError(
                f'`target` must be a model in float32 or float64; {name} is of dtype '
                f'{found[name]}: build it in one of these.'
            )
    if len(set(found.values())) > 1:
        raise TypeError(
            '`target` must have parts of one dtype; got '
            f'{", ".join(f"{name} {dtype}" for name, dtype in found.items())}: build it in one.'
        )
