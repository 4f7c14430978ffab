"""Pictures; the only module that needs matplotlib."""

import pathlib

import numpy as np

from experiments import optional


def volatility(returns: np.ndarray, draws: np.ndarray, path: pathlib.Path) -> None:
    """Returns over time with the posterior band of their standard deviation.

    Args:
      returns: y [n], per cent.
      draws: of exp((mu + h)/2), [num_draws, n].
      path: file to write.
    """
    optional.load('matplotlib').use('Agg')
    plt = optional.load('matplotlib.pyplot')
    lower, median, upper = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
    days = np.arange(len(returns))
    figure, axes = plt.subplots(figsize=(10, 4), layout='constrained')
    axes.plot(days, returns, color='0.6', linewidth=0.5, label='return')
    axes.fill_between(days, lower, upper, color='C0', alpha=0.4, linewidth=0, label='5 - 95 %')
    axes.plot(days, median, color='C0', linewidth=0.8, label='volatility, median')
    axes.set(
        xlabel='trading day',
        ylabel='per cent',
        title='S&P 500: daily returns and posterior volatility exp((mu + h)/2)',
        xlim=(0, max(len(returns) - 1, 1)),
    )
    axes.legend(loc='upper left', frameon=False, ncols=3)
    figure.savefig(path, dpi=150)
    plt.close(figure)
