"""The looks that all pictures share: a palette safe for the colour-blind, quiet axes."""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfp_adaptive.sampling import SampleRun

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, GREY = (
    '#0072B2',
    '#E69F00',
    '#009E73',
    '#D55E00',
    '#CC79A7',
    '#56B4E9',
    '#7F7F7F',
)
"""Okabe & Ito (2008), and a grey for what is not data."""

_CHAINS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION)


def load(name: str) -> Any:
    """A module of matplotlib.

    Args:
      name: such as 'matplotlib.pyplot'.

    Raises:
      ImportError: without matplotlib, with the command that installs it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            '`tfp_adaptive.plots` needs matplotlib: pip install "tfp_adaptive[plots]".'
        ) from error


def check_run(run: Any) -> None:
    """Refuses what is no run.

    Args:
      run: `SampleRun`.

    Raises:
      TypeError: if it is something else.
    """
    if not isinstance(run, SampleRun):
        raise TypeError(
            f'`run` must be what tfp_adaptive.sample returned; got {type(run).__name__}.'
        )


def make_axes(
    figure: Any, rows: int, columns: int, size: tuple[float, float], **kwargs: Any
) -> tuple[Any, np.ndarray]:
    """(figure, axes [rows, columns]) in the given figure, or in a new one of `size` inches."""
    if figure is None:
        figure = load('matplotlib.pyplot').figure(figsize=size, layout='constrained')
    elif not hasattr(figure, 'subplots'):
        raise TypeError(
            '`figure` must be a matplotlib figure or subfigure, such as plt.figure(); got '
            f'{type(figure).__name__}.'
        )
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs)
    for ax in axes.flat:
        quieten(ax)
    return figure, axes


def quieten(ax: Any) -> None:
    """No box, thin grey axes, small ticks."""
    ax.spines[['top', 'right']].set_visible(False)
    ax.spines[['left', 'bottom']].set_color(GREY)
    ax.tick_params(color=GREY, labelsize=9, length=3)
    ax.xaxis.label.set_size(10)
    ax.yaxis.label.set_size(10)


def log_scale(ax: Any, which: str) -> None:
    """A logarithmic axis, 'x' or 'y', that labels 1, 2, 5 and so on in plain numbers."""
    ticker = load('matplotlib.ticker')
    getattr(ax, f'set_{which}scale')('log')
    axis = getattr(ax, f'{which}axis')
    low, high = getattr(ax, f'get_{which}lim')()
    digits = (1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0) if high / low > 4 else range(1, 10)
    axis.set_major_locator(ticker.LogLocator(subs=digits, numticks=6))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f'{value:g}'))
    axis.set_minor_formatter(ticker.NullFormatter())


def chain_colours(num_chains: int) -> list:
    """A colour for every chain: the palette while it lasts, else a ramp."""
    if num_chains <= len(_CHAINS):
        return list(_CHAINS[:num_chains])
    ramp = load('matplotlib').colormaps['viridis']
    return [ramp(x) for x in np.linspace(0, 0.85, num_chains)]


def legend(ax: Any, **kwargs: Any) -> None:
    """A legend without a frame."""
    ax.legend(frameon=False, fontsize=9, handlelength=1.6, **kwargs)


def number(value: float) -> str:
    """Three digits, as a caption wants them."""
    return f'{value:,.0f}' if 1000 <= abs(value) < 1e6 else f'{value:.3g}'


def ticks(ax: Any, labels: Sequence[str], most: int = 12) -> None:
    """Names along both axes of a square picture, if there is room for them."""
    if len(labels) > most:
        ax.set(xlabel='coordinate', ylabel='coordinate')
        return
    ax.set_xticks(range(len(labels)), labels, rotation=90)
    ax.set_yticks(range(len(labels)), labels)
