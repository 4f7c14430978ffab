"""What all pictures share: loaded when used, kind to those without matplotlib, legible."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib import colors
from matplotlib import pyplot as plt

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.plots import style

PROGRAM = """
import sys
import tfp_adaptive as tfpa
assert 'tfp_adaptive.plots' not in sys.modules
assert 'plots' in dir(tfpa)
loaded = set(sys.modules)
tfpa.plots.adaptation
assert not {name for name in set(sys.modules) - loaded if name.startswith('matplotlib')}
try:
    tfpa.no_such_name
except AttributeError as error:
    assert 'no_such_name' in str(error)
"""


def test_nothing_is_loaded_before_it_is_used():
    subprocess.run([sys.executable, '-c', PROGRAM], check=True)


ARGUMENTS = {
    'animate': (lambda frame, figure: None, [1], 'a.gif'),
    'ellipses': ([np.eye(2)], np.eye(2), ['one']),
    'energy_errors': (runs.gaussian_log_prob, [0.0, 0.0], [1.0, 0.0], [0.1], 0.2),
    'integrators': (runs.gaussian_log_prob, [0.0, 0.0], [1.0, 0.0], [0.1], 0.2),
    'metric': (np.eye(2), np.eye(2), [2]),
    'modes': (runs.gaussian_log_prob, np.zeros([2, 1, 2])),
    'step_size': ([1.0], [0.1]),
}
"""Of the functions that take no run."""


@pytest.mark.parametrize('name', tfpa.plots.__all__)
def test_without_matplotlib_it_says_what_to_install(name, monkeypatch):
    modules = ('matplotlib', 'matplotlib.pyplot', 'matplotlib.ticker', 'matplotlib.animation')
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "tfp_adaptive\[plots\]"'):
        getattr(tfpa.plots, name)(*ARGUMENTS.get(name, [runs.gaussian_run()]))


def luminance(colour):
    rgb = np.array(colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize('num_chains', [1, 6, 7, 30])
def test_every_chain_has_a_colour_of_its_own(num_chains):
    chosen = style.chain_colours(num_chains)
    assert len({colors.to_hex(colour) for colour in chosen}) == num_chains
    # told from a white page
    assert all((1.05 / (luminance(colour) + 0.05)) > 1.5 for colour in chosen)


@pytest.mark.parametrize(('low', 'high'), [(0.02, 0.11), (1, 20), (1e-6, 1e5), (0.9, 1.1)])
def test_logarithmic_axes_speak_in_plain_numbers(low, high):
    figure, ax = plt.subplots()
    ax.plot([0, 1], [low, high])
    style.log_scale(ax, 'y')
    figure.canvas.draw()
    bottom, top = ax.get_ylim()
    shown = [
        tick.get_text() for tick in ax.get_yticklabels() if bottom <= tick.get_position()[1] <= top
    ]
    assert 2 <= len(shown) <= 12
    assert all(float(text) > 0 and '$' not in text for text in shown)
