"""Entropy-adaptive HMC with nothing but defaults on one target, with NUTS beside it on request."""

import pathlib

from experiments import samplers, targets
from experiments.config import Config
from experiments.jobs.outcome import Outcome, as_run, comparison_table


def comparison(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs one target; `nuts=true` adds a row."""
    del folder
    settings = config.settings
    target = targets.make(**config.target)
    performances = [samplers.run_adaptive('entropy-adaptive HMC', target, settings, progress)[1]]
    if settings['nuts']:
        performances.append(samplers.run_nuts(target, settings, progress)[1])
    table = comparison_table(f'{target.name}, d = {target.event_size}', performances)
    return Outcome([table], [as_run(p, target=target.name) for p in performances])
