"""Posteriors of the kinds that people bring, with nothing tuned: does the sampler arrive?"""

import collections
import dataclasses
import itertools
import json
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import effective_size
from experiments.benchmark import peers_tfp
from experiments.benchmark.sampling import Problem
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table, rhat
from experiments.targets import Target
from experiments.targets.posteriors import (
    POSTERIORS,
    SAME_IN_OTHER_COORDINATES,
    references,
    uniform_start,
)

_MAX_RHAT, _MAX_ERROR = 1.02, 0.1
_REFERENCE_RHAT = 1.005
_TRIES = 100


@dataclasses.dataclass(frozen=True)
class _Run:
    """What a run of any sampler is judged by.

    Attributes:
      states: [N, C, D], unconstrained.
      max_rhat: over coordinates.
      min_ess: over coordinates and their squares.
      num_gradients: of a chain, warm-up included.
      seconds: of warm-up and sampling.
      is_warned: whether it says itself that something is wrong; `None` for those that never do.
    """

    states: np.ndarray
    max_rhat: float
    min_ess: float
    num_gradients: float
    seconds: float
    is_warned: bool | None


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
                run = _SAMPLERS[sampler](target, width, settings, progress)
                found = [_judge(run, seed, settings, expected) for seed in settings['seeds']]
                records += [
                    {'target': label, 'sampler': sampler, 'width': width, 'seed': seed, **one}
                    for seed, one in zip(settings['seeds'], found, strict=True)
                ]
                rows.append(_row(label, target, width, sampler, found))
    tables = [_summary(records), _table(rows)]
    if len(settings['samplers']) > 1:
        tables.insert(1, _side_by_side(records, settings))
    return Outcome(tables, records)


def robustness_references(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Means and deviations by long runs in float64; those that have not converged are left out.

    Funnels are run in coordinates without one, where there are such.
    """
    settings = config.settings
    kept, rows = {}, []
    for label in _chosen(settings):
        target = POSTERIORS[label]()
        if target.reference is not None:
            continue
        make, bring = SAME_IN_OTHER_COORDINATES.get(label, (POSTERIORS[label], np.asarray))
        run = _ours(None)(make(), settings['width'], settings, progress)(settings['seed'])
        draws = bring(np.asarray(run.states, np.float64))
        min_ess, max_rhat = effective_size.smallest(draws)
        is_good = max_rhat <= _REFERENCE_RHAT
        rows.append([label, target.event_size, f'{max_rhat:.4f}', min_ess, str(is_good)])
        if is_good:
            sd = draws.std(axis=(0, 1))
            kept[label] = {
                'mean': draws.mean(axis=(0, 1)).tolist(),
                'sd': sd.tolist(),
                'standard_error': (sd / np.sqrt(min_ess)).tolist(),
                'source': f'sample, float64, {min_ess:.0f} effective draws',
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


def _ours(kernel: Any) -> Callable:
    """`sample` with a kernel: (target, width, settings, progress) -> (seed -> `_Run`)."""

    def prepare(target, width, settings, progress):
        def run(seed):
            with warnings.catch_warnings(record=True):
                warnings.simplefilter('always')
                found = tfpa.sample(
                    target.log_prob,
                    settings['num_results'],
                    settings['num_warmup_steps'],
                    initial_state=_start(target, width, seed, settings),
                    kernel=kernel,
                    seed=(seed, 1),
                    progress=progress,
                )
            d, timings = found.diagnostics, found.timings
            return _Run(
                states=found.states,
                max_rhat=d.max_rhat,
                min_ess=d.min_ess,
                num_gradients=(d.num_warmup_gradients or 0) + (d.num_sampling_gradients or 0),
                seconds=timings.warmup + timings.sampling,
                is_warned=bool(found.warnings),
            )

        return run

    return prepare


def _tfp_windowed_nuts(target, width, settings, progress) -> Callable:
    """TFP's own, from the same starts."""
    del progress
    problem = Problem(
        target=dataclasses.replace(
            target, initial_state=lambda _, seed: _start(target, width, seed[0], settings)
        ),
        arguments={},
        preconditioner='',
        num_chains=settings['num_chains'],
        num_warmup_steps=settings['num_warmup_steps'],
        num_results=settings['num_results'],
        num_short_results=settings['num_results'],
        max_seconds=np.inf,
    )
    sampler = peers_tfp.windowed_nuts(problem)

    def run(seed):
        draws = sampler(seed)
        min_ess, max_rhat = effective_size.smallest(draws.states.astype(np.float64))
        return _Run(
            states=draws.states,
            max_rhat=max_rhat,
            min_ess=min_ess,
            num_gradients=draws.num_warmup_gradients + draws.num_gradients,
            seconds=draws.warmup_seconds + draws.sampling_seconds,
            is_warned=None,
        )

    return run


_SAMPLERS = {
    'sample': _ours(None),
    'WindowedNUTS': _ours(tfpa.WindowedNUTS),
    'TFP windowed NUTS': _tfp_windowed_nuts,
}


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


def _judge(run, seed, settings, expected):
    try:
        found = run(seed)
    except ValueError as problem:
        return {'verdict': 'fail', 'is_warned': True, 'error': str(problem)}
    error = None
    if expected is not None:
        mean = np.asarray(found.states, np.float64).mean(axis=(0, 1))
        error = float(np.max(np.abs(mean - expected.mean) / np.asarray(expected.sd)))
    if not found.max_rhat < _MAX_RHAT:
        verdict = 'fail'
    elif error is None:
        verdict = 'no reference'
    else:
        verdict = 'pass' if error < _MAX_ERROR else 'fail'
    return {
        'verdict': verdict,
        'is_warned': found.is_warned,
        'max_rhat': found.max_rhat,
        'largest_error': error,
        'min_ess': found.min_ess,
        'num_gradients': found.num_gradients,
        'ess_per_gradient': found.min_ess / found.num_gradients / settings['num_chains'],
        'ess_per_second': found.min_ess / found.seconds,
    }


def _row(label, target, width, sampler, found):
    def middle(key):
        values = [one[key] for one in found if one.get(key) is not None]
        return float(np.median(values)) if values else None

    max_rhat, error = middle('max_rhat'), middle('largest_error')
    return [
        label,
        target.event_size,
        f'{width:g}',
        sampler,
        ', '.join(one['verdict'] for one in found),
        _count_of_warned(found),
        None if max_rhat is None else rhat(max_rhat),
        None if error is None else f'{error:.3f}',
        middle('min_ess'),
        middle('ess_per_gradient'),
        middle('ess_per_second'),
    ]


def _count_of_warned(found) -> str | None:
    """Of runs that may warn; `None` for a sampler that never does."""
    said = [one['is_warned'] for one in found if one['is_warned'] is not None]
    return f'{sum(said)} of {len(found)}' if said else None


def _summary(records) -> Table:
    rows = []
    for width, sampler in sorted({(one['width'], one['sampler']) for one in records}):
        own = [one for one in records if (one['width'], one['sampler']) == (width, sampler)]
        passed = sum(one['verdict'] == 'pass' for one in own)
        judged = sum(one['verdict'] != 'no reference' for one in own)
        failed = [one for one in own if one['verdict'] == 'fail']
        silent = sum(one['is_warned'] is False for one in failed)
        can_warn = any(one['is_warned'] is not None for one in own)
        rows.append([f'{width:g}', sampler, f'{passed} of {judged}', silent if can_warn else None])
    columns = ['starts within', 'sampler', 'runs that pass', 'runs that fail without a warning']
    return Table('Runs that pass', columns, rows)


def _side_by_side(records, settings) -> Table:
    """The first sampler beside each of the others, on the same starts."""
    runs = {
        (one['width'], one['sampler'], one['target'], one['seed']): one
        for one in records
        if one['verdict'] != 'no reference'
    }
    first, *others = settings['samplers']
    rows = []
    for width, other in itertools.product(settings['widths'], others):
        pairs = [
            (own, runs[(w, other, target, seed)])
            for (w, sampler, target, seed), own in runs.items()
            if (w, sampler) == (width, first) and (w, other, target, seed) in runs
        ]
        passes = collections.Counter(
            tuple(one['verdict'] == 'pass' for one in pair) for pair in pairs
        )
        both = [pair for pair in pairs if all(one['verdict'] == 'pass' for one in pair)]
        ratios = []
        for figure in ('ess_per_gradient', 'ess_per_second'):
            times = [own[figure] / one[figure] for own, one in both]
            ratios += [float(np.median(times)), min(times)] if times else [None, None]
        outcomes = ((True, True), (True, False), (False, True), (False, False))
        rows.append([f'{width:g}', other, *(passes[outcome] for outcome in outcomes), *ratios])
    return Table(
        title=f'{first} beside the others',
        columns=[
            *('starts within', 'other', 'both pass', f'only {first}', 'only the other', 'neither'),
            *('x / gradient', 'least x / gradient', 'x / s', 'least x / s'),
        ],
        rows=rows,
        note=(
            f'Runs that have a verdict with both. x: min ESS of {first} relative to that of the '
            'other, median and least over the runs that both pass.'
        ),
    )


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
