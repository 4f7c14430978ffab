"""One kernel, three objectives: appendix D of Hirt, Titsias & Dellaportas (2021)."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import tfp_adaptive as tfpa
from experiments import effective_size, programs, targets
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table

_OBJECTIVES = {
    'generalized_speed': tfpa.objectives.generalized_speed,
    'jump_distance': tfpa.objectives.expected_squared_jump_distance,
    'l2hmc': tfpa.objectives.l2hmc,
}
_GRADIENTS = ('fast', 'exact')
_PRECONDITIONERS = {
    'cholesky': tfpa.preconditioners.cholesky,
    'diagonal': tfpa.preconditioners.diagonal,
}


def objectives(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Every target, trajectory length, objective, kind of gradient and seed."""
    del folder
    settings = config.settings
    _check('objectives', settings['objectives'], _OBJECTIVES)
    _check('energy_gradients', settings['energy_gradients'], _GRADIENTS)
    rows: list[list[Any]] = []
    records: list[dict[str, Any]] = []
    for label, arguments in config.chosen_targets():
        family = arguments.pop('preconditioner')
        target = targets.make(**arguments)
        for length in settings['num_leapfrog_steps']:
            best = None
            for objective, gradient, figures in _run_all(target, family, length, settings):
                row = _row([label, length, objective, gradient], figures)
                best = best or row[4]
                rows.append([*row, row[4] / best])
                for seed, figure in zip(settings['seeds'], figures, strict=True):
                    records.append(
                        {'target': label, 'num_leapfrog_steps': length, 'seed': seed}
                        | {'objective': objective, 'energy_gradient': gradient}
                        | figure
                    )
                if progress:
                    print(f'{label}: L = {length}, {objective}, {gradient}', flush=True)
    return Outcome([_table(rows)], records)


def _check(name: str, chosen: list[str], known) -> None:
    unknown = set(chosen) - set(known)
    if unknown:
        raise ConfigError(
            f'{name}={",".join(sorted(unknown))} is not known; there are {", ".join(known)}.'
        )


def _run_all(target, family, length, settings) -> Iterator[tuple[str, str, list[dict]]]:
    """Figures of all seeds; one sampling program serves every way to learn."""
    sample = None
    for objective in settings['objectives']:
        for gradient in settings['energy_gradients']:
            kernel = _kernel(target, family, length, objective, gradient, settings)
            sample = sample or programs.sampling_program(kernel, settings['num_results'])
            warm_up = programs.warm_up_program(kernel, settings['num_warmup_steps'])
            runs = [
                programs.run(
                    warm_up, sample, target.initial_state(settings['num_chains'], (seed, 0)), seed
                )
                for seed in settings['seeds']
            ]
            yield objective, gradient, [_figures(run, length) for run in runs]


def _kernel(target, family, length, objective, gradient, settings):
    rate = settings['learning_rate']
    return tfpa.EntropyAdaptiveHMC(
        target.log_prob,
        num_leapfrog_steps=length,
        num_adaptation_steps=settings['num_warmup_steps'],
        preconditioner=_PRECONDITIONERS[family](coordinates=settings['coordinates']),
        objective=_OBJECTIVES[objective](),
        optimizer=tfpa.optimizers.adam(rate) if rate else None,
        energy_gradient=gradient,
    )


def _figures(run: programs.Run, length: int) -> dict[str, float]:
    min_ess, max_rhat = effective_size.smallest(run.states)
    num_results, num_chains, _ = run.states.shape
    return {
        'min_ess': min_ess,
        'ess_per_gradient': min_ess / (num_results * num_chains * length),
        'max_rhat': max_rhat,
        'accept_rate': run.accept_rate,
    }


def _row(keys, figures) -> list[Any]:
    ratios = [figure['ess_per_gradient'] for figure in figures]
    return [
        *keys,
        float(np.mean(ratios)),
        float(np.std(ratios, ddof=1)) if len(ratios) > 1 else None,
        float(np.mean([figure['accept_rate'] for figure in figures])),
        f'{max(figure["max_rhat"] for figure in figures):.3g}',
    ]


def _table(rows) -> Table:
    return Table(
        title='Objectives: minimum ESS per gradient',
        columns=[
            *('target', 'L', 'objective', 'gradient'),
            *('min ESS / gradient', 'sd', 'acceptance', 'max R-hat', 'x first row of L'),
        ],
        rows=rows,
        note=(
            'ESS: smallest over all coordinates of q and of q^2, all chains together; chains that '
            'do not mix at all count one each. Mean and standard deviation over seeds; gradients '
            'of sampling.'
        ),
    )
