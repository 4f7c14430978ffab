"""Log-density callables as targets."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling.coordinates import part_names, template
from tfp_adaptive.sampling.targets.model import Model


def from_callable(target: Callable, initial_state: Any, dtype: Any = None) -> Model:
    """A `Model` of a log-density whose state has the structure of `initial_state`.

    Args:
      target: called with the state if that is one tensor, with its items if it is a list or a
        tuple, and by keyword if it is a dict.
      initial_state: a nest.
      dtype: of the state. Default `None`: that of `initial_state`.

    Raises:
      TypeError: if `target` is no log-density, or cannot be called with such a state, or if that
        has no parts.
      ValueError: if there is no state.
    """
    _check_kind(target)
    if initial_state is None:
        raise ValueError(
            '`initial_state` is needed when `target` is a log-density callable: pass one point '
            'together with num_chains=10, or one state per chain, [num_chains, ...].'
        )
    if not tf.nest.flatten(initial_state):
        raise TypeError('`initial_state` holds no tensor; pass at least one part.')
    _check_call(target, initial_state)
    names, structure = tuple(part_names(initial_state)), template(initial_state)
    if _is_flat(initial_state):
        return Model(target, names, structure, structure, dtype=dtype)

    def log_prob_fn(*parts):
        state = tf.nest.pack_sequence_as(structure, list(parts))
        return target(**state) if isinstance(state, Mapping) else target(*state)

    return Model(log_prob_fn, names, structure, list(range(len(names))), dtype=dtype)


def _check_kind(target):
    """Refuses what is no log-density."""
    if inspect.isclass(target):
        raise TypeError(
            f'`target` is the class {target.__name__}: pass an instance of it, '
            f'{target.__name__}(...).'
        )
    if inspect.isgeneratorfunction(target):
        raise TypeError(
            '`target` is a generator function: make a model of it with '
            'tfd.JointDistributionCoroutineAutoBatched.'
        )
    if callable(target):
        return
    own = getattr(target, 'log_prob', None)
    hint = ': pass its method `log_prob`' if callable(own) else ''
    raise TypeError(
        '`target` must be a log-density callable, a TFP distribution or an Inference Gym model; '
        f'got {type(target).__name__}{hint}.'
    )


def _check_call(target, initial_state):
    """Refuses a state that a log-density cannot be called with."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    args: list
    kwargs: dict
    if isinstance(initial_state, Mapping):
        args, kwargs = [], dict(initial_state)
        given = f'the keywords {", ".join(map(str, initial_state))}'
    else:
        is_nest = isinstance(initial_state, (list, tuple))
        args, kwargs = list(initial_state) if is_nest else [initial_state], {}
        given = f'{len(args)} positional argument{"s" if len(args) > 1 else ""}'
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f'`target` cannot be called with {given}, as `initial_state` asks ({error}): pass one '
            'array for one argument, a list with an item for each of several, or a dict with a key '
            'for each keyword.'
        ) from error


def _is_flat(state):
    """Whether a kernel takes such a state as it is."""
    if isinstance(state, Mapping):
        return False
    items = state if isinstance(state, (list, tuple)) else [state]
    return not any(tf.nest.is_nested(item) for item in items)
