"""The values of all replicas, joined in each process.

Inside a collective an error ends all collectives of the process, and with them whatever the
replicas hold: what can be wrong is looked for before.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.distribute import replicas
from tfp_adaptive.distribute.replicas import LocalValues
from tfp_adaptive.internal import arguments

_SENT_AS_THEY_ARE = (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)
_SENT_AS = {
    tf.bool: tf.int32,
    tf.int8: tf.int32,
    tf.uint8: tf.int32,
    tf.int16: tf.int32,
    tf.uint16: tf.int32,
    tf.uint32: tf.int64,
    tf.uint64: tf.int64,
    tf.bfloat16: tf.float32,
}
"""What TensorFlow cannot gather, and what holds all of its values."""


def gather(strategy: tf.distribute.Strategy, values: LocalValues, axis: int) -> Any:
    """Joins the values of all replicas of all processes along one axis.

    Every process must call it, and each gets the whole: what is gathered has to fit into the
    memory of one device.

    The shapes of all replicas are compared first, so that a wrong `axis` is an error before any of
    the values are sent, the same in every process. Inside a `tf.function` a process knows the
    shapes of its own replicas alone: with several processes call it outside.

    Args:
      strategy: whose replicas hold `values`.
      values: of the replicas of this process; tensors of numbers or bools, of the same shape but
        along `axis`.
      axis: for instance 1, the chains of draws [num_results, C, ...]. If negative, from the last
        axis of each tensor.

    Returns:
      The structure of one replica's value, joined in the order of the replicas' ids.

    Raises:
      TypeError: if `strategy`, `values` or `axis` is not what it must be.
      ValueError: if there are not as many values as replicas, if some tensor has no such `axis`, or
        if the shapes of replicas differ along another one.

    Example:
      >>> strategy = tf.distribute.get_strategy()
      >>> chains = tfpa.distribute.sample_chain(strategy, 5, state, kernel, seed=(0, 1))
      >>> tfpa.distribute.gather(strategy, chains.all_states, axis=1).shape
      TensorShape([5, 4, 3])
    """
    replicas.check_strategy(strategy)
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        raise TypeError(
            '`axis` must be an int, such as 1 for the chains of draws; got '
            f'{arguments.shown(axis)}.'
        )
    values = _tensors(values)
    rows = [[leaf.shape for leaf in tf.nest.flatten(value)] for value in values.replicas]
    axes = [_from_the_front(int(axis), shape) for shape in rows[0]] if rows else []
    if axes and len(rows) < strategy.num_replicas_in_sync and not tf.inside_function():
        rows = _of_all_replicas(strategy, rows)
    for position, *shapes in zip(axes, *rows, strict=True):
        _check_alike(axis, position, shapes)
    return _join(strategy, values, axes)


def _tensors(values: LocalValues) -> LocalValues:
    """The same values as tensors; what else of them must be the same on all replicas, is."""
    if not (isinstance(values, LocalValues) and isinstance(values.replicas, (tuple, list))):
        raise TypeError(
            '`values` must be LocalValues, such as chains.all_states of a run; got '
            f'{arguments.shown(values)}.'
        )
    try:
        values = LocalValues(
            tuple(tf.nest.map_structure(tf.convert_to_tensor, value) for value in values.replicas)
        )
        for value in values.replicas[1:]:
            tf.nest.assert_same_structure(values.replicas[0], value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            '`values` must hold a nest of tensors for every replica, the same nest for each; got '
            f'{[type(value).__name__ for value in values.replicas]}.'
        ) from error
    for leaf, *others in zip(*map(tf.nest.flatten, values.replicas), strict=True):
        if leaf.dtype not in (*_SENT_AS_THEY_ARE, *_SENT_AS):
            raise TypeError(
                f'`values` must hold tensors of numbers or bools; got {leaf.dtype.name}: leave it '
                'out.'
            )
        for other in others:
            if (other.dtype, other.shape.rank) != (leaf.dtype, leaf.shape.rank):
                raise TypeError(
                    '`values` must hold tensors of one dtype and rank for all replicas; got '
                    f'{leaf.dtype.name} {leaf.shape} and {other.dtype.name} {other.shape}.'
                )
    return values


def _from_the_front(axis: int, shape: tf.TensorShape) -> int:
    """Which axis of a tensor of this shape is meant."""
    if shape.rank is None:
        raise ValueError('`values` must hold tensors of static rank: use tf.ensure_shape.')
    if not -shape.rank <= axis < shape.rank:
        raise ValueError(
            f'`axis` is {axis}, which a tensor of shape {shape} in `values` does not have: pass '
            'the axis of the chains, and leave out of `values` what has none.'
        )
    return axis % shape.rank


def _of_all_replicas(
    strategy: tf.distribute.Strategy, rows: list[list[tf.TensorShape]]
) -> list[list[tf.TensorShape]]:
    """The shapes on the replicas of all processes, from those on the replicas of this one."""
    flat = [[size for shape in row for size in shape] for row in rows]
    sent = LocalValues(tuple(tf.constant([row], tf.int32, [1, len(row)]) for row in flat))
    joined = _join(strategy, sent, [0]).numpy().tolist()
    ends = np.cumsum([0, *(shape.rank for shape in rows[0])])
    return [[tf.TensorShape(row[a:b]) for a, b in itertools.pairwise(ends)] for row in joined]


def _check_alike(axis: int, position: int, shapes: Sequence[tf.TensorShape]) -> None:
    """Refuses one tensor of every replica if the shapes differ along another axis."""
    sizes = [
        {size for size in same if size is not None}
        for same in zip(*(shape.as_list() for shape in shapes), strict=True)
    ]
    apart = [place for place, found in enumerate(sizes) if len(found) > 1]
    if apart and apart != [position]:
        found = ' and '.join(dict.fromkeys(map(str, shapes)))
        fix = f'pass axis={apart[0]}' if len(apart) == 1 else 'no axis joins them'
        raise ValueError(
            f'`axis` is {axis}, but replicas hold tensors of the shapes {found}, which may differ '
            f'along that axis alone: {fix}.'
        )


def _join(strategy: tf.distribute.Strategy, values: LocalValues, axes: list[int]) -> Any:
    """The values of all replicas, each leaf along its own axis."""

    def joined(values):
        ids = replicas.replica_ids(strategy)
        replicas.check_local('values', values, ids, 'gather with the strategy of the run')

        def on_replica(value):
            leaves = zip(tf.nest.flatten(value), axes, strict=True)
            return tf.nest.pack_sequence_as(value, [_joined(leaf, axis) for leaf, axis in leaves])

        return replicas.apply(strategy, on_replica, values).replicas[0]

    return joined(values) if tf.inside_function() else tf.function(joined, autograph=False)(values)


def _joined(x: tf.Tensor, axis: int) -> tf.Tensor:
    """One tensor of this replica, and those of the others."""
    # a tensor of this replica's own: TensorFlow reads the device to gather on off it
    sent = tf.cast(tf.identity(x), _SENT_AS.get(x.dtype, x.dtype))
    return tf.cast(tf.distribute.get_replica_context().all_gather(sent, axis), x.dtype)
