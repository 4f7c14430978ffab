"""The command line: list | run NAME | report | benchmark."""

import argparse
import pathlib
import sys

from experiments import config as configs
from experiments.errors import ExperimentError

_RESULTS = pathlib.Path('results')


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except ExperimentError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='python -m experiments', description=__doc__)
    commands = parser.add_subparsers(required=True, metavar='list | run | report | benchmark')

    command = commands.add_parser('list', help='show all experiments and their settings')
    command.set_defaults(command=_list)

    command = commands.add_parser('run', help='run one experiment')
    command.add_argument('name', metavar='NAME', help='as shown by list')
    _add_assignments(command, 'key=value')
    _add_output(command)
    command.add_argument('--no-progress', action='store_true', help='show no progress bars')
    command.set_defaults(command=_run)

    command = commands.add_parser('report', help='one page with the tables of all results')
    _add_output(command)
    command.add_argument(
        '--into',
        metavar='PAGE',
        type=pathlib.Path,
        help='replace the sections of these results in a page and keep its others',
    )
    command.set_defaults(command=_report)

    command = commands.add_parser(
        'benchmark',
        help='costs of a step, and peers side by side',
        epilog='Sections: counts, overhead, compilation, cold_start, adaptation, scaling, peers, '
        'gradient_free, gradient_free_steps. cold_start, peers and gradient_free need the extra: '
        "pip install -e '.[experiments,peers]'. All take some four hours of an idle machine; what "
        'is measured is kept, so an interrupted run goes on.',
    )
    command.add_argument(
        '--only', metavar='SECTIONS', default='', help='which, separated by commas (default: all)'
    )
    _add_assignments(command, 'key=value, or section.key=value')
    command.add_argument('--again', action='store_true', help='measure anew what is there')
    command.add_argument('--no-run', action='store_true', help='write the page of what is there')
    command.add_argument(
        '--publish', metavar='DIR', type=pathlib.Path, help='copy the page and its figures there'
    )
    _add_output(command)
    command.set_defaults(command=_benchmark)
    return parser


def _add_assignments(command: argparse.ArgumentParser, form: str) -> None:
    command.add_argument(
        '--set',
        dest='assignments',
        metavar=form,
        nargs='+',
        action='extend',
        default=[],
        help='override settings; lists are separated by commas',
    )


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        '--output',
        metavar='DIR',
        type=pathlib.Path,
        default=_RESULTS,
        help='folder of results (default: %(default)s)',
    )


def _list(options: argparse.Namespace) -> None:
    del options
    for name in configs.names():
        config = configs.load(name)
        values = {**config.target, **config.settings}
        values.pop('name', None)
        print(f'{name}\n    {config.description}')
        print('    ' + ' '.join(f'{key}={value}' for key, value in values.items()))


def _run(options: argparse.Namespace) -> None:
    from experiments import runner, tables

    config = configs.load(options.name, options.assignments)
    record = runner.run(config, options.output, progress=not options.no_progress)
    print('\n'.join(map(tables.to_markdown, record.tables)))
    print(f'{record.seconds:.0f} s; written to {options.output / record.run_name}')


def _report(options: argparse.Namespace) -> None:
    from experiments import report

    if options.into is None:
        print(report.write(options.output))
    else:
        print(report.update(options.output, options.into))


def _benchmark(options: argparse.Namespace) -> None:
    from experiments.benchmark import command

    command.run(options)
