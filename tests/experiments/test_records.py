"""Records survive the round trip through JSON, and the report shows what they hold."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from experiments import config as configs
from experiments import records, report
from experiments.errors import ExperimentError
from experiments.tables import Table, show, to_markdown


@pytest.fixture
def record(monkeypatch):
    monkeypatch.setattr(records, 'commit', lambda: '0123abc+')
    table = Table('Title', ['name', 'x'], [['a', 0.12345], ['b', None]], note='A note.')
    return records.make(
        configs.load('gaussian', ['seed=3']), 1.5, [table], [{'min_ess': 2.0}], ['figure.png']
    )


def test_round_trip(record, tmp_path):
    assert records.read(records.write(record, tmp_path / 'run')) == record


def test_record_names_versions_and_machine(record):
    assert {'tensorflow', 'tfp_adaptive', 'platform', 'cpu_count'} <= set(record.environment)
    assert record.config['settings']['seed'] == 3


def test_numbers_that_json_lacks_become_null(record, tmp_path):
    record.runs[0].update(min_ess=float('nan'), max_rhat=np.float32('inf'), count=np.int64(3))
    content = json.loads(records.write(record, tmp_path).read_text())
    assert content['runs'] == [{'min_ess': None, 'max_rhat': None, 'count': 3}]


def test_report_holds_tables_and_figures(record, tmp_path):
    records.write(record, tmp_path / record.run_name)
    page = report.write(tmp_path).read_text()
    assert '## gaussian-seed=3' in page
    assert '| a    | 0.123 |' in page
    assert '| b    | -     |' in page
    assert '![figure.png](gaussian-seed=3/figure.png)' in page
    assert f', commit {record.commit}.' in page


def test_a_page_keeps_what_was_not_run_again(record, tmp_path):
    folder, page = tmp_path / 'results', tmp_path / 'docs' / 'results.md'
    records.write(record, folder / record.run_name)
    (folder / record.run_name / 'figure.png').write_text('a picture')
    report.update(folder, page)
    written = report.write(folder).read_text().replace('gaussian-seed=3/', 'gaussian-seed-3-')
    assert page.read_text() == written.replace('# Experiments\n', report.head(), 1)
    assert (page.parent / 'gaussian-seed-3-figure.png').read_text() == 'a picture'

    old = page.read_text().replace('gaussian-seed=3', 'another').replace('0.123', '0.456')
    page.write_text(old)
    report.update(folder, page)
    both = page.read_text()
    assert both.index('## another') < both.index('0.456') < both.index('## gaussian-seed=3')
    assert both.count('0.123') == both.count('0.456') == 1
    report.update(folder, page)
    assert page.read_text() == both


def test_pictures_of_other_settings_have_other_names(record, tmp_path):
    folder, page = tmp_path / 'results', tmp_path / 'docs' / 'results.md'
    plain = dataclasses.replace(
        record, run_name='gaussian', config={**record.config, 'overrides': {}}
    )
    for one in (record, plain):
        records.write(one, folder / one.run_name)
        (folder / one.run_name / 'figure.png').write_text(one.run_name)
    report.update(folder, page)
    assert '![figure.png](figure.png)' in page.read_text()
    assert '![figure.png](gaussian-seed-3-figure.png)' in page.read_text()
    assert (page.parent / 'figure.png').read_text() == 'gaussian'
    assert (page.parent / 'gaussian-seed-3-figure.png').read_text() == 'gaussian-seed=3'


def test_the_committed_page_leads_with_the_claims_as_they_are_now():
    """If this fails: python -m experiments report --into docs/results.md, with any results."""
    page = pathlib.Path(__file__).parents[2] / 'docs' / 'results.md'
    head, claims = report.head(), '| claim |'
    assert page.read_text().startswith(head)
    assert head.count(claims) == 4


def test_what_is_no_record_is_named(tmp_path):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / records.FILE_NAME).write_text('{"a": 1}')
    with pytest.raises(ExperimentError, match='is not a record'):
        report.write(tmp_path)


def test_markdown_lines_up():
    table = to_markdown(Table('T', ['a', 'bb'], [[1234, 0.5]], note='N'))
    assert table == '## T\n\n| a     | bb  |\n|-------|-----|\n| 1,234 | 0.5 |\n\nN\n'


@pytest.mark.parametrize(
    ('cell', 'text'),
    [(None, '-'), (float('nan'), '-'), (12345.6, '12,346'), (1.2e-5, '1.2e-05'), ('x', 'x')],
)
def test_cells(cell, text):
    assert show(cell) == text
