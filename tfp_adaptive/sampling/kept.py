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


class Kept:
    """The values last kept with one target, by their keys."""

    def __init__(self, entries: collections.OrderedDict, prefix: Hashable = None):
        """Initializes this view.

        Args:
          entries: of the object that the target belongs to.
          prefix: tells the targets of that object apart.
        """
        self._entries, self._prefix = entries, prefix

    def get(self, key: Hashable) -> Any:
        """What was last kept under this key, or `None`.

        Args:
          key: says all that the value depends on beside the target.
        """
        key = self._prefix, key
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: Hashable, value: Any) -> Any:
        """Keeps `value` and returns it.

        Args:
          key: as for `get`.
          value: anything but `None`.
        """
        self._entries[self._prefix, key] = value
        while len(self._entries) > _MAX_ENTRIES:
            self._entries.popitem(last=False)
        return value

    def clear(self) -> None:
        """Drops everything kept with the target, and with others of the same object."""
        self._entries.clear()

    def clear_own(self) -> None:
        """Drops what is kept with the target alone."""
        for key in [key for key in self._entries if key[0] == self._prefix]:
            del self._entries[key]


def kept_with(target: Any) -> Kept:
    """What is kept with a target; an object without attributes keeps nothing after this call.

    Args:
      target: any object; a method belongs to its instance.
    """
    owner, prefix = target, None
    if isinstance(target, types.MethodType):
        owner, prefix = target.__self__, target.__func__
    try:
        attributes = vars(owner)
        found = attributes.get(_ATTRIBUTE)
        if found is None or not found.belong_to(owner):
            # not through setattr, which tf.Module and its kin watch
            found = attributes[_ATTRIBUTE] = _Entries(owner)
    except TypeError:
        found = _Entries()
    return Kept(found.values, prefix)


class _Entries:
    """The entries of one owner; empty in a copy and in a pickle of it."""

    def __init__(self, owner: Any = None):
        self._owner = None if owner is None else weakref.ref(owner)
        self.values: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()

    def belong_to(self, owner):
        return self._owner is not None and self._owner() is owner

    def __reduce__(self):
        return _Entries, ()
