"""One Markdown page from all records of a folder, or a page brought up to date with them."""

import pathlib
import re
import shutil

from experiments import records
from experiments.tables import to_markdown

FILE_NAME = 'report.md'

_TITLE = '# Experiments\n'
_FIRST = 'What four papers claim and what runs here say of it; then the tables of the runs.\n'
_PAPERS = pathlib.Path(__file__).parent / 'papers'
_PAGE = '[docs/results.md](../../../docs/results.md)'


def write(folder: pathlib.Path) -> pathlib.Path:
    """Writes `folder`/report.md.

    Raises:
      experiments.errors.ExperimentError: if there are no records.
    """
    pages = [_section(record, f'{record.run_name}/') for record in records.read_all(folder)]
    path = folder / FILE_NAME
    path.write_text('\n'.join([_TITLE, *pages]))
    return path


def update(folder: pathlib.Path, page: pathlib.Path) -> pathlib.Path:
    """Puts the sections of all records into `page` and leaves the other sections as they are.

    The page begins with the claims of the papers, as they are now. Figures are copied beside it.

    Args:
      folder: of the records.
      page: a page that this function or `write` has written, or a new one.

    Raises:
      experiments.errors.ExperimentError: if there are no records.
    """
    found = records.read_all(folder)
    sections = _sections(page.read_text() if page.exists() else '')
    page.parent.mkdir(parents=True, exist_ok=True)
    for record in found:
        # a picture of other settings is another one
        beginning = f'{_slug(record.run_name)}-' if record.config['overrides'] else ''
        sections[record.run_name] = _section(record, beginning)
        for name in record.figures:
            shutil.copy(folder / record.run_name / name, page.parent / f'{beginning}{name}')
    page.write_text('\n'.join([head(), *(sections[name] for name in sorted(sections))]))
    return page


def head() -> str:
    """What a page begins with: each paper's claims, from its folder."""
    readmes = sorted(_PAPERS.glob('*/README.md'))
    return '\n'.join([_TITLE, _FIRST, *(_claims(path.read_text()) for path in readmes)])


def _claims(text: str) -> str:
    """A paper's page as a part of this one: it has no headings of the second level."""
    text = text.replace(_PAGE, 'the sections of runs below')
    return re.sub(r'^#', '###', text, flags=re.MULTILINE)


def _sections(text: str) -> dict[str, str]:
    """Run name -> section of a page."""
    parts = re.split(r'^## ', text, flags=re.MULTILINE)[1:]
    return {part.partition('\n')[0]: f'## {part.rstrip()}\n' for part in parts}


def _slug(text: str) -> str:
    return re.sub(r'[^.0-9a-zA-Z]+', '-', text)


def _section(record: records.Record, figures: str) -> str:
    """Of a page on which names of figures begin with `figures`."""
    config, environment = record.config, record.environment
    values = {**config['target'], **config['settings']}
    values.pop('name', None)
    commit = f', commit {record.commit}' if record.commit else ''
    lines = [
        f'## {record.run_name}\n',
        f'{config["description"]}\n',
        f'Finished {record.finished} after {record.seconds:.0f} s on {environment["platform"]}, '
        f'{environment["cpu_count"]} CPUs; TensorFlow {environment["tensorflow"]}, '
        f'TFP {environment["tensorflow_probability"]}, '
        f'tfp_adaptive {environment["tfp_adaptive"]}{commit}.\n',
        ', '.join(f'`{key}={value}`' for key, value in values.items()) + '\n',
        *(to_markdown(table, level=3) for table in record.tables),
        *(f'![{name}]({figures}{name})\n' for name in record.figures),
    ]
    return '\n'.join(lines)
