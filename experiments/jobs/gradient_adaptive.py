"""The gradient-adaptive family as published and by default (Titsias & Dellaportas 2019)."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tfp_adaptive as tfpa
from experiments import effective_size, programs, published, targets
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table, rhat, show

_HEADINGS = ('acceptance', 'min ESS', 'median ESS', 'max ESS', 'final beta')


@dataclasses.dataclass(frozen=True)
class _Setting:
    """How every method is run; `make_kernel` takes (method, log_prob, event size, steps)."""

    name: str
    num_chains: int
    num_warmup_steps: int
    num_results: int
    methods: list[str]
    make_kernel: Callable


def gradient_adaptive(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every target, method and seed; with `defaults` the default kernels too."""
    del folder
    comparison: list[list[Any]] = []
    efficiency: list[list[Any]] = []
    records: list[dict[str, Any]] = []
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        for setting in _settings(config):
            for method, runs in _run_all(target, setting, config.settings['seeds']):
                figures = [_figures(run) for run in runs]
                efficiency.append(_efficiency_row(label, method, setting, figures))
                if setting.name == 'published':
                    comparison += _comparison_rows(label, method, runs)
                for seed, figure in zip(config.settings['seeds'], figures, strict=True):
                    records.append(
                        {'target': label, 'method': method, 'setting': setting.name, 'seed': seed}
                        | figure
                    )
                if progress:
                    print(f'{label}: {method}, {setting.name} setting', flush=True)
    return Outcome([_comparison_table(comparison), _efficiency_table(efficiency)], records)


def _settings(config: Config) -> list[_Setting]:
    values = config.settings
    methods = values['methods']
    unknown = set(methods) - set(published.METHODS)
    if unknown:
        raise ConfigError(
            f'methods={",".join(sorted(unknown))} names no method; '
            f'there are {", ".join(published.METHODS)}.'
        )
    settings = [
        _Setting(
            'published',
            1,
            values['num_warmup_steps'],
            values['num_results'],
            methods,
            published.make_kernel,
        )
    ]
    if values['defaults']:
        settings.append(
            _Setting(
                'default',
                values['default_chains'],
                values['default_warmup_steps'],
                values['default_results'],
                [method for method in methods if method != 'exact'],
                _default_kernel,
            )
        )
    return settings


def _default_kernel(method, target_log_prob_fn, event_size, num_adaptation_steps):
    del event_size
    if method == 'random_walk':
        return tfpa.GradientAdaptiveRandomWalk(target_log_prob_fn, num_adaptation_steps)
    if method == 'adaptive_metropolis':
        return tfpa.AdaptiveMetropolis(target_log_prob_fn, num_adaptation_steps)
    return tfpa.GradientAdaptiveMALA(target_log_prob_fn, num_adaptation_steps, method)


def _run_all(target, setting, seeds) -> Iterator[tuple[str, list[programs.Run]]]:
    """The runs of each method; both MALAs sample with one program."""
    samplers: dict[str, Callable] = {}
    for method in setting.methods:
        kernel = setting.make_kernel(
            method, target.log_prob, target.event_size, setting.num_warmup_steps
        )
        warm_up = programs.warm_up_program(kernel, setting.num_warmup_steps)
        sample = samplers.setdefault(
            'mala' if method in ('fast', 'exact') else method,
            programs.sampling_program(kernel, setting.num_results),
        )
        yield (
            method,
            [
                programs.run(
                    warm_up, sample, target.initial_state(setting.num_chains, (seed, 0)), seed
                )
                for seed in seeds
            ],
        )


def _figures(run: programs.Run) -> dict[str, float]:
    min_ess, max_rhat = effective_size.smallest(run.states)
    num_chains = run.states.shape[1]
    return {
        'num_chains': num_chains,
        'accept_rate': run.accept_rate,
        'entropy_weight': run.entropy_weight,
        'min_ess': min_ess,
        'max_rhat': max_rhat,
        'ess_per_evaluation': min_ess / (num_chains * run.num_evaluations),
        'ess_per_evaluation_in_all': min_ess / (num_chains * run.num_evaluations_in_all),
    }


def _comparison_rows(label, method, runs) -> list[list[Any]]:
    """Found, expected and their distance, or only what was found."""
    found = published.collect([published.measure(run) for run in runs])
    expected = published.reference(label, method)
    rows = [[label, method, 'here', found.num_runs, *_cells(found)]]
    if expected is not None:
        t, _ = published.t_statistics(found, expected)
        rows.append(['', '', "authors' code", expected.num_runs, *_cells(expected)])
        rows.append(['', '', 't', None, *(f'{value:+.1f}' for value in t)])
    return rows


def _cells(sample: published.Sample) -> list[str]:
    return [f'{show(m)} ({show(s)})' for m, s in zip(sample.mean, sample.sd, strict=True)]


def _comparison_table(rows) -> Table:
    return Table(
        title='Published setting: one chain, here and by the authors',
        columns=['target', 'method', 'code', 'runs', *_HEADINGS],
        rows=rows,
        note=(
            'Mean (standard deviation) over runs. ESS: over the coordinates of q, by the initial '
            "monotone sequence as in the authors' code. t: difference of the means over its "
            'standard error from the pooled variance.'
        ),
    )


def _efficiency_row(label, method, setting, figures) -> list[Any]:
    def mean(name):
        return float(np.mean([figure[name] for figure in figures]))

    return [
        label,
        method,
        setting.name,
        f'{setting.num_chains} x {setting.num_warmup_steps} + {setting.num_results}',
        mean('accept_rate'),
        rhat(max(figure['max_rhat'] for figure in figures)),
        mean('ess_per_evaluation'),
        min(figure['ess_per_evaluation'] for figure in figures),
        mean('ess_per_evaluation_in_all'),
    ]


def _efficiency_table(rows) -> Table:
    return Table(
        title='Minimum ESS per evaluation of the target',
        columns=[
            'target',
            'method',
            'setting',
            'chains x warm-up + draws',
            'acceptance',
            'max R-hat',
            'min ESS / evaluation',
            'worst seed',
            'warm-up included',
        ],
        rows=rows,
        note=(
            'ESS: smallest over all coordinates of q and of q^2, all chains together; mean over '
            'seeds. An evaluation is a gradient, or for the frozen random walk a log-density; a '
            'Hessian-vector product counts as two.'
        ),
    )
