"""What a checkpoint must have in common with the call that goes on from it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling.targets import information
from tfp_adaptive.sampling.targets.fingerprint import Fingerprint

_POINTS, _LOG_PROBS, _COORDINATES = 'target/points', 'target/log_probs', 'target/coordinates'


def identity(setup: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and facts that tell a run from others.

    Args:
      setup: `setups.Setup`.
    """
    start = setup.start
    arrays = put(_POINTS, start.fingerprint.points)
    arrays[_LOG_PROBS] = np.asarray(start.fingerprint.log_probs)
    own = enumerate(information.as_arrays(start.model))
    arrays.update({f'{_COORDINATES}/{i}': array for i, array in own})
    parts = zip(start.model.names, tf.nest.flatten(start.state), strict=True)
    facts = {
        'settings': setup.descriptions,
        'parts': {name: [part.dtype.name, part.shape.as_list()] for name, part in parts},
        'batch_shape': list(start.batch_shape),
    }
    return arrays, facts


def coordinates(arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Those of `identity` that the coordinates of the target are made from.

    Args:
      arrays: that a checkpoint holds.
    """
    count = sum(name.startswith(f'{_COORDINATES}/') for name in arrays)
    return [arrays[f'{_COORDINATES}/{i}'] for i in range(count)]


def check(path: str, arrays: Mapping, before: Mapping, facts: Mapping, model: Any) -> None:
    """Refuses to go on with another run than the one that was stored.

    Args:
      path: of the checkpoint.
      arrays: that it holds.
      before: facts that it holds.
      facts: of `identity`, now.
      model: `targets.Model`, now.

    Raises:
      ValueError: if they differ.
    """
    for key, argument in (('batch_shape', 'num_chains'), ('parts', 'initial_state')):
        if before[key] != facts[key]:
            raise ValueError(
                f'`checkpoint` {path} holds a run whose {key.replace("_", " ")} is {before[key]}, '
                f'but this call makes it {facts[key]}: pass the `{argument}` and `target` it was '
                'begun with, or choose another path.'
            )
    for setting in sorted({*before['settings'], *facts['settings']}):
        then, now = (each['settings'].get(setting, 'absent') for each in (before, facts))
        if then != now:
            raise ValueError(
                f'`checkpoint` {path} was begun with {setting.removeprefix("settings.")} {then}, '
                f'which is {now} in this call: pass what it was begun with, or choose another path.'
            )
    count = sum(name.startswith(_POINTS) for name in arrays)
    points = [tf.constant(arrays[f'{_POINTS}/{i}']) for i in range(count)]
    mismatch = Fingerprint(points, arrays[_LOG_PROBS]).mismatch(model)
    if mismatch is not None:
        then, now = mismatch
        raise ValueError(
            f'`checkpoint` {path} belongs to another `target`: its log-density is {then:.6g} at a '
            f'point where this one is {now:.6g}; pass the target and the data it was begun with, '
            'or choose another path.'
        )


def put(name: str, structure: Any) -> dict[str, np.ndarray]:
    """The leaves of a nest as named arrays.

    Args:
      name: what their names begin with.
      structure: a nest of tensors.
    """
    leaves = tf.nest.flatten(structure, expand_composites=True)
    return {f'{name}/{i}': np.asarray(leaf) for i, leaf in enumerate(leaves)}


def take(path: str, arrays: Mapping[str, np.ndarray], name: str, like: Any) -> Any:
    """The inverse of `put`.

    Args:
      path: of the checkpoint.
      arrays: of the checkpoint.
      name: as for `put`.
      like: a nest of tensors of the same shapes.

    Raises:
      ValueError: if the arrays are not of these shapes and dtypes.
    """
    leaves = tf.nest.flatten(like, expand_composites=True)
    found = [arrays.get(f'{name}/{i}') for i in range(len(leaves))]
    for leaf, array in zip(leaves, found, strict=True):
        if array is None or leaf.shape != array.shape or leaf.dtype != array.dtype:
            there = 'nothing' if array is None else f'{array.dtype} {list(array.shape)}'
            raise ValueError(
                f'`checkpoint` {path} does not fit this version of tfp_adaptive or of the kernel: '
                f'{name} holds {there} where {leaf.dtype.name} {leaf.shape} is expected; go on '
                'with the version named in the file, or choose another path.'
            )
    tensors = [tf.constant(array) for array in found]
    return tf.nest.pack_sequence_as(like, tensors, expand_composites=True)
