"""Pages whose numbers come from a run: the committed ones are those of their template."""

import importlib
import json
import pathlib
import re

# the package holds a function of the same name
job = importlib.import_module('experiments.jobs.adaptation_pictures')

TUTORIAL = pathlib.Path(__file__).parents[2] / 'docs' / 'tutorial'


def test_every_number_of_the_page_is_that_of_the_run():
    numbers = json.loads((TUTORIAL / job.NUMBERS).read_text())
    committed = (TUTORIAL / 'adaptation.md').read_text()
    assert committed == job.page(numbers)
    used = set(re.findall(r'\{(\w+)', job.TEMPLATE.read_text()))
    assert used <= set(numbers)


def test_figures_are_there_and_small():
    text = (TUTORIAL / 'adaptation.md').read_text()
    figures = re.findall(r'\]\((adaptation/\w+\.(?:png|gif))\)', text)
    assert len([name for name in figures if name.endswith('.png')]) == 12
    for name in figures:
        assert 5_000 < (TUTORIAL / name).stat().st_size < 200_000, name
