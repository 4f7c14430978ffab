"""Records: everything needed to judge or repeat a run, as JSON."""

import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import platform
import subprocess
from typing import Any

import numpy as np

from experiments.config import Config
from experiments.errors import ExperimentError
from experiments.tables import Table

FILE_NAME = 'record.json'

_ROOT = pathlib.Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True)
class Record:
    """One finished experiment.

    Attributes:
      run_name: name of its folder.
      config: the configuration it ran with, overrides applied.
      environment: versions and machine.
      finished: UTC time, ISO format.
      seconds: wall seconds, everything included; of a run that was interrupted those of its parts.
      tables: what it found, for people.
      runs: what it found, a dict a sampler run.
      figures: file names beside the record.
      commit: of the repository, followed by '+' if files differed from it; '' outside of one.
    """

    run_name: str
    config: dict[str, Any]
    environment: dict[str, Any]
    finished: str
    seconds: float
    tables: list[Table]
    runs: list[dict[str, Any]]
    figures: list[str]
    commit: str = ''


def make(
    config: Config,
    seconds: float,
    tables: list[Table],
    runs: list[dict[str, Any]],
    figures: list[str],
) -> Record:
    """A record of a run that has just finished on this machine."""
    return Record(
        run_name=config.run_name,
        config=dataclasses.asdict(config),
        environment=environment(),
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
        seconds=seconds,
        tables=tables,
        runs=runs,
        figures=figures,
        commit=commit(),
    )


def commit() -> str:
    """Of the repository, followed by '+' if files differ from it; '' outside of one."""
    command = ['git', 'describe', '--always', '--exclude=*', '--dirty=+']
    folder = pathlib.Path(__file__).parent
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ''
    return done.stdout.strip()


def code_digest() -> str:
    """Of all code and settings here and in the package, whether or not they are committed."""
    digest = hashlib.sha256()
    for name in ('experiments', 'tfp_adaptive'):
        folder = _ROOT / name
        for path in sorted(path for end in ('py', 'toml') for path in folder.rglob(f'*.{end}')):
            digest.update(f'{path.relative_to(_ROOT)}'.encode() + path.read_bytes())
    return digest.hexdigest()


def environment() -> dict[str, Any]:
    """Versions and machine."""
    import tensorflow as tf
    import tensorflow_probability as tfp

    import tfp_adaptive as tfpa

    return {
        'tfp_adaptive': tfpa.__version__,
        'tensorflow': tf.__version__,
        'tensorflow_probability': tfp.__version__,
        'numpy': np.__version__,
        'python': platform.python_version(),
        'platform': platform.system(),
        'machine': platform.machine(),
        'processor': _processor(),
        'cpu_count': os.cpu_count(),
        'devices': [device.device_type for device in tf.config.list_physical_devices()],
    }


def _processor() -> str:
    """Model of the processor where Linux tells, else what Python knows."""
    try:
        lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return names[0] if names else platform.processor()


def write(record: Record, folder: pathlib.Path) -> pathlib.Path:
    """Writes `folder`/record.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    content = without_nan(dataclasses.asdict(record))
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + '\n')
    return path


def read(path: pathlib.Path) -> Record:
    """Reads a record back.

    Raises:
      ExperimentError: if the file is no record.
    """
    try:
        content = json.loads(path.read_text())
        content['tables'] = [Table(**table) for table in content['tables']]
        return Record(**content)
    except (ValueError, TypeError, KeyError) as error:
        raise ExperimentError(f'{path} is not a record of an experiment: {error}.') from error


def read_all(folder: pathlib.Path) -> list[Record]:
    """All records below `folder`, by name.

    Raises:
      ExperimentError: if there are none.
    """
    paths = sorted(folder.glob(f'*/{FILE_NAME}'))
    if not paths:
        raise ExperimentError(f'no records in {folder}; run an experiment first.')
    return [read(path) for path in paths]


def without_nan(value: Any) -> Any:
    """JSON knows no NaN or infinity: `None` instead; NumPy scalars as Python's."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
