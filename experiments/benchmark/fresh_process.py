"""What has to be measured in a process of its own, such as its peak memory."""

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

from experiments.errors import ExperimentError

_ROOT = pathlib.Path(__file__).parents[2]
_STATUS = pathlib.Path('/proc/self/status')


def run(
    module: str, case: dict[str, Any], name: str, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """The last line that `python -m module` prints, read as JSON.

    Args:
      module: reads a JSON object from its standard input.
      case: that object.
      name: of the case, for errors.
      environment: variables beside those of this process. Default `None`: none.

    Raises:
      ExperimentError: if the process fails.
    """
    done = subprocess.run(
        [sys.executable, '-m', module],
        input=json.dumps(case),
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f'exit status {done.returncode}']
        raise ExperimentError(f'measuring {name} failed: {last[0]}')
    return json.loads(done.stdout.splitlines()[-1])


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
