"""Steps on a GPU beside a CPU.

The job writes the programs into its folder and measures them here, by JAX. Where there is a GPU,
`experiments/accelerator/measure.py` measures those of a copy of that folder, with JAX and without
TensorFlow; once its `measured-GPU.json` is back, the job has both. What was measured is kept.
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
    optional.load('jax', 'peers')
    own = folder / 'programs'
    programs.export(config, own)
    command = [sys.executable, str(_SCRIPT), str(own), '--peers']
    output = None if progress else subprocess.PIPE
    done = subprocess.run(command, check=False, stdout=output, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise ExperimentError(f'{_SCRIPT.name} failed: {done.stderr.strip().splitlines()[-1]}')
    found = {platform: _measured(own, platform) for platform in programs.PLATFORMS}
    runs = [
        {'platform': platform, **found[platform]['environment'], **row}
        for platform in programs.PLATFORMS
        for row in found[platform]['rows']
    ]
    return Outcome([_table(programs.read_manifest(own), found, config.settings)], runs)


def _measured(folder, platform) -> dict[str, Any]:
    path = folder / f'measured-{platform}.json'
    if not path.exists():
        return {'rows': [], 'environment': {}}
    return json.loads(path.read_text())


def _table(manifest, found, settings) -> Table:
    wanted = [
        ('ours', entry['target'], entry['num_chains'])
        for entry in manifest['programs']
        if entry['platform'] == programs.PLATFORMS[0]
    ]
    first = manifest['programs'][0]['target']
    wanted += [('ChEES-HMC', first, num_chains) for num_chains in settings['peer_chains']]
    rows = [
        _row(key, platform, *(_find(found[other]['rows'], key) for other in (platform, 'CPU')))
        for key in wanted
        for platform in programs.PLATFORMS
    ]
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
            'that of `sample`: one leapfrog step below 100 dimensions, two from there on; a step '
            'of ChEES-HMC is a trajectory. ESS: smallest over q and q^2, from the scatter of the '
            "chains' means, so from 100 chains on only; per second of frozen steps, and of the "
            f'whole run of {settings["num_warmup_steps"]:,} steps of warm-up and '
            f'{settings["num_results"]:,} draws, compilation apart. No run that would take longer '
            f'than {settings["most_seconds"]:g} s. Last column: the means of the coordinates, the '
            f'first hundred, against those of the CPU, which has another seed.'
        ),
    )


def _find(rows, key):
    for row in rows:
        if (row['sampler'], row['target'], row['num_chains']) == key:
            return row
    return None


def _row(key, platform, row, beside) -> list[Any]:
    sampler, target, num_chains = key
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
        _largest_difference(row, beside) if platform != 'CPU' else None,
    ]


def _largest_difference(row, beside) -> float | None:
    """Of two runs' means, in standard errors of the difference."""
    if beside is None or 'means' not in row or 'means' not in beside:
        return None
    difference = np.subtract(row['means'], beside['means'])
    errors = np.hypot(row['standard_errors'], beside['standard_errors'])
    return float(np.abs(difference / errors).max())
