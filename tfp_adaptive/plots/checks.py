"""Arguments that several pictures take, checked."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def names(given: str | Sequence[str]) -> list[str]:
    """A list of names; one alone may come without it."""
    return [given] if isinstance(given, str) else list(given)


def step_sizes(given: Sequence[float]) -> list[float]:
    """The step sizes of a picture.

    Args:
      given: as the user gave them.

    Raises:
      ValueError: if there is none, or one is not positive.
    """
    found = list(given)
    if not found or not all(np.isfinite(size) and size > 0 for size in found):
        raise ValueError(f'`step_sizes` must be one or more positive numbers; got {found}.')
    return found


def matrix(name: str, given: Any, size: int) -> np.ndarray:
    """A matrix in float64.

    Args:
      name: of the argument.
      given: as the user gave it.
      size: D.

    Raises:
      ValueError: if it is not [D, D].
    """
    found = np.asarray(given, np.float64)
    if found.shape != (size, size):
        raise ValueError(
            f'`{name}` must have shape {(size, size)}, one row for every coordinate; got '
            f'{found.shape}.'
        )
    return found


def cholesky(name: str, covariance: np.ndarray) -> np.ndarray:
    """The factor of a covariance.

    Args:
      name: of the argument that it came from.
      covariance: [D, D].

    Raises:
      ValueError: if it is not positive definite, or not finite.
    """
    try:
        if np.isfinite(covariance).all():
            return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        pass
    raise ValueError(f'`{name}` must be positive definite and finite.')
