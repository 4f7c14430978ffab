"""Steps on a GPU beside a CPU.

The job writes the programs into its folder and measures them here, by JAX. Where there is a GPU,
`experiments/accelerator/measure.py` measures those of a copy of that folder, with JAX and without
TensorFlow; once its `measured-GPU.json` is back, the job has both. A program that has not changed
is not measured again, and one that has is.
"""

import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

from experiments import accelerator, optional
from experiments.accelerator import programs
from experiments.config import Config
from experiments.errors import ExperimentError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table

_SCRIPT = pathlib.Path(accelerator.__file__).parent / 'measure.py'
_NOT_MEASURED = 'not measured'


def accelerator_steps(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Exports, measures here, and joins what was measured elsewhere."""
    for package in ('jax', 'blackjax', 'optax'):
        optional.load(package, 'peers')
    own = folder / 'programs'
    entries, peers = programs.export(config, own)
    command = [sys.executable, str(_SCRIPT), str(own), '--peers']
    output = None if progress else subprocess.DEVNULL
    done = subprocess.run(command, check=False, stdout=output, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f'exit status {done.returncode}']
        raise ExperimentError(f'{_SCRIPT.name} failed: {last[0]}')
    found = {platform: _measured(own, platform) for platform in programs.PLATFORMS}
    runs = [
        {'platform': platform, **found[platform]['environment'], **row}
        for platform in programs.PLATFORMS
        for row in found[platform]['rows']
    ]
    return Outcome([_table(entries, peers, found, config.settings)], runs)


def _measured(folder, platform) -> dict[str, Any]:
    path = folder / f'measured-{platform}.json'
    if not path.exists():
        return {'rows': [], 'environment': {}}
    return json.loads(path.read_text())


def _table(entries, peers, found, settings) -> Table:
    wanted = [
        ('ours', entry['target'], entry['num_chains'], entry['platform'], entry['steps']['file'])
        for entry in entries
    ]
    wanted += [
        ('ChEES-HMC (diagonal)', peer['target'], peer['num_chains'], platform, peer['program'])
        for peer in peers
        for platform in programs.PLATFORMS
    ]
    rows: list[list[Any]] = []
    on_the_cpu = None
    for *what, platform, program in wanted:
        row = _find(found[platform]['rows'], program)
        on_the_cpu = row if platform == 'CPU' else on_the_cpu
        rows.append(_row(what, platform, row, on_the_cpu))
    devices = {
        platform: '{device}, {cores} cores, JAX {jax}'.format(**found[platform]['environment'])
        for platform in programs.PLATFORMS
        if found[platform]['environment']
    }
    return Table(
        title='Steps on an accelerator',
        columns=[
            'sampler',
            'target',
            'd',
            'chains',
            'device',
            'compile s',
            'gradient, us',
            'frozen step, us',
            'learning step, us',
            'million steps of a chain / s',
            'acceptance',
            'ESS / step of a chain',
            'ESS / s',
            'with warm-up',
            'largest z beside the CPU',
        ],
        rows=rows,
        note=(
            'Devices: '
            + '; '.join(f'{platform}: {device}' for platform, device in devices.items())
            + '. All chains together; a gradient is a log-density with its gradient. The kernel is '
            'EntropyAdaptiveHMC: one leapfrog step below 100 dimensions, two from there on; a step '
            'of ChEES-HMC is a trajectory. ESS: smallest over q and q^2, from the scatter of the '
            "chains' means, so from 100 chains on only; per second of frozen steps, and of the "
            f'whole run of {settings["num_warmup_steps"]:,} steps of warm-up and '
            f'{settings["num_results"]:,} draws, compilation apart. No run that would take longer '
            f'than {settings["most_seconds"]:g} s. Last column: the means of the coordinates, the '
            f'first hundred, against those of the CPU, which has another seed.'
        ),
    )


def _find(rows, program):
    return next((row for row in rows if row['program'] == program), None)


def _row(what, platform, row, on_the_cpu) -> list[Any]:
    sampler, target, num_chains = what
    if row is None:
        return [sampler, target, None, num_chains, platform, _NOT_MEASURED, *[None] * 9]
    min_ess, num_draws = row.get('min_ess'), row['num_results'] * num_chains
    frozen = row['frozen_seconds']
    return [
        sampler,
        target,
        row['num_dims'],
        num_chains,
        platform,
        row['compile_seconds'],
        1e6 * row['gradient_seconds'] if 'gradient_seconds' in row else None,
        1e6 * frozen,
        1e6 * row['adaptive_seconds'],
        num_chains / frozen / 1e6,
        row.get('acceptance'),
        min_ess / num_draws if min_ess else None,
        min_ess / (row['num_results'] * frozen) if min_ess else None,
        min_ess / row['run_seconds'] if min_ess else None,
        _largest_difference(row, on_the_cpu) if platform != 'CPU' else None,
    ]


def _largest_difference(row, other) -> float | None:
    """Of two runs' means, in standard errors of the difference."""
    if other is None or 'means' not in row or 'means' not in other:
        return None
    difference = np.subtract(row['means'], other['means'])
    errors = np.hypot(row['standard_errors'], other['standard_errors'])
    return float(np.abs(difference / errors).max())
