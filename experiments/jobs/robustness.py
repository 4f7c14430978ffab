"""Posteriors of the kinds that people bring, with nothing tuned: does the sampler arrive?"""

import json
import pathlib
import time
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table
from experiments.targets import Target
from experiments.targets.posteriors import POSTERIORS, references, uniform_start

_SAMPLERS = {'sample': None, 'WindowedNUTS': tfpa.WindowedNUTS}
_MAX_RHAT, _MAX_ERROR = 1.02, 0.1
_REFERENCE_RHAT = 1.005
_TRIES = 100


def robustness(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every sampler on every posterior from starts of every width, and judges the draws."""
    del folder
    settings = config.settings
    _check(settings)
    rows, records = [], []
    for label in _chosen(settings):
        target = POSTERIORS[label]()
        expected = references.reference(label, target)
        for width in settings['widths']:
            for sampler in settings['samplers']:
                found = [
                    _judge(target, sampler, width, seed, settings, expected, progress)
                    for seed in settings['seeds']
                ]
                records += [
                    {'target': label, 'sampler': sampler, 'width': width, 'seed': seed, **one}
                    for seed, one in zip(settings['seeds'], found, strict=True)
                ]
                rows.append(_row(label, target, width, sampler, found))
    return Outcome([_summary(records), _table(rows)], records)


def robustness_references(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Means and deviations by long runs in float64; those that have not converged are left out."""
    settings = config.settings
    kept, rows = {}, []
    for label in _chosen(settings):
        target = POSTERIORS[label]()
        if target.reference is not None:
            continue
        run, _ = _run(target, 'sample', settings['width'], settings['seed'], settings, progress)
        draws = np.asarray(run.states, np.float64)
        d = run.diagnostics
        is_good = d.max_rhat <= _REFERENCE_RHAT
        rows.append([label, target.event_size, f'{d.max_rhat:.4f}', d.min_ess, str(is_good)])
        if is_good:
            sd = draws.std(axis=(0, 1))
            kept[label] = {
                'mean': draws.mean(axis=(0, 1)).tolist(),
                'sd': sd.tolist(),
                'standard_error': (sd / np.sqrt(d.min_ess)).tolist(),
                'source': f'sample, float64, {d.min_ess:.0f} effective draws',
            }
    (folder / references.FILE.name).write_text(json.dumps(kept, indent=1) + '\n')
    columns = ['posterior', 'd', 'max R-hat', 'min ESS', 'kept']
    return Outcome([Table('Long runs for reference', columns, rows)], [])


def _check(settings):
    unknown = set(settings['samplers']) - set(_SAMPLERS)
    if unknown:
        raise ConfigError(
            f'samplers={",".join(sorted(unknown))} is none of {", ".join(_SAMPLERS)}.'
        )


def _chosen(settings):
    only = settings['only'] or list(POSTERIORS)
    unknown = set(only) - set(POSTERIORS)
    if unknown:
        raise ConfigError(
            f'only={",".join(sorted(unknown))} names no posterior; there are '
            f'{", ".join(POSTERIORS)}.'
        )
    return only


def _run(target, sampler, width, seed, settings, progress):
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter('always')
        run = tfpa.sample(
            target.log_prob,
            settings['num_results'],
            settings['num_warmup_steps'],
            initial_state=_start(target, width, seed, settings),
            kernel=_SAMPLERS[sampler],
            seed=(seed, 1),
            progress=progress,
        )
    return run, time.perf_counter() - begin


def _start(target: Target, width: float, seed: int, settings: dict[str, Any]) -> tf.Tensor:
    """uniform(-width, width) where the density and its gradient are finite, as Stan starts."""
    num_chains = settings['num_chains']
    candidates = uniform_start(target.event_size, width)(_TRIES * num_chains, (seed, 0))
    candidates = tf.cast(candidates, settings['dtype'])
    with tf.GradientTape() as tape:
        tape.watch(candidates)
        log_prob = target.log_prob(candidates)
    gradient = tape.gradient(log_prob, candidates)
    is_finite = tf.math.is_finite(log_prob + tf.reduce_sum(gradient, axis=-1))
    return tf.boolean_mask(candidates, is_finite)[:num_chains]


def _judge(target, sampler, width, seed, settings, expected, progress):
    try:
        run, seconds = _run(target, sampler, width, seed, settings, progress)
    except ValueError as problem:
        return {'verdict': 'fail', 'is_warned': True, 'error': str(problem)}
    d, timings = run.diagnostics, run.timings
    gradients = d.num_warmup_gradients + d.num_sampling_gradients
    error = None
    if expected is not None:
        mean = np.asarray(run.states, np.float64).mean(axis=(0, 1))
        error = float(np.max(np.abs(mean - expected.mean) / np.asarray(expected.sd)))
    has_mixed = d.max_rhat < _MAX_RHAT
    if not has_mixed:
        verdict = 'fail'
    elif error is None:
        verdict = 'no reference'
    else:
        verdict = 'pass' if error < _MAX_ERROR else 'fail'
    return {
        'verdict': verdict,
        'is_warned': bool(run.warnings),
        'max_rhat': d.max_rhat,
        'largest_error': error,
        'min_ess': d.min_ess,
        'num_divergences': d.num_divergences,
        'num_restarts': d.num_restarts,
        'num_gradients': gradients,
        'ess_per_gradient': d.min_ess / gradients / settings['num_chains'],
        'ess_per_second': d.min_ess / (timings.warmup + timings.sampling),
        'seconds': seconds,
    }


def _row(label, target, width, sampler, found):
    def middle(key):
        values = [one[key] for one in found if one.get(key) is not None]
        return float(np.median(values)) if values else None

    rhat, error = middle('max_rhat'), middle('largest_error')
    return [
        label,
        target.event_size,
        f'{width:g}',
        sampler,
        ', '.join(one['verdict'] for one in found),
        f'{sum(one["is_warned"] for one in found)} of {len(found)}',
        None if rhat is None else f'{rhat:.3f}',
        None if error is None else f'{error:.3f}',
        middle('min_ess'),
        middle('ess_per_gradient'),
        middle('ess_per_second'),
    ]


def _summary(records) -> Table:
    rows = []
    for width, sampler in sorted({(one['width'], one['sampler']) for one in records}):
        own = [one for one in records if (one['width'], one['sampler']) == (width, sampler)]
        passed = sum(one['verdict'] == 'pass' for one in own)
        judged = sum(one['verdict'] != 'no reference' for one in own)
        silent = sum(one['verdict'] == 'fail' and not one['is_warned'] for one in own)
        rows.append([f'{width:g}', sampler, f'{passed} of {judged}', silent])
    columns = ['starts within', 'sampler', 'runs that pass', 'runs that fail without a warning']
    return Table('Runs that pass', columns, rows)


def _table(rows) -> Table:
    return Table(
        title='Posteriors with nothing tuned',
        columns=[
            *('posterior', 'd', 'starts within', 'sampler', 'verdict', 'warned', 'max R-hat'),
            *('largest error / sd', 'min ESS', 'min ESS / gradient', 'min ESS / s'),
        ],
        rows=rows,
        note=(
            f'A run passes if R-hat is below {_MAX_RHAT} and every mean within {_MAX_ERROR} '
            'standard deviations of the reference, all of the unconstrained coordinates. Starts '
            'are uniform on (-w, w). Gradients and seconds hold the warm-up, seconds without '
            'compilation. Medians over seeds.'
        ),
    )
