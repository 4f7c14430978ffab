"""Stochastic volatility of ten years of the S&P 500: the border that makes the sampler mix."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import figures, metrics, samplers, targets
from experiments.config import Config
from experiments.jobs.outcome import Outcome, as_run, comparison_table
from experiments.tables import Table
from experiments.targets import stochastic_volatility as model

_FIGURE = 'volatility.png'
_NUM_FIGURE_DRAWS = 500


def stochastic_volatility(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Samples with a bordered band, then its rivals for comparison, each behind its switch."""
    settings = config.settings
    # TOML has no null: 0 stands for the whole series
    num_points = config.target['num_points'] or None
    target = targets.make(config.target['name'], num_points=num_points)
    bordered = tfpa.preconditioners.banded(bandwidth=1, border_size=model.NUM_GLOBALS)
    run, performance = samplers.run_adaptive(
        'bordered band',
        target,
        settings,
        progress,
        preconditioner=bordered,
        entropy=_entropy(),
        momentum_refreshment=settings['momentum_refreshment'],
    )
    settled = _settled(target, run.states)
    posterior = _posterior_table(run, target.reference)
    _draw_figure(run.states, model.returns(num_points), folder / _FIGURE)
    del run
    performances = [performance, *_rivals(target, settled, settings, progress)]
    comparison = comparison_table(f'Samplers, d = {target.event_size}', performances)
    runs = [as_run(p, target=target.name) for p in performances]
    return Outcome([posterior, comparison], runs, [_FIGURE])


def _entropy():
    """The paper's threshold for this model: the path's curvature varies from day to day."""
    return tfpa.entropy.russian_roulette(penalty=tfpa.entropy.spectral_penalty(threshold=0.95))


def _settled(target, states):
    """The target in two units, each started from posterior draws, for NUTS.

    It spares NUTS the way to the typical set: what is left to compare is how well it mixes. In
    units of the posterior standard deviations it is also handed the diagonal mass matrix that it
    would have to learn.
    """

    def make(scale):
        final = states[-1] / scale
        return dataclasses.replace(
            target,
            log_prob=lambda q: target.log_prob(scale * q),
            initial_state=lambda num_chains, seed: tf.constant(final[:num_chains]),
        )

    deviations = states.std(axis=(0, 1), dtype=np.float64).astype(np.float32)
    return {
        'NUTS, posterior scales': make(deviations),
        'NUTS, unit metric': make(np.ones_like(deviations)),
    }


def _rivals(target, settled, settings, progress):
    short = {
        **settings,
        'num_warmup_steps': settings['rival_warmup_steps'],
        'num_results': settings['rival_results'],
    }
    rivals: dict[str, Any] = {
        'band': tfpa.preconditioners.banded(bandwidth=1),
        'diagonal': tfpa.preconditioners.diagonal(),
    }
    for label, preconditioner in rivals.items():
        if settings[label]:
            yield samplers.run_adaptive(
                label,
                target,
                short,
                progress,
                preconditioner=preconditioner,
                entropy=_entropy(),
                momentum_refreshment=settings['momentum_refreshment'],
            )[1]
    if settings['nuts']:
        short = {
            **settings,
            'num_chains': settings['nuts_chains'],
            'num_warmup_steps': settings['nuts_warmup_steps'],
            'num_results': settings['nuts_results'],
            'num_steps_between_results': 0,
        }
        for label, start in settled.items():
            yield samplers.run_nuts(start, short, progress, step_size=0.05, label=label)[1]


def _posterior_table(run, reference: targets.Moments | None) -> Table:
    """Globals, constrained, and the worst and the median coordinate of the path by ESS."""
    states, ess = run.states, run.diagnostics.ess[: -model.NUM_GLOBALS]
    globals_ = model.constrain(states[..., -model.NUM_GLOBALS :])
    scalars = {name: np.asarray(draws) for name, draws in globals_._asdict().items()}
    by_ess = np.argsort(ess)
    for label, day in (('worst', by_ess[0]), ('median', by_ess[len(by_ess) // 2])):
        scalars[f'h[{day + 1}], {label} of the path'] = states[..., day]
    columns = ['', 'mean', 'sd', '5 %', '95 %', 'ESS', 'R-hat']
    rows = [[name, *_summary_cells(draws)] for name, draws in scalars.items()]
    if reference is None:
        return Table('Posterior', columns, rows)
    known = dict(zip(reference.names, zip(reference.mean, reference.sd, strict=True), strict=True))
    rows = [[*row, *map(_fixed, known.get(row[0], (None, None)))] for row in rows]
    columns += ['known mean', 'known sd']
    return Table('Posterior', columns, rows, note=f'Known: {reference.source}.')


def _summary_cells(draws: np.ndarray) -> list:
    s = metrics.summarise(draws)
    return [*map(_fixed, (s.mean, s.sd, s.lower, s.upper)), s.ess, f'{s.rhat:.3f}']


def _fixed(value: float | None) -> str | None:
    return None if value is None else f'{value:.4f}'


def _draw_figure(states, returns, path) -> None:
    """The band from draws spread over the whole run, so that memory stays small."""
    flat = states.reshape([-1, states.shape[-1]])
    kept = flat[np.linspace(0, len(flat) - 1, min(len(flat), _NUM_FIGURE_DRAWS)).astype(int)]
    n = len(returns)
    mu = kept[:, n + 1 : n + 2]
    figures.volatility(returns, np.exp((mu + kept[:, :n]) / 2), model.dates(n), path)
