"""One preconditioner family for each part of the state, or for several parts together."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfp_adaptive.internal.direct_sum import direct_sum
from tfp_adaptive.typing import Event, EventPreconditioner, Preconditioner


def by_part(families: Mapping[Any, Preconditioner]) -> EventPreconditioner:
    """Says which structure which part of the state has.

    Parts in different groups are taken to be uncorrelated by the proposal; parts in one group are
    seen by its family as one vector, in the order in which the group names them.

    Args:
      families: maps a part, or a tuple of parts, to its `Preconditioner`. A part is the field name
        of a namedtuple state, or a position in a list or tuple. Every part belongs to one group.

    Returns:
      An `EventPreconditioner`; its parameters are a tuple, one entry a group.

    Raises:
      TypeError: if `families` is not a mapping to `Preconditioner`s.
      ValueError: at bootstrap, for parts that are unknown, left out or named twice.

    Example:
      >>> import collections
      >>> State = collections.namedtuple('State', ['path', 'theta'])
      >>> preconditioner = tfpa.preconditioners.by_part({
      ...     'theta': tfpa.preconditioners.cholesky(),
      ...     'path': tfpa.preconditioners.banded(bandwidth=1),
      ... })
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     lambda path, theta: -tf.reduce_sum(path**2, -1) - tf.reduce_sum(theta**2, -1),
      ...     preconditioner=preconditioner)
      >>> results = kernel.bootstrap_results(State(tf.zeros([4, 10]), tf.zeros([4, 3])))
    """
    if not isinstance(families, Mapping) or not families:
        raise TypeError(
            '`families` must map parts of the state to preconditioners, as in '
            f"{{'theta': cholesky(), 'path': banded()}}; got {families!r}."
        )
    for key, family in families.items():
        if not isinstance(family, Preconditioner):
            raise TypeError(
                f'`families`[{key!r}] must be a Preconditioner, such as '
                f'tfp_adaptive.preconditioners.cholesky(); got {family!r}.'
            )
    keys = [tuple(key) if isinstance(key, tuple) else (key,) for key in families]

    def resolve(event: Event) -> Preconditioner:
        _check_cover(keys, event)
        groups = [[event.names.index(part) for part in key] for key in keys]
        return direct_sum(tuple(families.values()), groups, event.sizes)

    return EventPreconditioner(resolve)


def _check_cover(keys: Sequence[tuple], event: Event) -> None:
    named = [part for key in keys for part in key]
    complaints = {
        'unknown': [part for part in named if part not in event.names],
        'named twice': [part for part in event.names if named.count(part) > 1],
        'left out': [part for part in event.names if part not in named],
    }
    for complaint, parts in complaints.items():
        if parts:
            raise ValueError(
                '`families` must name every part of the state once; '
                f'{complaint}: {parts}. The parts are {list(event.names)}.'
            )
