"""One Markdown page from all records of a folder."""

import os
import pathlib

from experiments import records
from experiments.tables import to_markdown

FILE_NAME = 'report.md'


def write(folder: pathlib.Path) -> pathlib.Path:
    """Writes `folder`/report.md.

    Raises:
      experiments.errors.ExperimentError: if there are no records.
    """
    pages = [_section(record) for record in records.read_all(folder)]
    path = folder / FILE_NAME
    path.write_text('\n'.join(['# Experiments\n', *pages]))
    return path


def _section(record: records.Record) -> str:
    config, environment = record.config, record.environment
    values = {**config['target'], **config['settings']}
    values.pop('name', None)
    lines = [
        f'## {record.run_name}\n',
        f'{config["description"]}\n',
        f'Finished {record.finished} after {record.seconds:.0f} s on {environment["platform"]}, '
        f'{environment["cpu_count"]} CPUs; TensorFlow {environment["tensorflow"]}, '
        f'TFP {environment["tensorflow_probability"]}, '
        f'tfp_adaptive {environment["tfp_adaptive"]}.\n',
        ', '.join(f'`{key}={value}`' for key, value in values.items()) + '\n',
        *(to_markdown(table, level=3) for table in record.tables),
        *(f'![{name}]({os.path.join(record.run_name, name)})\n' for name in record.figures),
    ]
    return '\n'.join(lines)
