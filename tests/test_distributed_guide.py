"""The Python of docs/distributed.md runs as its reader would put it together."""

import pathlib
import re

import pytest

from tests.support.processes import run_python

_GUIDE = pathlib.Path(__file__).parent.parent / 'docs' / 'distributed.md'


def _blocks():
    """{name: code}; the name is in a comment before the block."""
    found = re.findall(r'<!-- ([\w ]+) -->\n```python\n(.*?)```', _GUIDE.read_text(), re.DOTALL)
    assert len(found) == _GUIDE.read_text().count('```python')
    return dict(found)


_ONE_HOST = ['two replicas on a CPU', 'model', 'one host', 'run']
_MANY_HOSTS = ['many hosts', 'model', 'run', 'adapter']


@pytest.mark.slow
@pytest.mark.parametrize(
    ('names', 'num_workers'),
    [(_ONE_HOST, None), (_MANY_HOSTS, 2)],
    ids=['one host', 'many hosts'],
)
def test_the_guide_runs(names, num_workers, tmp_path):
    blocks = _blocks()
    script = tmp_path / 'script.py'
    check = 'assert strategy.num_replicas_in_sync == 2\n'
    script.write_text('\n'.join([*(blocks[name] for name in names), check]))
    for output in run_python([script], num_workers=num_workers):
        (rhat,) = re.findall(r'\(1000, 15, 3\) ([\d.]+)$', output, re.MULTILINE)
        assert float(rhat) < 1.05


def test_every_block_runs():
    assert set(_blocks()) == {*_ONE_HOST, *_MANY_HOSTS}
