"""A checkpoint's state as one HDF5 file that is either whole or refused.

The first 512 bytes, a user block that HDF5 readers skip, hold a mark, the length of the rest and
its SHA-256 sum. The file is replaced in one step: what is read is what was last written in full.
"""

import contextlib
import hashlib
import importlib
import io
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

_MARK = b'tfp_adaptive checkpoint 1'
_HEADER_BYTES = 512

BINARY = getattr(os, 'O_BINARY', 0)
"""Keeps systems that tell text from bytes from translating what is written."""


def check_path(path: str) -> None:
    """Refuses a path at which there can be no checkpoint.

    Args:
      path: absolute.

    Raises:
      FileNotFoundError: if its folder does not exist.
      ImportError: without h5py.
      IsADirectoryError: if it is a folder.
    """
    _h5py()
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"`checkpoint` {path} is a folder: name a file in it, such as '{path}/run.h5'."
        )
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(
            f'`checkpoint` {path} lies in a folder that does not exist: create '
            f'{os.path.dirname(path)}.'
        )


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """What the operating system refuses, in terms of the argument.

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
      arrays: {name: array}; names may hold slashes, which make groups.
      facts: whatever JSON can say.

    Raises:
      ImportError: without h5py.
      OSError: if the file cannot be written.
    """
    content = io.BytesIO()
    with _h5py().File(content, 'w', userblock_size=_HEADER_BYTES) as file:
        file['facts'] = json.dumps(facts, indent=1)
        for name, array in arrays.items():
            file[name] = array
    body = content.getvalue()[_HEADER_BYTES:]
    header = b'%s\n%d\n%s\n' % (_MARK, len(body), hashlib.sha256(body).hexdigest().encode())
    _replace(path, header.ljust(_HEADER_BYTES, b' ') + body)


def read(path: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and facts that were last written to `path`.

    Args:
      path: of the file.

    Raises:
      FileNotFoundError: if there is no file.
      ImportError: without h5py.
      ValueError: if it is no such file, or a damaged one.
    """
    h5py = _h5py()
    with open(path, 'rb') as file:
        content = file.read()
    if not content.startswith(_MARK):
        raise ValueError(
            f'`checkpoint` {path} is no checkpoint that this version of tfp_adaptive can read, and '
            'has been left as it is: choose another path.'
        )
    length, digest = _header(content[:_HEADER_BYTES])
    body = content[_HEADER_BYTES:]
    if len(body) != length:
        raise _damage(path, f'it is cut short, {len(body)} of {length} bytes')
    if hashlib.sha256(body).hexdigest() != digest:
        raise _damage(path, 'its content does not match its SHA-256 sum')
    arrays: dict[str, np.ndarray] = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and name != 'facts':
            arrays[name] = item[()]

    with h5py.File(io.BytesIO(content), 'r') as file:
        file.visititems(visit)
        return arrays, json.loads(file['facts'][()])


def write_all(descriptor: int, content: Any) -> None:
    """Writes all of `content` to an open file, however many calls it takes.

    Args:
      descriptor: of the file.
      content: bytes, or something with their buffer.
    """
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _replace(path, content):
    temporary = f'{path}.tmp'
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o666)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(os.path.abspath(path)))


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


def _header(header):
    try:
        _, length, digest = header.decode('ascii').split('\n')[:3]
        return int(length), digest
    except ValueError:
        return -1, ''


def _damage(path, what):
    return ValueError(
        f'`checkpoint` {path} is damaged: {what}. It has been left as it is; restore it from a '
        'copy, or choose another path to start afresh.'
    )


def _h5py():
    try:
        return importlib.import_module('h5py')
    except ImportError as error:
        raise ImportError('`checkpoint` needs h5py: pip install "tfp_adaptive[checkpoint]".') from (
            error
        )
