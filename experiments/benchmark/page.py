"""The benchmark as one Markdown page."""

import pathlib
import re
import shutil

from experiments.benchmark.section import PEERS, SELECTIONS, Ledger, Section
from experiments.config import Config
from experiments.errors import ExperimentError
from experiments.tables import to_markdown

FILE_NAME = 'benchmark.md'

_INTRODUCTION = """# Benchmark

Written by `python -m experiments benchmark`, which measures what is missing and keeps what is
there; `--only {names}` chooses sections.
"""


def write(
    sections: list[tuple[Section, Config, Ledger]],
    folder: pathlib.Path,
    publish: pathlib.Path | None = None,
) -> pathlib.Path:
    """Writes `folder`/benchmark.md from the results there are.

    Args:
      sections: with their settings and results.
      folder: of the benchmark's results.
      publish: a second folder that gets the page and its figures. Sections that were not measured
        keep the text that they have in the page there.

    Raises:
      ExperimentError: for results of another version, or with fewer measurements of a section than
        the page there has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    measured, figures = {}, []
    for section, config, ledger in sections:
        if ledger.units:
            measured[config.description], drawn = _section(section, config, ledger, folder)
            figures += drawn
    introduction = _INTRODUCTION.format(names=','.join(section.name for section, _, _ in sections))
    titles = [config.description for _, config, _ in sections]

    def put(path, kept):
        texts = {**dict.fromkeys(titles, 'Not measured.\n'), **kept, **measured}
        path.write_text(
            '\n'.join([introduction, *(f'## {title}\n\n{texts[title]}' for title in titles)])
        )
        return path

    path = put(folder / FILE_NAME, {})
    if publish is not None:
        publish.mkdir(parents=True, exist_ok=True)
        published = _sections_of(publish / FILE_NAME)
        _check_complete(measured, published)
        for name in figures:
            shutil.copy(folder / name, publish / name)
        path = put(publish / FILE_NAME, published)
    return path


def _check_complete(measured: dict[str, str], published: dict[str, str]) -> None:
    """Refuses to publish a part of a section in place of the whole."""
    for title in measured.keys() & published.keys():
        found = [re.match(r'(\d+) measurements', text[title]) for text in (published, measured)]
        before, now = (int(match[1]) if match else 0 for match in found)
        if now < before:
            raise ExperimentError(
                f'the page has {before} measurements under {title!r}, and these results {now}: '
                'measure the others, or remove that section from the page to begin anew.'
            )


def _section(section, config, ledger, folder) -> tuple[str, list[str]]:
    """(text below the title, names of the figures) of a section that was measured."""
    try:
        drawn = section.draw(config, ledger.results, folder)
        tables = section.tables(config, ledger.results)
    except KeyError as error:
        raise ExperimentError(
            f'{ledger.path} was measured by another version of the benchmark (no {error}): '
            f'remove it, or measure anew with --only {section.name} --again.'
        ) from error
    texts = [
        _circumstances(config, ledger),
        *(to_markdown(table, level=3) for table in tables),
        *(f'![{name}]({name})\n' for name in drawn),
    ]
    return '\n'.join(texts), drawn


def _sections_of(path: pathlib.Path) -> dict[str, str]:
    """Title -> text of a page that was written before."""
    parts = re.split(r'^## ', path.read_text() if path.exists() else '', flags=re.MULTILINE)[1:]
    return {title: text.strip() + '\n' for title, _, text in (p.partition('\n') for p in parts)}


def _circumstances(config: Config, ledger: Ledger) -> str:
    """Machine, versions, date, load and settings of a section."""
    machine, units = ledger.environment, ledger.units.values()
    first, last = min(u.finished for u in units), max(u.finished for u in units)
    minutes, load = sum(u.seconds for u in units) / 60, max(u.load for u in units)
    packages = ('tfp_adaptive', 'tensorflow', 'tensorflow_probability', 'numpy', 'python')
    peers = [name for name in PEERS if name in machine]
    versions = ', '.join(f'{name} {machine[name]}' for name in (*packages, *peers))
    settings = ', '.join(
        f'`{key}={value}`'
        for key, value in {**config.target, **config.settings}.items()
        if key not in SELECTIONS
    )
    busy = ''
    if load > machine['cpu_count'] + 1:
        busy = ' More threads than cores were running, at times: read the seconds with care.'
    return (
        f'{len(ledger.units)} measurements, {minutes:.1f} minutes, from {first} to {last}, on '
        f'{machine["processor"]}, {machine["cpu_count"]} cores, {machine["platform"]}; load '
        f'average up to {load:.1f}.{busy} {versions}; {_commits(ledger)}. '
        f'`python -m experiments benchmark --only {config.name}`, {settings}.\n'
    )


def _commits(ledger: Ledger) -> str:
    """Of the repository; where there are several, what was measured with each and when."""
    groups: dict[str, list[str]] = {}
    for key, unit in ledger.units.items():
        groups.setdefault(unit.commit or 'unknown', []).append(key)
    if len(groups) == 1:
        return f'commit {next(iter(groups))}'
    texts = []
    for commit, keys in groups.items():
        names = ', '.join(dict.fromkeys(key.partition(':')[0] for key in keys))
        times = sorted(ledger.units[key].finished for key in keys)
        texts.append(f'{commit} ({names}: {times[0]} to {times[-1]})')
    return f'commits {"; ".join(texts)}'
