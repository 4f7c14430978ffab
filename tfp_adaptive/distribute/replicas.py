"""Values that live on the replicas of a `tf.distribute` strategy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class LocalValues(NamedTuple):
    """One value for every replica of this process, in the order of their ids.

    Plain tensors in plain structures: they may be saved, pickled and handed back.

    Attributes:
      replicas: tuple of as many structures as this process has replicas.
    """

    replicas: tuple


def replica_ids(strategy: tf.distribute.Strategy) -> tuple:
    """The ids, among all replicas of all processes, of those of this process.

    Args:
      strategy: any strategy whose replicas are known when a program is traced.

    Returns:
      A tuple of Python ints.

    Raises:
      ValueError: for a strategy that places its replicas at run time.
    """
    ids = _local(strategy, strategy.run(_replica_id), 1)
    found = tuple(tf.get_static_value(i) for i in ids)
    if None in found:
        raise ValueError(
            f'`strategy` of type {type(strategy).__name__} numbers its replicas at run time only; '
            'use MirroredStrategy or MultiWorkerMirroredStrategy.'
        )
    return tuple(int(i) for i in found)


def apply(strategy: tf.distribute.Strategy, fn: Callable, *values: LocalValues) -> LocalValues:
    """`fn` of every replica's own values, on that replica.

    Args:
      strategy: whose replicas.
      fn: called once a replica, with that replica's entry of each of `values`.
      values: its arguments.

    Returns:
      What `fn` returned on each replica of this process.
    """
    ids = replica_ids(strategy)

    def on_replica():
        place = ids.index(int(tf.get_static_value(_replica_id())))
        return fn(*(value.replicas[place] for value in values))

    output = strategy.run(on_replica)
    leaves = [_local(strategy, leaf, len(ids)) for leaf in tf.nest.flatten(output)]
    return LocalValues(
        tuple(
            tf.nest.pack_sequence_as(output, [leaf[place] for leaf in leaves])
            for place in range(len(ids))
        )
    )


def split(strategy: tf.distribute.Strategy, state: Any) -> LocalValues:
    """Deals chains to the replicas as evenly as possible, the first replicas one more.

    Args:
      strategy: over whose replicas.
      state: a tensor, list, tuple or namedtuple of parts [C, ...], the same in every process.

    Returns:
      The chains of the replicas of this process, each replica a contiguous block.

    Raises:
      TypeError: if the parts are no tensors.
      ValueError: if the parts have no static number of chains C in common, or there are fewer
        chains than replicas.
    """
    try:
        parts = [
            tf.convert_to_tensor(part, name='current_state') for part in tf.nest.flatten(state)
        ]
    except (TypeError, ValueError) as error:
        raise TypeError(
            '`current_state` must be a tensor [C, ...] or a structure of such tensors; got '
            f'{type(state).__name__}: {error}'
        ) from error
    sizes = {part.shape[0] if part.shape.rank else None for part in parts}
    if len(sizes) != 1 or None in sizes:
        raise ValueError(
            'all parts of `current_state` must start with the same static number of chains; got '
            f'shapes {[str(part.shape) for part in parts]}.'
        )
    (num_chains,), num_replicas = sizes, strategy.num_replicas_in_sync
    if num_chains < num_replicas:
        raise ValueError(
            f'`current_state` holds {num_chains} chains for {num_replicas} replicas; give every '
            'replica at least one.'
        )

    def block(replica):
        first = replica * (num_chains // num_replicas) + min(replica, num_chains % num_replicas)
        count = num_chains // num_replicas + (replica < num_chains % num_replicas)
        return tf.nest.pack_sequence_as(state, [part[first : first + count] for part in parts])

    return LocalValues(tuple(block(replica) for replica in replica_ids(strategy)))


def check_strategy(strategy: Any) -> None:
    """Refuses what is no strategy.

    Args:
      strategy: as the user gave it.

    Raises:
      TypeError: if it is none.
    """
    if not isinstance(strategy, tf.distribute.Strategy):
        raise TypeError(
            f'`strategy` must be a tf.distribute.Strategy; got {type(strategy).__name__}.'
        )


def check_local(
    name: str,
    values: Any,
    ids: tuple,
    fix: str = 'go on with as many as before, or join them with `gather`',
) -> None:
    """Refuses what is not one value for each of the replicas `ids`.

    Args:
      name: of the argument.
      values: as the user gave it.
      ids: of the replicas of this process.
      fix: what to do if there are more or fewer.

    Raises:
      TypeError: if `values` are no `LocalValues`.
      ValueError: if there are more or fewer than replicas.
    """
    if not isinstance(values, LocalValues):
        raise TypeError(
            f'`{name}` must be LocalValues, as an earlier run returned them; '
            f'got {type(values).__name__}.'
        )
    if len(values.replicas) != len(ids):
        raise ValueError(
            f'`{name}` holds {len(values.replicas)} values for {len(ids)} replicas in this '
            f'process; {fix}.'
        )


def _replica_id():
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def _local(strategy, value, num_local):
    """A tuple of one value a local replica; TensorFlow merges those that are the same object."""
    if isinstance(value, tf.distribute.DistributedValues):
        return strategy.experimental_local_results(value)
    return (value,) * num_local
