"""Posteriors of the kinds that people bring, on which a sampler with nothing tuned is judged.

Regressions on raw data, mixtures, time series, differential equations, Gaussian processes,
hierarchies, and shapes that are hard on purpose. All data are simulated from fixed seeds.
"""

from collections.abc import Callable

from experiments.config import ConfigError
from experiments.targets import banana, gaussian, hard
from experiments.targets.base import Target
from experiments.targets.posteriors import (
    dynamics,
    hierarchies,
    mixtures,
    processes,
    regressions,
    series,
)
from experiments.targets.posteriors.parts import uniform_start

__all__ = ['POSTERIORS', 'SAME_IN_OTHER_COORDINATES', 'chosen', 'uniform_start']

POSTERIORS: dict[str, Callable[[], Target]] = {
    'line through years': regressions.line_through_years,
    'raw units 1e-6': lambda: regressions.raw_units(1e-6),
    'raw units 1e-3': lambda: regressions.raw_units(1e-3),
    'raw units 1e3': lambda: regressions.raw_units(1e3),
    'raw units 1e6': lambda: regressions.raw_units(1e6),
    'unscaled covariates': regressions.unscaled_covariates,
    'collinear covariates': regressions.collinear,
    'logistic on raw covariates': regressions.raw_logistic,
    'Student-t regression': regressions.robust_regression,
    'mixture of two': mixtures.two_normals,
    'mixture of three': mixtures.three_normals,
    'hidden Markov far': lambda: mixtures.hidden_markov((3.0, 10.0), (0.9, 0.8)),
    'hidden Markov near': lambda: mixtures.hidden_markov((0.0, 2.0), (0.95, 0.9)),
    'ARMA': series.arma,
    'GARCH': series.garch,
    'autoregression': series.autoregression,
    'volatility of 100 days': series.small_volatility,
    'predator and prey': dynamics.lotka_volterra,
    'one compartment': dynamics.one_compartment,
    'Gaussian process': processes.gaussian_process_regression,
    'Poisson process': processes.poisson_process,
    'eight schools': lambda: hierarchies.eight_schools(centred=False),
    'eight schools centred': lambda: hierarchies.eight_schools(centred=True),
    'varying intercepts': hierarchies.varying_intercepts,
    'horseshoe': hierarchies.horseshoe,
    'item response 1': lambda: hierarchies.item_response(1),
    'item response 2': lambda: hierarchies.item_response(2),
    'funnel': hard.funnel,
    'funnel not centred': lambda: hard.funnel(centred=False),
    'banana': banana.banana,
    'Student-t': hard.heavy_tailed,
    'rotated 1e4': lambda: gaussian.gaussian('rotated', num_dims=300, condition_number=1e4),
    'rotated 1e6': lambda: gaussian.gaussian('rotated', num_dims=300, condition_number=1e6),
}
"""label -> what makes the target."""

SAME_IN_OTHER_COORDINATES: dict[str, tuple[Callable[[], Target], Callable]] = {
    'eight schools centred': (
        lambda: hierarchies.eight_schools(centred=False),
        hierarchies.centred_schools,
    ),
}
"""label -> (what makes the same posterior in coordinates without a funnel, how its draws become
those of the label)."""


def chosen(only: list[str]) -> list[str]:
    """Labels of the posteriors that the setting `only` names; empty, it stands for all.

    Raises:
      ConfigError: if it names one that is not there.
    """
    if unknown := set(only) - set(POSTERIORS):
        raise ConfigError(
            f'only={",".join(sorted(unknown))} names no posterior; there are '
            f'{", ".join(POSTERIORS)}.'
        )
    return only or list(POSTERIORS)
