"""`python -m experiments benchmark`: measures what is missing, then writes the page."""

import argparse
import pathlib
import time
import warnings

import tfp_adaptive as tfpa
from experiments.benchmark import (
    adaptation,
    cold_start,
    compilation,
    counts,
    gradient_free,
    gradient_free_steps,
    overhead,
    page,
    peers,
    scaling,
)
from experiments.benchmark.section import Ledger, Section, load_settings
from experiments.config import Config, ConfigError

SECTIONS: dict[str, Section] = {
    section.name: section
    for section in (
        counts.SECTION,
        overhead.SECTION,
        compilation.SECTION,
        cold_start.SECTION,
        adaptation.SECTION,
        scaling.SECTION,
        peers.SECTION,
        gradient_free.SECTION,
        gradient_free_steps.SECTION,
    )
}

FOLDER = 'benchmark'


def run(options: argparse.Namespace) -> None:
    """Runs the command.

    Args:
      options: only, assignments, output, again, no_run and publish, as the parser leaves them.

    Raises:
      ConfigError: for an unknown section or setting.
    """
    chosen = _chosen(options.only)
    settings = settings_of(chosen, options.assignments)
    folder = options.output / FOLDER
    everything = {name: settings.get(name) or load_settings(name) for name in SECTIONS}

    def write():
        sections = [
            (SECTIONS[name], config, Ledger(folder, config)) for name, config in everything.items()
        ]
        return page.write(sections, folder, options.publish)

    for name in [] if options.no_run else chosen:
        measure(SECTIONS[name], settings[name], folder, again=options.again)
        write()
    print(write())


def measure(section: Section, config: Config, folder: pathlib.Path, again: bool) -> None:
    """Measures the units of a section that are not there yet, or all if `again`."""
    warnings.filterwarnings('ignore', 'TensorFloat-32')
    # R-hat is in the tables
    warnings.filterwarnings('ignore', category=tfpa.sampling.SamplingWarning)
    ledger = Ledger(folder, config)
    for key, unit in section.units(config):
        if ledger.is_done(key) and not again:
            continue
        ledger.check_environment()
        begin = time.perf_counter()
        result = unit()
        seconds = time.perf_counter() - begin
        ledger.put(key, result, seconds)
        print(f'{section.name}: {key}: {seconds:.1f} s', flush=True)


def settings_of(sections: list[str], assignments: list[str]) -> dict[str, Config]:
    """The settings of each section, where 'key=value' goes to every one that has the key.

    Args:
      sections: names.
      assignments: 'key=value', or 'section.key=value' for one of them.

    Raises:
      ConfigError: for a key that no section has, or a section that is not among them.
    """
    own: dict[str, list[str]] = {name: [] for name in sections}
    for assignment in assignments:
        key = assignment.partition('=')[0]
        section, dot, _ = key.partition('.')
        if dot:
            if section not in own:
                raise ConfigError(f'{key} is for a section that does not run: {section!r}.')
            own[section].append(assignment.removeprefix(section + dot))
            continue
        takers = [name for name in sections if _has(load_settings(name), key)]
        if not takers:
            raise ConfigError(f'no section that runs has a setting {key!r}.')
        for name in takers:
            own[name].append(assignment)
    return {name: load_settings(name, each) for name, each in own.items()}


def _has(config: Config, key: str) -> bool:
    return key in config.settings or (key in config.target and key != 'name')


def _chosen(only: str) -> list[str]:
    names = [name for name in only.split(',') if name] or list(SECTIONS)
    unknown = set(names) - set(SECTIONS)
    if unknown:
        raise ConfigError(
            f'--only {",".join(sorted(unknown))} names no section; there are {", ".join(SECTIONS)}.'
        )
    return [name for name in SECTIONS if name in names]
