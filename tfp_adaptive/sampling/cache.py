"""Compiled programs kept with the target they sample, for the next call with the same target.

They lie on the target itself, so that they live exactly as long as it does: a table elsewhere,
even one with weak keys, would keep every target alive through the programs that call it.
"""

import collections
import types
import weakref
from collections.abc import Hashable
from typing import Any

_ATTRIBUTE = '_tfp_adaptive_programs'
_MAX_ENTRIES = 16


class _Entries:
    """The most recent entries of one owner; empty in a copy and in a pickle."""

    def __init__(self, owner: Any = None):
        self._owner = None if owner is None else weakref.ref(owner)
        self.values: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()

    def belong_to(self, owner):
        return self._owner is not None and self._owner() is owner

    def __reduce__(self):
        return _Entries, ()


def lookup(owner: Any, key: Hashable) -> Any:
    """What was last stored for this owner and key, or `None`.

    Args:
      owner: any object; a method stands for its instance.
      key: says all that the value depends on beside the owner.
    """
    owner, key = _resolve(owner, key)
    entries = _entries(owner)
    if entries is None or key not in entries:
        return None
    entries.move_to_end(key)
    return entries[key]


def store(owner: Any, key: Hashable, value: Any) -> Any:
    """Stores `value` and returns it; an owner without attributes keeps nothing.

    Args:
      owner: as for `lookup`.
      key: likewise.
      value: anything but `None`.
    """
    owner, key = _resolve(owner, key)
    entries = _entries(owner)
    if entries is not None:
        entries[key] = value
        while len(entries) > _MAX_ENTRIES:
            entries.popitem(last=False)
    return value


def forget(owner: Any) -> None:
    """Drops everything kept with `owner`.

    Args:
      owner: as for `lookup`.
    """
    entries = _entries(_resolve(owner, None)[0])
    if entries is not None:
        entries.clear()


def _resolve(owner, key):
    if isinstance(owner, types.MethodType):
        return owner.__self__, (owner.__func__, key)
    return owner, key


def _entries(owner):
    try:
        found = vars(owner).get(_ATTRIBUTE)
        if found is None or not found.belong_to(owner):
            # not through setattr, which tf.Module and its kin watch
            found = vars(owner)[_ATTRIBUTE] = _Entries(owner)
    except TypeError:
        return None
    return found.values
