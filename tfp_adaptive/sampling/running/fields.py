"""Reading well-known fields out of any TFP kernel's nested results."""

from typing import Any

_NESTING_FIELDS = ('inner_results', 'accepted_results')


def find_field(kernel_results: Any, name: str) -> Any:
    """The outermost field `name`, looked for through TFP's nesting fields; `None` if absent."""
    if hasattr(kernel_results, name):
        return getattr(kernel_results, name)
    for nesting in _NESTING_FIELDS:
        if hasattr(kernel_results, nesting):
            return find_field(getattr(kernel_results, nesting), name)
    return None
