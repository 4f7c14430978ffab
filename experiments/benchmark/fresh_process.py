"""What has to be measured in a process of its own, such as its peak memory."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from experiments import records
from experiments.errors import ExperimentError

_ROOT = pathlib.Path(__file__).parents[2]
_STATUS = pathlib.Path('/proc/self/status')
PARTS = 'parts'
"""Folder of what the cases of an unfinished experiment have found."""


class TooLongError(ExperimentError):
    """A process did not end in time."""


def run(
    module: str,
    case: dict[str, Any],
    name: str,
    environment: dict[str, str] | None = None,
    max_seconds: float | None = None,
) -> dict[str, Any]:
    """The last line that `python -m module` prints, read as JSON.

    Args:
      module: reads a JSON object from its standard input.
      case: that object.
      name: of the case, for errors.
      environment: variables beside those of this process. Default `None`: none.
      max_seconds: after which the process is ended. Default `None`: never.

    Raises:
      TooLongError: if it has to be.
      ExperimentError: if the process fails.
    """
    try:
        done = subprocess.run(
            [sys.executable, '-m', module],
            input=json.dumps(case),
            capture_output=True,
            text=True,
            cwd=_ROOT,
            env={**os.environ, **(environment or {})},
            check=False,
            timeout=max_seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise TooLongError(f'{name} did not end in {max_seconds:g} s.') from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f'exit status {done.returncode}']
        raise ExperimentError(f'measuring {name} failed: {last[0]}')
    return json.loads(done.stdout.splitlines()[-1])


def keep_each(
    measure: Callable[[dict[str, Any]], dict[str, Any]],
    cases: dict[str, dict[str, Any]],
    folder: pathlib.Path,
    progress: bool,
) -> list[Any]:
    """The `runs` of all cases; what each has found is kept until the experiment has its record.

    So an experiment that was interrupted goes on, unless its code has changed.

    Args:
      measure: from a case to {'runs': list}, in a process of its own: TensorFlow keeps every
        program for ever.
      cases: name -> case, of JSON values.
      folder: of the experiment's results.
      progress: whether to tell of every case.
    """
    runs, code = [], records.code_digest()
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    for name, case in cases.items():
        path = folder / PARTS / f'{re.sub(r"[^-.0-9a-zA-Z]", "-", name)}.json'
        found = json.loads(path.read_text()) if path.exists() else {}
        origin = {'case': case, 'code': code}
        if {key: found.get(key) for key in origin} != origin:
            begin = time.perf_counter()
            found = {**origin, **measure(case), 'seconds': time.perf_counter() - begin}
            scratch = path.with_suffix('.partial')
            scratch.write_text(json.dumps(found))
            scratch.replace(path)
        runs += found['runs']
        if progress:
            print(f'{name}: done', flush=True)
    return runs


def seconds_of_parts(folder: pathlib.Path) -> float:
    """That the cases of `keep_each` took, in all processes, as far as they are kept."""
    paths = (folder / PARTS).glob('*.json')
    return sum(json.loads(path.read_text())['seconds'] for path in paths)


def forget_parts(folder: pathlib.Path) -> None:
    """Removes what `keep_each` has kept."""
    shutil.rmtree(folder / PARTS, ignore_errors=True)


def peak_bytes() -> int:
    """Most memory that this process has held at a time.

    On Linux not that of `getrusage`, which begins with what the process that started this one held.
    """
    if _STATUS.exists():
        found = re.search(r'VmHWM:\s*(\d+) kB', _STATUS.read_text())
        if found:
            return 1024 * int(found[1])
    import resource  # not there on every system

    unit = 1 if sys.platform == 'darwin' else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
