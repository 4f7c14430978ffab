"""The pictures and the page of `How adaptation works`."""

import json
import pathlib
import shutil
import warnings

from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.optional import load
from experiments.pages import adaptation_pictures as pages
from experiments.tables import Table

TEMPLATE = pathlib.Path(pages.__file__).parent / 'adaptation.md'
NUMBERS = 'adaptation.json'
FOLDER = 'adaptation'
"""Of the figures, beside the page."""


def adaptation_pictures(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Draws all figures, and writes the page with the numbers of this run."""
    del progress
    load('matplotlib', 'matplotlib').use('Agg')
    settings = {
        **config.settings,
        'step_sizes': {
            name: config.settings[f'{name}_step'] for name in ('small', 'good', 'large')
        },
    }
    with warnings.catch_warnings():
        # bad runs are what the page is about
        warnings.simplefilter('ignore')
        figures, numbers, animations = pages.pictures(settings)
    own = folder / FOLDER
    own.mkdir(exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(own / f'{name}.png', dpi=settings['dpi'])
    pages.close(figures)
    for name, (draw, frames, size) in animations.items():
        pages.tfpa.plots.animate(draw, frames, own / f'{name}.gif', size=size)
    numbers = {name: _plain(value) for name, value in numbers.items()}
    (folder / NUMBERS).write_text(json.dumps(numbers, indent=1) + '\n')
    (folder / 'adaptation.md').write_text(page(numbers))
    if config.settings['into']:
        _publish(folder, pathlib.Path(config.settings['into']))
    rows = [[name, value] for name, value in numbers.items()]
    return Outcome([Table('Numbers of the page', ['number', 'value'], rows)], [numbers])


def page(numbers: dict) -> str:
    """The page with its numbers."""
    return TEMPLATE.read_text().format(**numbers)


def _plain(value):
    return value if isinstance(value, (str, int)) else float(value)


def _publish(folder, into):
    into.mkdir(parents=True, exist_ok=True)
    for name in ('adaptation.md', NUMBERS):
        shutil.copy(folder / name, into / name)
    shutil.copytree(folder / FOLDER, into / FOLDER, dirs_exist_ok=True)
