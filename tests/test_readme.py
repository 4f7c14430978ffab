"""Every Python block of the README runs, one after the other, as a reader would paste them."""

import pathlib
import re

import numpy as np

_README = pathlib.Path(__file__).parent.parent / 'README.md'


def test_python_blocks_run(capsys):
    blocks = re.findall(r'```python\n(.*?)```', _README.read_text(), re.DOTALL)
    assert len(blocks) == 2
    namespace = {}
    for block in blocks:
        exec(compile(block, str(_README), 'exec'), namespace)
    run, draws = namespace['run'], namespace['draws']
    assert run.states.shape == (1000, 10, 4)
    assert run.diagnostics.max_rhat < 1.05
    assert np.isfinite(draws).all()
    assert '(1000, 10, 4)' in capsys.readouterr().out


def test_images_and_documents_exist():
    links = re.findall(r'\]\(((?!http)[^)]+)\)', _README.read_text())
    assert links
    for link in links:
        assert (_README.parent / link).exists(), link
