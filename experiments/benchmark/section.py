"""What a section of the benchmark is, and what it leaves behind."""

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

from experiments import config as configs
from experiments import records
from experiments.config import Config
from experiments.errors import ExperimentError
from experiments.tables import Table

SETTINGS = pathlib.Path(__file__).parent / 'settings'

PEERS = ('jax', 'blackjax', 'numpyro', 'nutpie', 'pymc', 'emcee')
"""Packages of other samplers."""
SELECTIONS = ('only', 'samplers')
"""Settings that say which units are wanted, and change no unit."""


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the benchmark that can run alone.

    Attributes:
      name: of its settings file.
      units: config -> (key, function that measures) in the order to run; a unit's result is a dict
        of JSON values, and is kept as soon as it is there.
      tables: (config, {key: result}) -> tables of the units there are.
      draw: (config, {key: result}, folder) -> names of the figures it wrote.
    """

    name: str
    units: Callable[[Config], Iterator[tuple[str, Callable[[], dict[str, Any]]]]]
    tables: Callable[[Config, dict[str, Any]], list[Table]]
    draw: Callable[[Config, dict[str, Any], pathlib.Path], list[str]] = lambda *_: []


@dataclasses.dataclass(frozen=True)
class Unit:
    """One measurement.

    Attributes:
      result: what was found.
      finished: UTC time, ISO format.
      seconds: it took.
      load: load average of the last minute when it ended.
      commit: of the repository, followed by '+' if files differed from it; '' outside of one.
    """

    result: dict[str, Any]
    finished: str
    seconds: float
    load: float
    commit: str = ''


class Ledger:
    """The units of one section, on disk after each of them.

    The file is named after the settings that differ from the defaults, so that results of
    different settings never mix; a file left by other defaults is put aside, under the time of its
    last measurement.
    """

    def __init__(self, folder: pathlib.Path, config: Config):
        """Reads what is there.

        Args:
          folder: of the benchmark's results.
          config: of the section.

        Raises:
          ExperimentError: if the file is not one of a section.
        """
        self.path = folder / f'{_without_selections(config).run_name}.json'
        self.settings = _fingerprint(config)
        self.units: dict[str, Unit] = {}
        self.environment: dict[str, Any] = {}
        self._is_of_others = False
        if self.path.is_file():
            self._read()

    def _read(self):
        try:
            content = json.loads(self.path.read_text())
            self._is_of_others = content['settings'] != self.settings
            if self._is_of_others:
                return
            self.environment = content['environment']
            self.units = {key: Unit(**unit) for key, unit in content['units'].items()}
        except (ValueError, TypeError, KeyError) as error:
            raise ExperimentError(f'{self.path} holds no results: {error}.') from error

    def is_done(self, key: str) -> bool:
        """Whether a unit need not be measured again; one that could not be is tried again.

        Unless its result says that it `is_skipped`.
        """
        if key not in self.units:
            return False
        result = self.units[key].result
        return 'unavailable' not in result or 'is_skipped' in result

    @property
    def results(self) -> dict[str, Any]:
        """{key: result}."""
        return {key: unit.result for key, unit in self.units.items()}

    def check_environment(self) -> None:
        """Checks that what is there was measured on this machine with these versions.

        Raises:
          ExperimentError: if it was not.
        """
        here = _environment()
        for name, value in self.environment.items():
            if name in here and here[name] != value:
                raise ExperimentError(
                    f'{self.path} was measured with {name} {value}; here it is {here[name]}: '
                    f'measure into another --output, or remove the file.'
                )

    def put(self, key: str, result: dict[str, Any], seconds: float) -> None:
        """Keeps a unit that has just been measured on this machine."""
        if self.path.is_file() and not self._is_of_others:
            self._read()  # another process may measure other units
        self.environment = _environment()
        finished = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
        self.units[key] = Unit(
            records.without_nan(result), finished, seconds, os.getloadavg()[0], records.commit()
        )
        content = {
            'settings': self.settings,
            'environment': self.environment,
            'units': {key: dataclasses.asdict(unit) for key, unit in self.units.items()},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._is_of_others:
            self._put_aside()
        scratch = self.path.with_suffix('.partial')
        scratch.write_text(json.dumps(content, indent=1, allow_nan=False) + '\n')
        scratch.replace(self.path)

    def _put_aside(self):
        when = datetime.datetime.fromtimestamp(self.path.stat().st_mtime, datetime.UTC)
        aside = self.path.with_suffix(f'.json.until-{when:%Y%m%dT%H%M%S%f}')
        self.path.replace(aside)
        print(f'{self.path} was measured with other settings: put aside as {aside.name}.')
        self._is_of_others = False


def _environment() -> dict[str, Any]:
    return {**records.environment(), **_versions(PEERS)}


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Of the packages that are installed."""
    found = {}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def load_settings(name: str, assignments: list[str] | None = None) -> Config:
    """Settings of the section `name`, with 'key=value' `assignments` applied."""
    return configs.read(SETTINGS / f'{name}.toml', assignments)


def _without_selections(config: Config) -> Config:
    overrides = {k: v for k, v in config.overrides.items() if k not in SELECTIONS}
    return dataclasses.replace(config, overrides=overrides)


def _fingerprint(config: Config) -> dict[str, Any]:
    settings = {k: v for k, v in config.settings.items() if k not in SELECTIONS}
    targets = {t['label']: t for t in config.targets}
    return {'settings': settings, 'target': config.target, 'targets': targets}
