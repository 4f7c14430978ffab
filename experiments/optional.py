"""Packages that only the experiments need: a hint instead of a traceback where one is missing."""

import importlib
from types import ModuleType

from experiments.errors import ExperimentError


class MissingPackageError(ExperimentError):
    """An optional package is not installed; the message holds the command that installs it."""


def load(module: str) -> ModuleType:
    """Imports `module`, a dotted name.

    Raises:
      MissingPackageError: if its package is not installed.
    """
    package = module.partition('.')[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f'{package} is not installed: pip install "tfp_adaptive[experiments]"'
        ) from error
