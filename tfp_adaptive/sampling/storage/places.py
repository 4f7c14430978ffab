"""Whether there can be a checkpoint at a path, and who may write it."""

import importlib
import os

from tfp_adaptive.sampling import user_code


def check_path(path: str) -> None:
    """Refuses a path at which there can be no checkpoint.

    Args:
      path: absolute.

    Raises:
      FileNotFoundError: if its folder does not exist.
      IsADirectoryError: if it is a folder.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"`checkpoint` {path} is a folder: name a file in it, such as '{path}/run.npz'."
        )
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(
            f'`checkpoint` {path} lies in a folder that does not exist: create '
            f'{os.path.dirname(path)}.'
        )


def locked(folder: str, path: str) -> int | None:
    """A descriptor of the folder of the rows, which one process at a time may hold.

    Args:
      folder: it is made where there is none.
      path: of the checkpoint, for what is said.

    Returns:
      `None` where files cannot be locked.

    Raises:
      OSError: if the folder cannot be made.
      ValueError: if another process holds it.
    """
    os.makedirs(folder, exist_ok=True)
    try:
        fcntl = importlib.import_module('fcntl')
    except ImportError:  # not every system has it
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise ValueError(
            f'`checkpoint` {path} is in use by another run: wait for it, or choose another path.'
        ) from error
    except OSError as error:
        os.close(descriptor)
        user_code.warn(
            f'`checkpoint` {path} lies where files cannot be locked ({error.strerror}): see that '
            'no other run uses it.'
        )
        return None
    return descriptor
