"""`WindowedNUTS` beside the NUTS of TFP and of BlackJAX with Stan's warm-up, seed by seed in turn.

All start where the others do, and take as many steps. Per gradient, ours is called worse than
another where the means over seeds differ by more than three standard errors of their difference.
"""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import effective_size, targets
from experiments.benchmark import classical, peers_blackjax, peers_tfp
from experiments.benchmark.sampling import Problem, Sampler
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table, rhat, show

OURS, TFP, BLACKJAX = 'WindowedNUTS', 'TFP', 'BlackJAX'
SAMPLERS: dict[str, Callable[[Problem], Sampler]] = {
    OURS: classical.windowed_nuts,
    TFP: peers_tfp.windowed_nuts,
    BLACKJAX: functools.partial(peers_blackjax.nuts, 'diagonal'),
}
_MANY_ERRORS = 3.0
_MAX_RHAT = 1.05
_LENGTHS = ('num_warmup_steps', 'num_results', 'max_seeds')

Runs = dict[str, list[dict[str, Any]]]
"""Sampler -> its runs, one a seed, in the same order for all."""


def windowed_nuts(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs all samplers on every target.

    Raises:
      ConfigError: for an unknown sampler, or without ours.
      MissingPackageError: without a package of the others.
    """
    del folder
    labels = config.settings['samplers']
    if OURS not in labels or set(labels) - set(SAMPLERS):
        raise ConfigError(
            f'samplers={",".join(labels)} must be {OURS} and others of {", ".join(SAMPLERS)}.'
        )
    found = {
        label: _measure(label, arguments, config.settings, progress)
        for label, arguments in config.chosen_targets()
    }
    others = [label for label in labels if label != OURS]
    runs = [run for each in found.values() for own in each.values() for run in own]
    return Outcome([_claims(found, others), _speeds(found, others), _figures(found)], runs)


def _measure(label, arguments, settings, progress) -> Runs:
    options = {key: arguments.pop(key, settings.get(key)) for key in _LENGTHS}
    problem = Problem(
        target=targets.make(**arguments),
        arguments=arguments,
        preconditioner='',
        num_chains=settings['num_chains'],
        num_warmup_steps=options['num_warmup_steps'],
        num_results=options['num_results'],
        num_short_results=options['num_results'],
        max_seconds=np.inf,
    )
    samplers = {name: SAMPLERS[name](problem) for name in settings['samplers']}
    found: Runs = {name: [] for name in samplers}
    for seed in settings['seeds'][: options['max_seeds']]:
        for name, sampler in samplers.items():
            draws = sampler(seed)
            min_ess, max_rhat = effective_size.smallest(draws.states.astype('float32'))
            num_gradients = draws.num_gradients * problem.num_chains
            num_all = num_gradients + draws.num_warmup_gradients * problem.num_chains
            seconds = draws.warmup_seconds + draws.sampling_seconds
            found[name].append(
                {
                    'target': label,
                    'event_size': problem.target.event_size,
                    'sampler': name,
                    'seed': seed,
                    'num_warmup_steps': problem.num_warmup_steps,
                    'num_results': problem.num_results,
                    'min_ess': min_ess,
                    'max_rhat': max_rhat,
                    **draws.costs,
                    'ess_per_gradient': min_ess / num_gradients,
                    'ess_per_gradient_in_all': min_ess / num_all,
                    'ess_per_second': min_ess / draws.sampling_seconds,
                    'ess_per_second_in_all': min_ess / seconds,
                }
            )
            if progress:
                print(f'{label}: {name}: seed {seed}: {min_ess / num_gradients:.3g}', flush=True)
    return found


def verdict(own: Any, other: Any) -> tuple[float, str]:
    """The difference of two means in standard errors, and what it says of the first.

    Args:
      own: values of ours, one a seed.
      other: of the other.

    Returns:
      t, or NaN with a single seed, and 'worse', 'better', 'not told apart' or 'not known'.
    """
    own, other = np.asarray(own, float), np.asarray(other, float)
    if min(len(own), len(other)) < 2:
        return np.nan, 'not known'
    error = np.hypot(_error(own), _error(other))
    t = float((own.mean() - other.mean()) / error)
    words = 'worse' if t < -_MANY_ERRORS else 'better' if t > _MANY_ERRORS else 'not told apart'
    return t, words


def _error(values) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _column(runs, key) -> np.ndarray:
    return np.array([run[key] for run in runs])


def _mean_and_error(values) -> str:
    error = f' ({show(_error(values))})' if len(values) > 1 else ''
    return f'{show(float(values.mean()))}{error}'


def _claims(found: dict[str, Runs], others) -> Table:
    rows: list[list[Any]] = []
    key = 'ess_per_gradient'
    for target, runs in found.items():
        own = _column(runs[OURS], key)
        row: list[Any] = [target, runs[OURS][0]['event_size'], len(own), _mean_and_error(own)]
        for name in others:
            other = _column(runs[name], key)
            t, words = verdict(own, other)
            ratio = float(own.mean() / other.mean())
            row += [_mean_and_error(other), ratio, '-' if np.isnan(t) else f'{t:+.1f}', words]
        rows.append(row)
    columns = ['target', 'd', 'seeds', OURS]
    for name in others:
        columns += [name, 'ratio', 't', f'beside {name}']
    verdicts = [cell for row in rows for cell in row[7::4]]
    claim = f'{OURS} is worse in {verdicts.count("worse")} of {len(verdicts)} comparisons'
    return Table(
        title='Claim: per gradient no worse than the windowed NUTS of TFP and of BlackJAX',
        columns=columns,
        rows=rows,
        note=(
            f'Minimum ESS per gradient of sampling: mean over seeds (its standard error). {claim}: '
            f'worse and better mean that the means differ by more than {_MANY_ERRORS:.0f} standard '
            'errors of their difference, t. ESS: smallest over all coordinates of q and of q^2, '
            'all chains together, by the same estimator for all. Gradients: leapfrog steps of '
            'every chain, those of the warm-up apart.'
        ),
    )


def _speeds(found: dict[str, Runs], others) -> Table:
    keys = ('ess_per_second', 'ess_per_second_in_all', 'ess_per_gradient_in_all')
    logs: dict[tuple[str, str], list[np.ndarray]] = {}
    rows: list[list[Any]] = []
    for target, runs in found.items():
        row: list[Any] = [target]
        for name in others:
            for key in keys:
                ratios = np.log(_column(runs[OURS], key) / _column(runs[name], key))
                logs.setdefault((name, key), []).append(ratios)
                row.append(_factor(ratios))
        rows.append(row)
    means = (np.array([each.mean() for each in values]) for values in logs.values())
    rows.append(['all, geometric mean', *(float(np.exp(each.mean())) for each in means)])
    columns = ['target']
    for name in others:
        columns += [f'x {name} per s', f'x {name} per s, warm-up too']
        columns += [f'x {name} per gradient, warm-up too']
    return Table(
        title=f'Speed of {OURS} in multiples of the others',
        columns=columns,
        rows=rows,
        note=(
            'Minimum ESS per second of sampling, then the same draws by the seconds and by the '
            'gradients of warm-up and sampling. Geometric mean over seeds (its relative standard '
            'error). Compilation is apart. Each seed is run by one sampler after the other, so '
            "that a busy hour slows all of them. TFP's warm-up and sampling are one program, whose "
            'seconds are divided by the steps of the slowest chain.'
        ),
    )


def _factor(logs) -> str:
    error = f' ({show(_error(logs))})' if len(logs) > 1 else ''
    return f'{show(float(np.exp(logs.mean())))}{error}'


def _figures(found: dict[str, Runs]) -> Table:
    rows = []
    for target, runs in found.items():
        for name, own in runs.items():
            first = own[0]
            mean = {key: float(_column(own, key).mean()) for key in first if key not in _TEXTS}
            rows.append(
                [
                    target,
                    name,
                    f'{first["num_warmup_steps"]} + {first["num_results"]}',
                    mean['min_ess'],
                    round(mean['num_warmup_gradients']),
                    round(mean['num_gradients']),
                    mean['warmup_seconds'],
                    mean['sampling_seconds'],
                    float(_column(own, 'compile_seconds').max()),
                    rhat(float(_column(own, 'max_rhat').max()), _MAX_RHAT),
                ]
            )
    return Table(
        title='What they took',
        columns=[
            *('target', 'sampler', 'warm-up + draws', 'min ESS', 'warm-up gradients'),
            *('gradients', 'warm-up s', 'sampling s', 'compile s', 'max R-hat'),
        ],
        rows=rows,
        note='Means over seeds, the largest R-hat. Gradients and draws are those of each chain.',
    )


_TEXTS = ('target', 'sampler')
