"""No windows; every figure is rendered once, and closed."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

mpl.use('Agg')


@pytest.fixture(autouse=True)
def _render_and_close(monkeypatch):
    monkeypatch.setattr(plt, 'show', lambda *args, **kwargs: pytest.fail('a window was opened'))
    yield
    for number in plt.get_fignums():
        figure = plt.figure(number)
        figure.canvas.draw()
        assert np.ptp(np.asarray(figure.canvas.buffer_rgba())) > 0
    plt.close('all')
