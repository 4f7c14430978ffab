"""Pictures; the only module that needs matplotlib."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments import optional


def volatility(
    returns: np.ndarray, draws: np.ndarray, dates: np.ndarray, path: pathlib.Path
) -> None:
    """Returns over time with the posterior band of their standard deviation.

    Args:
      returns: y [n], per cent.
      draws: of exp((mu + h)/2), [num_draws, n].
      dates: of the returns, datetime64 [n].
      path: file to write.
    """
    optional.load('matplotlib').use('Agg')
    plt = optional.load('matplotlib.pyplot')
    lower, median, upper = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
    figure, axes = plt.subplots(figsize=(10, 4), layout='constrained')
    axes.plot(dates, returns, color='0.6', linewidth=0.5, label='return')
    axes.fill_between(dates, lower, upper, color='C0', alpha=0.4, linewidth=0, label='5 - 95 %')
    axes.plot(dates, median, color='C0', linewidth=0.8, label='volatility, median')
    axes.set(
        ylabel='per cent',
        title='S&P 500: daily returns and posterior volatility exp((mu + h)/2)',
        xlim=(dates[0], dates[-1]),
    )
    axes.legend(loc='upper left', frameon=False, ncols=3)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def scaling(by_size: list[dict], by_chains: list[dict], path: pathlib.Path) -> None:
    """Seconds a step and peak memory against the dimension, and efficiency against the chains.

    Args:
      by_size: cases of the benchmark's scaling section with one number of chains.
      by_chains: cases of one preconditioner and dimension.
      path: file to write.
    """
    optional.load('matplotlib').use('Agg')
    plt = optional.load('matplotlib.pyplot')
    figure, (times, memory, chains) = plt.subplots(1, 3, figsize=(13, 4), layout='constrained')
    names = dict.fromkeys(case['preconditioner'] for case in by_size)
    for color, name in zip(('C0', 'C1', 'C2'), names, strict=False):
        own = [case for case in by_size if case['preconditioner'] == name]
        sizes = [case['num_dims'] for case in own]
        for key, style, label in (
            ('frozen_seconds', '-o', name),
            ('adaptive_seconds', '--^', f'{name}, adapting'),
        ):
            times.plot(sizes, [case[key] for case in own], style, color=color, label=label)
        memory.plot(
            sizes, [case['peak_bytes'] / 2**20 for case in own], '-o', color=color, label=name
        )
    counts = [case['num_chains'] for case in by_chains]
    chains.plot(counts, [case['ess_per_second'] for case in by_chains], '-o', label='min ESS / s')
    chains.plot(
        counts, [1 / case['frozen_seconds'] for case in by_chains], '--^', label='steps / s'
    )
    times.set(xlabel='d', ylabel='seconds a step', title='Time')
    memory.set(xlabel='d', ylabel='MB above an empty process', title='Peak memory')
    chains.set(xlabel='chains', title='Chains, at a fixed dimension')
    for axes in (times, memory, chains):
        axes.set(xscale='log', yscale='log')
        axes.legend(frameon=False, fontsize='small')
    figure.savefig(path, dpi=150)
    plt.close(figure)


def limits(learning: Any, draws: Mapping[str, tuple], path: pathlib.Path) -> None:
    """How a proposal is learned, and how draws of q_1 compare with its density.

    Args:
      learning: `SampleRun` of two coordinates.
      draws: label -> (draws of q_1 [num_results, C], their exact density).
      path: file to write.
    """
    optional.load('matplotlib').use('Agg')
    plt = optional.load('matplotlib.pyplot')
    columns = -(-(1 + len(draws)) // 2)
    figure, axes = plt.subplots(2, columns, figsize=(4 * columns, 6.4), layout='constrained')
    panels = iter(axes.flat)
    _ellipses(next(panels), learning)
    for label, (values, density) in draws.items():
        ax = next(panels)
        lower, upper = np.quantile(values, [0.0005, 0.9995])
        x = np.linspace(lower - 0.35 * (upper - lower), upper + 0.35 * (upper - lower), 400)
        bins = np.linspace(x[0], x[-1], 80)
        for chain in values.T:
            ax.hist(chain, bins, density=True, histtype='step', color='0.5', linewidth=0.3)
        ax.hist(values.ravel(), bins, density=True, color='C0', alpha=0.5, label='draws')
        top = np.max(density(x))
        ax.plot(x, density(x), color='C1', label='truth')
        ax.set(title=label, xlabel='$q_1$', yscale='log', ylim=(1e-4 * top, 10 * top))
    axes.flat[1].legend(frameon=False, loc='upper right')
    for ax in panels:
        ax.set_axis_off()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _ellipses(ax, run) -> None:
    """The learned C C^T during warm-up over the draws, one standard deviation each."""
    draws = run.states.reshape([-1, 2])
    ax.plot(*draws[:: max(1, len(draws) // 1000)].T, '.', color='0.8', markersize=2)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    history, last = run.warmup_preconditioner, len(run.warmup_trace.accept_prob)
    for i, step in enumerate(sorted({1, last // 20, last // 10, last // 4, last} - {0})):
        covariance = run.learned.at(history[step - 1]).covariance()
        ellipse = np.linalg.cholesky(covariance) @ circle
        ax.plot(*ellipse, color=f'C{i}', label=f'step {step}')
    ax.set(title='learning a correlation', xlabel='$q_1$', ylabel='$q_2$')
    ax.legend(frameon=False, fontsize='small', loc='lower right')


def mixtures(
    records: list[dict], draws: Mapping[str, np.ndarray], mixture: Any, path: pathlib.Path
) -> None:
    """Divergence against evaluations, medians over seeds, and the marginals of q_1.

    Args:
      records: of every sampler and seed.
      draws: sampler -> draws [n, d] of one seed.
      mixture: `targets.blocks.Mixture`.
      path: file to write.
    """
    optional.load('matplotlib').use('Agg')
    plt = optional.load('matplotlib.pyplot')
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.5), layout='constrained')
    edges = mixture.edges[0]
    for index, (name, own) in enumerate(draws.items()):
        curves = [record['kl'] for record in records if record['sampler'] == name]
        style = {'color': f'C{index}', 'linestyle': '--' if index > 8 else '-', 'label': name}
        counted = next(record for record in records if record['sampler'] == name)['evaluations']
        left.plot(counted, np.median(np.array(curves, float), axis=0), **style)
        density, _ = np.histogram(own[:, 0], bins=edges, density=True)
        right.stairs(density, edges, **style)
    exact = mixture.bin_probabilities()
    exact = exact.sum(axis=tuple(range(1, exact.ndim))) / np.diff(edges)
    right.stairs(exact, edges, color='k', linewidth=2, label='exact')
    left.set(xlabel='evaluations a chain', ylabel='symmetric KL', xscale='log', yscale='log')
    right.set(xlabel='q_1', ylabel='density', title='One seed')
    right.legend(frameon=False, fontsize='small', ncols=2)
    figure.savefig(path, dpi=150)
    plt.close(figure)
