"""A checkpoint's state as one NumPy archive (npz) that is either whole or refused.

It is replaced in one step, so that what is read is what was last written in full; the archive has a
checksum for each of its arrays. `numpy.load` reads it.
"""

import contextlib
import io
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

_FACTS = 'facts'
_BEGINNING = b'PK'

BINARY = getattr(os, 'O_BINARY', 0)
"""Keeps systems that tell text from bytes from translating what is written."""


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Rewords errors of the operating system, so that they name the argument.

    Args:
      path: of the file that is written.

    Raises:
      OSError: of the same kind.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        kept = 'what was saved before is still there, and the same call goes on from it'
        raise OSError(
            error.errno,
            f'`checkpoint` {path} cannot be written ({error.strerror}): choose a path that can, or '
            f'make room; {kept}.',
        ) from error


def write(path: str, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    """Replaces the file at `path`; on any error what was there before stays.

    Args:
      path: of the file; its folder must exist.
      arrays: {name: array}.
      facts: whatever JSON can say.

    Raises:
      OSError: if the file cannot be written.
    """
    content, temporary = io.BytesIO(), f'{path}.tmp'
    named: dict[str, Any] = {_FACTS: json.dumps(facts), **arrays}
    np.savez(content, **named)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o666)
        try:
            write_all(descriptor, content.getbuffer())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path))


def read(path: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and facts that were last written to `path`.

    Args:
      path: of the file.

    Raises:
      FileNotFoundError: if there is no file.
      ValueError: if it is no such file, or a damaged one.
    """
    with open(path, 'rb') as file:
        content = file.read()
    arrays = _arrays(path, content) if content.startswith(_BEGINNING) else {}
    if _FACTS not in arrays:
        raise ValueError(
            f'`checkpoint` {path} is no checkpoint that this version of tfp_adaptive can read, and '
            'has been left as it is: choose another path.'
        )
    return arrays, json.loads(arrays.pop(_FACTS).item())


def _arrays(path, content):
    try:
        with np.load(io.BytesIO(content)) as archive:
            return dict(archive)
    except Exception as error:  # of many kinds: whatever the first wrong byte leads to
        raise ValueError(
            f'`checkpoint` {path} is damaged ({error}). It has been left as it is; restore it from '
            'a copy, or choose another path to start afresh.'
        ) from error


def write_all(descriptor: int, content: Any) -> None:
    """Writes all of `content` to an open file, however many calls it takes.

    Args:
      descriptor: of the file.
      content: bytes, or something with their buffer.
    """
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(path: str) -> None:
    """Makes sure that the names in a folder are on the disk.

    Args:
      path: of the folder.
    """
    if os.name == 'nt':  # a folder cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
