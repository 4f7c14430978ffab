"""Long runs that give the experiment robustness its references."""

import json
import pathlib
from typing import Any

import numpy as np

import tfp_adaptive as tfpa
from experiments import effective_size
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.robustness.confirmation import by_nuts
from experiments.robustness.samplers import ours
from experiments.tables import Table
from experiments.targets.posteriors import POSTERIORS, SAME_IN_OTHER_COORDINATES, chosen, references

_MAX_RHAT = 1.005
_QUANTILES = (0.05, 0.5, 0.95)
_NOTE = (
    "NUTS: TFP's, in coordinates that the run has whitened, from starts within two standard "
    'deviations of the mean. z: largest difference of a mean, in standard errors of both. A run '
    'that NUTS contradicts is not kept.'
)


def robustness_references(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Moments and quantiles by long runs in float64; those that have not converged are left out.

    Funnels are run in coordinates without one, where there are such. A run that NUTS of TFP
    contradicts is left out as well.
    """
    settings = config.settings
    kept, rows = {}, []
    for label in chosen(settings['only']):
        target = POSTERIORS[label]()
        if target.reference is not None:
            continue
        make, bring = SAME_IN_OTHER_COORDINATES.get(label, (POSTERIORS[label], np.asarray))
        run = ours(None)(make(), settings['width'], settings, progress)(settings['seed'])
        draws = bring(np.asarray(run.states, np.float64))
        min_ess, max_rhat = effective_size.smallest(draws)
        row = [label, target.event_size, f'{max_rhat:.4f}', min_ess]
        if max_rhat > _MAX_RHAT:
            rows.append([*row, None, None, None, 'no'])
            continue
        source = f'sample, float64, {min_ess:.0f} effective draws'
        figures = _figures(draws) | {'source': source}
        nuts = by_nuts(make(), run.states, bring, references.moments(figures), settings)
        is_kept = not nuts.contradicts
        word = 'yes' if nuts.confirms else 'not confirmed' if is_kept else 'no'
        rows.append([*row, f'{nuts.max_rhat:.4f}', nuts.min_ess, f'{nuts.z:.1f}', word])
        if nuts.confirms:
            figures['source'] += f'; means confirmed by NUTS of TFP, {nuts.min_ess:.0f} of its own'
        if is_kept:
            kept[label] = figures
    (folder / references.FILE.name).write_text(json.dumps(kept, indent=1) + '\n')
    columns = ['posterior', 'd', 'max R-hat', 'min ESS', 'NUTS: R-hat', 'ESS', 'largest z', 'kept']
    return Outcome([Table('Long runs for reference', columns, rows, note=_NOTE)], [])


def _figures(draws) -> dict[str, Any]:
    """Mean, deviation and quantiles of every coordinate, with standard errors."""
    ess, ess_of_squares, _ = tfpa.sampling.diagnose(draws, 1)
    sd = draws.std(axis=(0, 1))
    found = {
        'mean': _rounded(draws.mean(axis=(0, 1)), 10),
        'sd': _rounded(sd, 6),
        'standard_error': _rounded(sd / np.sqrt(ess), 3),
        'sd_standard_error': _rounded(_error_of_deviation(draws, ess_of_squares), 3),
    }
    for share in _QUANTILES:
        of_chains = np.quantile(draws, share, axis=0)
        error = of_chains.std(axis=0, ddof=1) / np.sqrt(len(of_chains))
        found[f'quantile_{share:g}'] = _rounded(np.quantile(draws, share, axis=(0, 1)), 10)
        found[f'quantile_{share:g}_standard_error'] = _rounded(error, 3)
    return found


def _error_of_deviation(draws, ess_of_squares):
    """By the delta method, from the scatter of squared deviations."""
    squares = np.square(draws - draws.mean(axis=(0, 1)))
    sd = np.sqrt(squares.mean(axis=(0, 1)))
    return squares.std(axis=(0, 1)) / (2 * sd * np.sqrt(ess_of_squares))


def _rounded(values, digits):
    return [float(f'{value:.{digits}g}') for value in values]
