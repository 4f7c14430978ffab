"""State structures of any shape as one packed [C, D] tensor, and back.

Shapes: a state is a tensor, or a list, tuple or namedtuple of parts. All parts share B leading
chain dimensions (B = 0 included); what follows is the part's event. C is the product of the chain
dimensions and D the sum of the parts' event sizes, in the order of the parts.
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.typing import Event


class Layout(NamedTuple):
    """How a state structure maps to [C, D]; static but for the chain dimensions."""

    batch_rank: int
    event_shapes: tuple
    event: Event

    @property
    def event_size(self) -> int:
        """D."""
        return self.event.size


def to_parts(state: Any) -> list:
    """The parts of a state as float tensors of one dtype.

    Raises:
      TypeError: for a dict, an empty structure, or parts that are not floating point or differ
        in dtype.
    """
    if isinstance(state, dict):
        raise TypeError(
            '`current_state` is a dict, whose order of parts TFP does not define; '
            'pass a list, tuple or namedtuple of tensors instead.'
        )
    parts = list(state) if isinstance(state, (list, tuple)) else [state]
    if not parts:
        raise TypeError('`current_state` holds no tensor; pass at least one part.')
    parts = [_to_tensor(index, part) for index, part in enumerate(parts)]
    dtypes = sorted({part.dtype.name for part in parts})
    if len(dtypes) > 1 or not parts[0].dtype.is_floating:
        raise TypeError(
            'all parts of `current_state` must share one floating dtype; '
            f'cast them with tf.cast. Got: {", ".join(dtypes)}.'
        )
    return parts


def _to_tensor(index, part):
    try:
        return tf.convert_to_tensor(part, name='current_state')
    except (TypeError, ValueError) as error:
        raise TypeError(
            f'part {index} of `current_state` is {type(part).__name__}, which is no tensor; '
            'pass a flat list, tuple or namedtuple of tensors.'
        ) from error


def like_state(state: Any, parts: list) -> Any:
    """`parts` in the structure of `state`."""
    if not isinstance(state, (list, tuple)):
        return parts[0]
    return tf.nest.pack_sequence_as(state, parts)


def part_names(state: Any) -> tuple | None:
    """Names of the parts of a namedtuple; `None` for other structures."""
    return getattr(state, '_fields', None)


def make_layout(parts: list, batch_shape: tf.TensorShape, names: tuple | None = None) -> Layout:
    """The layout of `parts` whose leading dimensions, as in `batch_shape`, index chains.

    Args:
      parts: of a state.
      batch_shape: shape of its log-density.
      names: of the parts. Default `None`: their positions.

    Raises:
      ValueError: if the rank of `batch_shape` is not static, if a part does not start with it, or
        if an event shape is not static or is empty.
    """
    if batch_shape.rank is None:
        raise ValueError(
            '`target_log_prob_fn` must return a tensor of statically known rank, the number of '
            'chain dimensions; use tf.ensure_shape on its result.'
        )
    batch_rank = batch_shape.rank
    event_shapes = []
    for index, part in enumerate(parts):
        shape = part.shape
        if shape.rank is None:
            raise ValueError(
                f'part {index} of `current_state` must have a static rank; use tf.ensure_shape.'
            )
        if shape.rank < batch_rank or not shape[:batch_rank].is_compatible_with(batch_shape):
            raise ValueError(
                f'`target_log_prob_fn` must return one value per chain, with the leading (chain) '
                f'dimensions of every state part: it returned shape {batch_shape} for part {index} '
                f'of shape {shape}. Sum the log-density over all event dimensions.'
            )
        event = shape[batch_rank:]
        if not event.is_fully_defined() or event.num_elements() == 0:
            raise ValueError(
                f'part {index} of `current_state` must have a static, non-empty event shape '
                f'(dimensions after the first {batch_rank}); got {event}. Use tf.ensure_shape.'
            )
        event_shapes.append(tuple(event.as_list()))
    sizes = tuple(math.prod(shape) for shape in event_shapes)
    names = tuple(range(len(parts))) if names is None else tuple(names)
    return Layout(batch_rank, tuple(event_shapes), Event(sizes, names))


def pack(layout: Layout, parts: list) -> tf.Tensor:
    """Parts [*batch, *event] -> [C, D]."""
    flat = [
        tf.reshape(part, [-1, size]) for part, size in zip(parts, layout.event.sizes, strict=True)
    ]
    return flat[0] if len(flat) == 1 else tf.concat(flat, axis=1)


def unpack(layout: Layout, packed: tf.Tensor, batch_shape: Any, like: list) -> list:
    """[C, D] -> parts [*batch, *event], with the static shapes of the parts `like`."""
    flat = (
        [packed] if len(layout.event.sizes) == 1 else tf.split(packed, layout.event.sizes, axis=1)
    )
    parts = []
    for part, event, template in zip(flat, layout.event_shapes, like, strict=True):
        shape = tf.concat([batch_shape, tf.constant(event, tf.int32, [len(event)])], axis=0)
        part = tf.reshape(part, shape)
        part.set_shape(template.shape)
        parts.append(part)
    return parts


def batch_shape_of(layout: Layout, part: tf.Tensor) -> tf.Tensor:
    """The chain dimensions of a part, as an int32 vector (constant where static)."""
    static = part.shape[: layout.batch_rank]
    if static.is_fully_defined():
        return tf.constant(static.as_list(), tf.int32, [layout.batch_rank])
    return tf.shape(part)[: layout.batch_rank]
