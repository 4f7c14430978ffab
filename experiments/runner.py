"""Runs a configured experiment and leaves record, tables and figures in its folder."""

import pathlib
import time
import warnings

from experiments import records
from experiments.benchmark import fresh_process
from experiments.config import Config
from experiments.tables import to_markdown

TABLES_FILE = 'tables.md'


def run(config: Config, output: pathlib.Path, progress: bool) -> records.Record:
    """Runs `config` and writes into `output`/run_name.

    Args:
      config: the experiment.
      output: folder of all results.
      progress: whether to show bars.
    """
    warnings.filterwarnings('ignore', 'TensorFloat-32')
    import tensorflow as tf

    from experiments.jobs import JOBS

    tf.get_logger().setLevel('ERROR')
    folder = output / config.run_name
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    outcome = JOBS[config.job](config, folder, progress)
    # parts that an interrupted run has left were not measured by this one
    seconds = max(time.perf_counter() - start, fresh_process.seconds_of_parts(folder))
    record = records.make(config, seconds, outcome.tables, outcome.runs, outcome.figures)
    records.write(record, folder)
    fresh_process.forget_parts(folder)
    (folder / TABLES_FILE).write_text('\n'.join(map(to_markdown, record.tables)))
    return record
