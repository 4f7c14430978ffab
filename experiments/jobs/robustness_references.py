"""Long runs that give the experiment robustness its references."""

import json
import pathlib

import numpy as np

from experiments import effective_size
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.robustness.samplers import ours
from experiments.tables import Table
from experiments.targets.posteriors import POSTERIORS, SAME_IN_OTHER_COORDINATES, chosen, references

_MAX_RHAT = 1.005


def robustness_references(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Means and deviations by long runs in float64; those that have not converged are left out.

    Funnels are run in coordinates without one, where there are such.
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
        is_good = max_rhat <= _MAX_RHAT
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
