"""What `sample` may be given as a target, brought to one form: a log-density of free parts.

A target comes as a log-density callable, or as a model that knows its own parts: see `models`. A
sampler wants a log-density on unconstrained parts; a user wants draws in the space and the
structure of the model. `Model` holds both and the way between them. Shapes: a state has
[*batch, *event] in every part.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling.coordinates import part_names


def _unchanged(parts):
    """The parts as they are."""
    return parts


@dataclass(frozen=True, eq=False)
class Model:
    """A target as the sampler sees it, and the way back to the model's own space.

    Attributes:
      log_prob_fn: callable of unconstrained parts [*batch, *event] -> [*batch], with the
        log-determinant of the Jacobian.
      names: one for every part.
      structure: a nest with one leaf for every part: the form of the draws.
      sampler_structure: likewise, the form of the state that the kernel sees.
      constrain: list of unconstrained parts -> list of parts in the model's space; `None` if these
        are the same.
      unconstrain: its inverse.
      event_shapes: of the unconstrained parts; empty if the initial state decides.
      own_event_ranks: ranks of the events in the model's space, likewise.
      dtypes: of the parts, likewise.
      prior: (num_chains, seed) -> list of parts in the model's space, or `None`.
      is_prior: whether the target is the prior itself.
      needs_batch_check: whether the log-density of a chain may come to depend on the others.
      is_vectorized: whether it was written for one chain and is mapped over several.
    """

    log_prob_fn: Callable
    names: tuple[str, ...]
    structure: Any
    sampler_structure: Any
    constrain: Callable | None = None
    unconstrain: Callable = _unchanged
    event_shapes: tuple[tuple[int, ...], ...] = ()
    own_event_ranks: tuple[int, ...] = ()
    dtypes: tuple[Any, ...] = ()
    prior: Callable | None = None
    is_prior: bool = False
    needs_batch_check: bool = False
    is_vectorized: bool = False


def from_callable(target: Callable, initial_state: Any) -> Model:
    """A `Model` of a log-density whose state has the structure of `initial_state`.

    Args:
      target: called with the state if that is one tensor, with its items if it is a list or a
        tuple, and by keyword if it is a dict.
      initial_state: a nest.
    """
    names = tuple(part_names(initial_state))
    structure = template(initial_state)
    if _is_flat(initial_state):
        return Model(target, names, structure, structure)

    def log_prob_fn(*parts):
        state = tf.nest.pack_sequence_as(structure, list(parts))
        return target(**state) if isinstance(state, Mapping) else target(*state)

    return Model(log_prob_fn, names, structure, list(range(len(names))))


def check_kind(target: Any) -> None:
    """Refuses what is no log-density.

    Args:
      target: as `sample` was given it; no model.

    Raises:
      TypeError: if it is a class, a generator function or nothing that can be called.
    """
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


def check_call(target: Callable, initial_state: Any) -> None:
    """Refuses a state that a log-density cannot be called with.

    Args:
      target: a log-density.
      initial_state: a nest of tensors.

    Raises:
      TypeError: if the number or the names of the parts do not fit the signature.
    """
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


def template(structure):
    """The same nest with the number of each leaf in its place.

    Args:
      structure: a nest.
    """
    if not tf.nest.is_nested(structure):
        return 0
    count = len(tf.nest.flatten(structure))
    return tf.nest.pack_sequence_as(structure, list(range(count)))


def _is_flat(state):
    """Whether a kernel takes such a state as it is."""
    if isinstance(state, Mapping):
        return False
    items = state if isinstance(state, (list, tuple)) else [state]
    return not any(tf.nest.is_nested(item) for item in items)
