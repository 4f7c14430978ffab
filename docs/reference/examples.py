"""Griffe, which reads the docstrings of the reference, knows an `Examples` section only."""

import re

import griffe


class ExampleSections(griffe.Extension):
    """Shows the section `Example` of a docstring as what it is, code."""

    def on_object(self, *, obj, **kwargs):
        """Renames the section.

        Args:
          obj: what has been loaded.
          **kwargs: how.
        """
        del kwargs
        if obj.docstring:
            obj.docstring.value = re.sub(
                r'^( *)Example:$', r'\1Examples:', obj.docstring.value, flags=re.MULTILINE
            )
