"""A log-Gaussian Cox process: learned dense factors, the constant Riemannian metric, and NUTS.

The rivals of Hirt, Titsias & Dellaportas (2021), Figures 4, 18 and 19, and `WindowedNUTS`. The
Riemannian MALA (L = 1) and HMC are the frozen kernel of this package, with the Cholesky factor of
M^{-1} and a step size by dual averaging: per second too, they differ from the learned proposal by
their metric and not by their code.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import programs, targets, timed
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table, rhat
from experiments.targets.cox_process import riemannian_metric

_MALA_ACCEPTANCE, _HMC_ACCEPTANCE = 0.574, 0.65
_MAX_RHAT = 1.05


@dataclasses.dataclass(frozen=True)
class _Problem:
    """A target, what made it, and the settings of the run."""

    target: targets.Target
    arguments: dict[str, Any]
    settings: dict[str, Any]


def cox_process(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every target, sampler, trajectory length and seed.

    Raises:
      ConfigError: for an unknown sampler.
    """
    del folder
    settings = config.settings
    unknown = set(settings['samplers']) - set(_SAMPLERS)
    if unknown:
        raise ConfigError(
            f'samplers={",".join(sorted(unknown))} is not known; there are {", ".join(_SAMPLERS)}.'
        )
    tables, records = [], []
    for label, arguments in config.chosen_targets():
        problem = _Problem(targets.make(**arguments), arguments, settings)
        rows = []
        for name, length, run in _runs(problem):
            figures = []
            for seed in settings['seeds']:
                start = problem.target.initial_state(settings['num_chains'], (seed, 0))
                figures.append(timed.figures(run(start, seed)))
                records.append(
                    {'target': label, 'sampler': name, 'num_leapfrog_steps': length, 'seed': seed}
                    | figures[-1]
                )
            rows.append(_row(name, length, figures))
            if progress:
                print(f'{label}: {name}, L = {length}: {rows[-1][2]:.3g}', flush=True)
        tables.append(_table(label, problem, rows))
    return Outcome(tables, records)


def _runs(problem: _Problem) -> Iterator[tuple[str, int | None, timed.Run]]:
    """(title, L, run) of every row."""
    for name in problem.settings['samplers']:
        title, make, has_length = _SAMPLERS[name]
        lengths = problem.settings['num_leapfrog_steps'] if has_length else [None]
        for length in lengths:
            yield title, length, make(problem, length)


def _adaptive(problem, length) -> timed.Run:
    """The default setting, but for a learning rate where one is given."""
    rate = problem.settings['learning_rate']
    optimizer = tfpa.optimizers.adam(tfpa.optimizers.linear_decay(rate)) if rate else None
    return _entropy_adaptive(problem, length, optimizer=optimizer)


def _published(problem, length) -> timed.Run:
    """Raw entries of C from 0.1 d^{-1/3} on the diagonal, Adam at a constant rate of 1e-4."""
    first_scale = 0.1 * problem.target.event_size ** (-1 / 3)
    return _entropy_adaptive(
        problem,
        length,
        preconditioner=tfpa.preconditioners.cholesky(first_scale, coordinates='euclidean'),
        entropy=tfpa.entropy.russian_roulette(num_exact_terms=3) if length > 1 else None,
        optimizer=tfpa.optimizers.adam(1e-4),
        penalty_weight=tfpa.optimizers.penalty_controller(initial=1e4),
    )


def _entropy_adaptive(problem, length, **axes) -> timed.Run:
    num_steps = problem.settings['num_warmup_steps']
    return _learned(
        problem, tfpa.EntropyAdaptiveHMC(problem.target.log_prob, length, num_steps, **axes)
    )


def _riemannian(problem, length) -> timed.Run:
    """The metric is known; the step size is learned."""
    settings, arguments = problem.settings, problem.arguments
    metric = riemannian_metric(arguments['grid_size'], arguments['covariance'])
    factor = np.linalg.cholesky(np.linalg.inv(metric)).astype(np.float32)
    kernel = tfpa.kernels.FrozenKernel(
        problem.target.log_prob,
        tfpa.proposals.leapfrog(length),
        tfpa.preconditioners.cholesky(),
        tf.constant(factor),
    )
    acceptance = _MALA_ACCEPTANCE if length == 1 else _HMC_ACCEPTANCE
    return timed.tuned(
        kernel, acceptance, settings['num_warmup_steps'], settings['num_results'], length
    )


def _nuts(problem, length) -> timed.Run:
    """The kernel's own diagonal metric."""
    del length
    return _windowed(problem, tfpa.tuning.variance())


def _dense_nuts(problem, length) -> timed.Run:
    """A dense metric, as the learned factors are."""
    del length
    return _windowed(problem, tfpa.tuning.covariance())


def _windowed(problem, metric) -> timed.Run:
    kernel = tfpa.WindowedNUTS(
        problem.target.log_prob, problem.settings['num_warmup_steps'], metric
    )
    return _learned(problem, kernel, lambda results: results.memory.num_leapfrogs)


def _learned(problem, kernel, count: Callable | None = None) -> timed.Run:
    settings = problem.settings
    return timed.learned(
        programs.warm_up_program(kernel, settings['num_warmup_steps']),
        timed.Timed(programs.sampling_program(kernel, settings['num_results'])),
        count,
    )


_SAMPLERS: dict[str, tuple[str, Callable, bool]] = {
    'adaptive': ('entropy-adaptive HMC', _adaptive, True),
    'published': ('the same as published', _published, True),
    'riemannian': ('Riemannian HMC', _riemannian, True),
    'nuts': ('WindowedNUTS', _nuts, False),
    'dense nuts': ('WindowedNUTS, dense', _dense_nuts, False),
}
"""Name -> (title, function of (problem, L), whether it has an L)."""


def _row(name: str, length: int | None, figures: list[dict[str, Any]]) -> list[Any]:
    def mean(key):
        return float(np.mean([figure[key] for figure in figures]))

    ratios = [figure['ess_per_gradient'] for figure in figures]
    return [
        name,
        length,
        mean('ess_per_gradient'),
        float(np.std(ratios, ddof=1)) if len(ratios) > 1 else None,
        min(ratios),
        mean('min_ess_of_q_per_gradient'),
        mean('mean_ess_per_gradient'),
        mean('ess_per_gradient_in_all'),
        mean('ess_per_second'),
        mean('mean_ess_per_second'),
        mean('accept_rate'),
        rhat(max(figure['max_rhat'] for figure in figures), _MAX_RHAT),
        round(mean('num_gradients')),
    ]


def _table(label: str, problem: _Problem, rows: list[list[Any]]) -> Table:
    settings = problem.settings
    return Table(
        title=f'Cox process, {label}, d = {problem.target.event_size}',
        columns=[
            *('sampler', 'L', 'min ESS / gradient', 'sd', 'worst seed', 'min of q alone'),
            *('mean ESS / gradient', 'min, warm-up charged', 'min ESS / s', 'mean ESS / s'),
            *('acceptance', 'max R-hat', 'gradients'),
        ],
        rows=rows,
        note=(
            f'{settings["num_chains"]} chains, {settings["num_warmup_steps"]:,} steps of warm-up '
            f'and {settings["num_results"]:,} draws each. Means over {len(settings["seeds"])} '
            'seeds, standard deviation of the first; the largest R-hat. ESS: smallest, or mean, '
            'over all coordinates of q and of q^2, all chains together. Gradients of sampling, per '
            'chain; charged: those of the warm-up too, a Hessian-vector product as two. Seconds of '
            'sampling, compilation apart. Acceptance of NUTS: steps that moved.'
        ),
    )
