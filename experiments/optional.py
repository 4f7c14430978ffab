"""Packages that only the experiments need: a hint instead of a traceback where one is missing."""

import importlib
from types import ModuleType

from experiments.errors import ExperimentError


class MissingPackageError(ExperimentError):
    """An optional package is not installed; the message holds the command that installs it."""


def load(module: str, extra: str = 'experiments') -> ModuleType:
    """Imports `module`, a dotted name.

    Args:
      module: what to import.
      extra: of this package, that installs it.

    Raises:
      MissingPackageError: if its package is not installed.
    """
    package = module.partition('.')[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f'{package} is not installed: pip install "tfp_adaptive[{extra}]"'
        ) from error
