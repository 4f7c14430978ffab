"""The public names and signatures against the committed list `tests/public_api.txt`.

python -m tests.test_public_api        rewrites the list
"""

import difflib
import inspect
import pathlib
import re
import types

import tfp_adaptive
from tfp_adaptive import kernels, typing

SNAPSHOT = pathlib.Path(__file__).with_name('public_api.txt')
REGENERATE = 'python -m tests.test_public_api'


def describe_api() -> list[str]:
    """One sorted line a public name; a name for something described already says `is ...`."""
    seen = {}
    lines = _describe_module('tfp_adaptive', tfp_adaptive, tfp_adaptive.__all__, seen)
    lines += _describe_module('tfp_adaptive.kernels', kernels, kernels.__all__, seen)
    records = [name for name, value in vars(typing).items() if _is_record(value)]
    lines += _describe_module('tfp_adaptive.typing', typing, records, seen)
    return sorted(lines)


def _is_record(value):
    return inspect.isclass(value) and value.__module__ == typing.__name__


def _describe_module(prefix, module, names, seen):
    lines = []
    for name in names:
        value, path = getattr(module, name), f'{prefix}.{name}'
        if isinstance(value, types.ModuleType):
            lines += _describe_module(path, value, value.__all__, seen)
        elif not callable(value):
            lines.append(path)
        elif value in seen:
            lines.append(f'{path} is {seen[value]}')
        else:
            seen[value] = path
            lines.append(path + _signature(value))
            lines += _describe_members(path, value) if inspect.isclass(value) else []
    return lines


def _describe_members(path, cls):
    """Public methods and properties of its own; records are described by their fields."""
    if issubclass(cls, tuple):
        return []
    lines = []
    for name, value in vars(cls).items():
        if name.startswith('_'):
            continue
        if isinstance(value, property):
            lines.append(f'{path}.{name}')
        elif inspect.isfunction(value):
            lines.append(f'{path}.{name}{_signature(value)}')
    return lines


def _signature(function) -> str:
    """Names, kinds and defaults; annotations are documentation, and print differently."""
    if inspect.isclass(function) and issubclass(function, Warning):
        return ''
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    plain = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return re.sub(r' at 0x[0-9a-f]+', '', str(plain))


def test_public_api_is_the_committed_one():
    committed = SNAPSHOT.read_text(encoding='utf-8').splitlines()
    changes = list(difflib.unified_diff(committed, describe_api(), 'committed', 'now', lineterm=''))
    assert not changes, (
        'The public API has changed:\n\n'
        + '\n'.join(changes)
        + f'\n\nIf this is meant, run `{REGENERATE}`, commit tests/public_api.txt with the change '
        'and say in CHANGELOG.md what users have to do.'
    )


def test_every_public_name_exists_once():
    for module in (tfp_adaptive, kernels):
        assert len(set(module.__all__)) == len(module.__all__)
        assert list(module.__all__) == sorted(module.__all__), f'{module.__name__}.__all__'
        for name in module.__all__:
            assert hasattr(module, name), f'{module.__name__}.__all__ names a missing {name}'


if __name__ == '__main__':
    SNAPSHOT.write_text('\n'.join(describe_api()) + '\n', encoding='utf-8')
    print(f'{len(describe_api())} names in {SNAPSHOT}')
