"""Posteriors of the kinds that people bring, with nothing tuned: does the sampler arrive?"""

import itertools
import pathlib
from typing import Any

from experiments.benchmark import fresh_process
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.robustness import measure, tables
from experiments.robustness.samplers import SAMPLERS
from experiments.targets.posteriors import chosen


def robustness(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every sampler on every posterior from starts of every width, and judges the draws."""
    settings = config.settings
    if unknown := set(settings['samplers']) - set(SAMPLERS):
        raise ConfigError(f'samplers={",".join(sorted(unknown))} is none of {", ".join(SAMPLERS)}.')
    # what a run is does not depend on which others are made
    own = {key: settings[key] for key in settings.keys() - {'only', 'widths', 'samplers'}}
    which = itertools.product(chosen(settings['only']), settings['widths'], settings['samplers'])
    cases = {
        f'{target} within {width:g}: {sampler}': {
            'target': target,
            'width': width,
            'sampler': sampler,
            'settings': own,
        }
        for target, width, sampler in which
    }
    records = fresh_process.keep_each(_measure, cases, folder, progress)
    found = [tables.summary(records), tables.posteriors(records)]
    if len(settings['samplers']) > 1:
        found.insert(1, tables.side_by_side(records, settings))
    return Outcome(found, records)


def _measure(case) -> dict[str, Any]:
    """The runs of one sampler on one posterior; they fail if they do not end in time."""
    name = f'{case["sampler"]} on {case["target"]}'
    minutes = case['settings']['max_minutes']
    try:
        return fresh_process.run(measure.__name__, case, name, max_seconds=60 * minutes)
    except fresh_process.TooLongError:
        return {'runs': measure.did_not_end(**case)}
