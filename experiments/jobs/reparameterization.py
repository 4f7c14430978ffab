"""Joint distributions with own coordinates for their parts, and without."""

import pathlib
import warnings
from typing import Any

import numpy as np

import tfp_adaptive as tfpa
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.robustness.samplers import num_gradients
from experiments.tables import Table, rhat
from experiments.targets.joint_distributions import MODELS


def reparameterization(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """`sample` on each model, twice with every seed."""
    del folder
    settings = config.settings
    labels = settings['only'] or list(MODELS)
    if unknown := set(labels) - set(MODELS):
        raise ConfigError(f'only={",".join(sorted(unknown))} is none of {", ".join(MODELS)}.')
    rows, runs = [], []
    for label in labels:
        target, medians = MODELS[label](), []
        for is_on in (True, False):
            found = [_run(target, is_on, seed, settings, progress) for seed in settings['seeds']]
            runs += [{'target': label, **each} for each in found]
            medians.append(float(np.median([each['ess_per_gradient'] for each in found])))
            rows.append(_row(label, is_on, found, medians[-1]))
        rows[-2].append(medians[0] / medians[1])
        rows[-1].append(1.0)
    table = Table(
        title='Own coordinates for parts of joint distributions',
        columns=[
            *('model', 'own', 'max R-hat', 'warned', 'gradients', 'min ESS'),
            *('min ESS / gradient', 'seconds', 'x / gradient'),
        ],
        rows=rows,
        note=(
            'Own: whether parts whose location or scale depends on others get coordinates that '
            'suit what the data say (`reparameterize`). R-hat is the largest of all seeds, '
            'gradients are the median of those that a chain took, warm-up included, and ESS that '
            'of the smallest over coordinates and their squared deviations, all chains together; '
            'ESS per gradient of all chains. Seconds of warm-up and sampling, without compilation. '
            'x: relative to the row below.'
        ),
    )
    return Outcome([table], runs)


def _run(target, is_on, seed, settings, progress) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', tfpa.sampling.SamplingWarning)
        run = tfpa.sample(
            target,
            settings['num_results'],
            settings['num_warmup_steps'],
            settings['num_chains'],
            reparameterize=is_on,
            seed=seed,
            progress=progress,
        )
    d, gradients = run.diagnostics, num_gradients(run)
    return {
        'reparameterize': is_on,
        'seed': seed,
        'max_rhat': d.max_rhat,
        'min_ess': d.min_ess,
        'num_gradients': gradients,
        'ess_per_gradient': d.min_ess / gradients / settings['num_chains'],
        'seconds': run.timings.warmup + run.timings.sampling,
        'warnings': list(run.warnings),
    }


def _row(label, is_on, found, ess_per_gradient):
    warned = sum(bool(each['warnings']) for each in found)
    return [
        label,
        'yes' if is_on else 'no',
        rhat(max(each['max_rhat'] for each in found)),
        f'{warned} of {len(found)}',
        round(float(np.median([each['num_gradients'] for each in found]))),
        float(np.median([each['min_ess'] for each in found])),
        ess_per_gradient,
        float(np.median([each['seconds'] for each in found])),
    ]
