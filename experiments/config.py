"""Experiments as TOML files, and typed overrides of their values from the command line."""

import dataclasses
import difflib
import hashlib
import pathlib
import tomllib
from typing import Any

from experiments.errors import ExperimentError

_FOLDER = pathlib.Path(__file__).parent / 'configs'
_MAX_NAME = 200
_POSITIVE = ('num_chains', 'num_results', 'num_steps', 'num_dims')


class ConfigError(ExperimentError):
    """An unknown experiment or key, or a value of the wrong type."""


@dataclasses.dataclass(frozen=True)
class Config:
    """One experiment.

    Attributes:
      name: file name without suffix.
      description: one line.
      job: which function of `experiments.jobs` runs it.
      settings: of the run: chains, steps, seed, switches.
      target: `name` of the target and the arguments that make it; empty if the job has many.
      targets: for jobs with many, one such table each, with a `label`.
      overrides: key=value pairs that differ from the file.
    """

    name: str
    description: str
    job: str
    settings: dict[str, Any]
    target: dict[str, Any] = dataclasses.field(default_factory=dict)
    targets: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def run_name(self) -> str:
        """Name of the folder of results: the experiment and what was changed."""
        changes = [f'{key}={_show(value)}' for key, value in sorted(self.overrides.items())]
        name = '-'.join([self.name, *changes]).replace('/', '_')
        if len(name) <= _MAX_NAME:
            return name
        # many labels; the record says all of them
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        return f'{name[: _MAX_NAME - 12]}...-{digest}'

    def chosen_targets(self) -> list[tuple[str, dict[str, Any]]]:
        """(label, arguments of `targets.make`) of the targets that the setting `only` names.

        Raises:
          ConfigError: if it names one that is not there; empty, it stands for all.
        """
        labels = [options['label'] for options in self.targets]
        only = self.settings['only'] or labels
        unknown = set(only) - set(labels)
        if unknown:
            raise ConfigError(
                f'only={",".join(sorted(unknown))} names no target; there are {", ".join(labels)}.'
            )
        return [
            (options['label'], {key: options[key] for key in options if key != 'label'})
            for options in self.targets
            if options['label'] in only
        ]


def names() -> list[str]:
    """Names of all experiments."""
    return sorted(path.stem for path in _FOLDER.glob('*.toml'))


def load(name: str, assignments: list[str] | None = None) -> Config:
    """The experiment `name` with `assignments`, each 'key=value', applied.

    Raises:
      ConfigError: for an unknown name or key, or a value that does not parse as the key's type.
    """
    if name not in names():
        raise ConfigError(f'no experiment {name!r}; there are {", ".join(names())}.')
    return read(_FOLDER / f'{name}.toml', assignments)


def read(path: pathlib.Path, assignments: list[str] | None = None) -> Config:
    """The configuration in a file, named after it, with `assignments` applied.

    Raises:
      ConfigError: for an unknown key, or a value that does not parse as the key's type.
    """
    config = Config(name=path.stem, **tomllib.loads(path.read_text()))
    for assignment in assignments or []:
        config = _assign(config, assignment)
    return config


def _assign(config: Config, assignment: str) -> Config:
    key, equals, text = assignment.partition('=')
    if not equals:
        raise ConfigError(f'--set needs key=value; got {assignment!r}.')
    for section in ('settings', 'target'):
        values = getattr(config, section)
        if key in values and (section, key) != ('target', 'name'):
            value = _parse(key, text, values[key])
            overrides = dict(config.overrides)
            if value != values[key]:
                overrides[key] = value
            changed: dict[str, Any] = {section: {**values, key: value}, 'overrides': overrides}
            return dataclasses.replace(config, **changed)
    keys = sorted(config.settings) + sorted(set(config.target) - {'name'})
    near = difflib.get_close_matches(key, keys, n=1)
    guess = f' Did you mean {near[0]}?' if near else ''
    raise ConfigError(
        f'{config.name} has no setting {key!r}.{guess} Valid keys: {", ".join(keys)}.'
    )


def _parse(key: str, text: str, default: Any) -> Any:
    """`text` as a value of the type of `default`; lists are separated by commas."""
    if not isinstance(default, list):
        value = _parse_scalar(key, text, type(default))
        if key.startswith(('num_', 'max_')) and not value >= (key in _POSITIVE):
            least = 'positive' if key in _POSITIVE else 'at least 0'
            raise ConfigError(f'{key} must be {least}; got {text}.')
        return value
    kind = type(default[0]) if default else str
    values = [_parse_scalar(key, part.strip(), kind) for part in text.split(',') if part.strip()]
    if key == 'seeds' and not values:
        raise ConfigError('seeds must hold at least one number.')
    if (key == 'seeds' or kind is str) and len(set(values)) < len(values):
        raise ConfigError(f'{key} must hold each value once; got {text}.')
    return values


def _parse_scalar(key: str, text: str, kind: type) -> Any:
    if kind is bool:
        values = {'true': True, 'false': False}
        if text.lower() not in values:
            raise ConfigError(f'{key} must be true or false; got {text!r}.')
        return values[text.lower()]
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f'{key} must be of type {kind.__name__}; got {text!r}.') from None


def _show(value: Any) -> str:
    if isinstance(value, list):
        return '+'.join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
