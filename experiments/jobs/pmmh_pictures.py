"""Pictures of estimated likelihoods: their noise, what it costs a chain, and what they cost."""

import pathlib
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import optional, programs
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.pmmh_peers import PEERS
from experiments.tables import Table
from experiments.targets import leverage
from tfp_adaptive.internal import random

_FIGURE = 'estimates.png'
_REPEATS = 5
_ACCEPTANCE_KEYS = ('num_particles', 'acceptance', 'variance')


def pmmh_pictures(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Measures on volatility with leverage, and draws four panels.

    Raises:
      ConfigError: for an unknown peer.
    """
    del progress
    settings = config.settings
    unknown = set(settings['peers']) - set(PEERS)
    if unknown:
        raise ConfigError(f'peers={",".join(sorted(unknown))}: there are {", ".join(PEERS)}.')
    data = leverage.simulated(settings['num_observations'], settings['seed'])
    line = _along_a_line(data, settings)
    accepted = [
        _acceptance(data, size, rho, settings)
        for rho in settings['correlations']
        for size in settings['num_particles']
    ]
    by_size = [_times(len(data), size, settings) for size in settings['timed_particles']]
    size = settings['line_particles']
    by_length = [_times(length, size, settings) for length in settings['timed_observations']]
    _draw(line, accepted, by_size, by_length, folder / _FIGURE, settings['dpi'])
    return Outcome(
        [_acceptance_table(accepted), _times_table(by_size + by_length, settings)],
        [*accepted, *by_size, *by_length],
        [_FIGURE],
    )


def _along_a_line(data, settings) -> dict[str, np.ndarray]:
    """Log-estimates over mu: with noise of its own at every place, and with correlated noise."""
    estimator = leverage.leverage(data, settings['line_particles']).estimator
    low, high = settings['line']
    mu = np.linspace(low, high, settings['line_places'])
    theta = np.tile(np.array(leverage.TRUTH), [len(mu), 1])
    theta[:, 0] = mu
    rng = np.random.default_rng(settings['seed'])
    shape = len(mu), estimator.noise_size
    independent = rng.standard_normal(shape)
    correlated, rho = rng.standard_normal(shape), max(settings['correlations'])
    for i in range(1, len(mu)):
        correlated[i] = rho * correlated[i - 1] + np.sqrt(1 - rho**2) * correlated[i]
    estimate = tf.function(estimator.log_likelihood, jit_compile=programs.JIT_COMPILE)
    values = {
        name: estimate(tf.constant(noise, tf.float32), tf.constant(theta, tf.float32)).numpy()
        for name, noise in (('independent', independent), ('correlated', correlated))
    }
    return {'mu': mu, **values}


def _acceptance(data, num_particles, correlation, settings) -> dict[str, Any]:
    """Of a random walk with a fixed scale, and the variance of the noise it meets."""
    model = leverage.leverage(data, num_particles)
    kernel = tfpa.PseudoMarginal(
        model.estimator,
        model.log_prior,
        num_adaptation_steps=0,
        auxiliary_correlation=correlation,
        step_size=settings['step_size'],
    )
    start = np.tile(np.array(leverage.TRUTH, np.float32), [settings['num_chains'], 1])

    @tf.function(jit_compile=programs.JIT_COMPILE)
    def chain(start, seed):
        return tfp.mcmc.sample_chain(
            settings['num_results'],
            start,
            kernel=kernel,
            trace_fn=lambda _, results: results.info.accept_prob,
            seed=seed,
        )

    states, accept_prob = chain(tf.constant(start), tf.constant([settings['seed'], 1]))
    variance = kernel.log_estimate_variance(states[-1], seed=(settings['seed'], 2))
    return {
        'correlation': correlation,
        'num_particles': num_particles,
        'acceptance': float(tf.reduce_mean(accept_prob)),
        'variance': float(variance),
    }


def _times(num_observations, num_particles, settings) -> dict[str, Any]:
    """Seconds of one estimate for all chains, by this package's filter and by those of others."""
    data = leverage.simulated(num_observations, settings['seed'])
    theta = np.tile(np.array(leverage.TRUTH, np.float32), [settings['num_chains'], 1])
    estimates = {
        name: _own_filter(data, num_particles, sort)
        for name, sort in (('sorted', True), ('not sorted', False))
    }
    for name in settings['peers']:
        estimates[name] = PEERS[name](data, num_particles).log_likelihood
    return {
        'num_observations': num_observations,
        'num_particles': num_particles,
        'seconds': {name: _least_seconds(own, theta) for name, own in estimates.items()},
    }


def _own_filter(data, num_particles, sort):
    """As a peer's `log_likelihood`."""
    estimator = leverage.leverage(data, num_particles, sort=sort).estimator

    @tf.function(jit_compile=programs.JIT_COMPILE)
    def compiled(theta, seed):
        # the kernels' own normals: TensorFlow's would take longer than the filter
        noise = random.normal([theta.shape[0], estimator.noise_size], seed, theta.dtype)
        return estimator.log_likelihood(noise, theta)

    return lambda theta, seed: compiled(tf.constant(theta), tf.constant([seed, 0])).numpy()


def _least_seconds(log_likelihood, theta) -> float:
    log_likelihood(theta, 0)  # compiles
    seconds = []
    for repeat in range(_REPEATS):
        begin = time.perf_counter()
        log_likelihood(theta, repeat)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _acceptance_table(accepted) -> Table:
    return Table(
        title='Acceptance of a random walk with a fixed scale',
        columns=['rho', 'particles', 'acceptance', 'noise'],
        rows=[
            [f'{run["correlation"]:g}', *(run[key] for key in _ACCEPTANCE_KEYS)] for run in accepted
        ],
        note='Noise: half the variance of the difference of two log-estimates in a row.',
    )


def _times_table(cases, settings) -> Table:
    names = list(cases[0]['seconds'])
    rows = []
    for case in cases:
        size = settings['num_chains'] * case['num_observations'] * case['num_particles']
        seconds = [case['seconds'][name] for name in names]
        rows.append(
            [
                *(case['num_observations'], case['num_particles']),
                *(1e3 * own for own in seconds),
                *(size / own / 1e6 for own in seconds),
            ]
        )
    return Table(
        title='Time of one estimate, ms, and particle moves a second, millions',
        columns=[
            *('returns', 'particles'),
            *(f'{name}, ms' for name in names),
            *(f'{name}, M / s' for name in names),
        ],
        rows=rows,
        note=(
            f'Sorted, not sorted: this package. {settings["num_chains"]} chains, without the '
            f'score, noise included; the least of {_REPEATS}. All but particles are compiled. A '
            'move is that of one particle by one return.'
        ),
    )


def _draw(line, accepted, by_size, by_length, path, dpi) -> None:
    optional.load('matplotlib', 'matplotlib').use('Agg')
    plt = optional.load('matplotlib.pyplot', 'matplotlib')
    figure, (noise, acceptance, sizes, lengths) = plt.subplots(
        1, 4, figsize=(15, 3.6), layout='constrained'
    )
    noise.plot(line['mu'], line['independent'], '.', color='0.6', label='independent')
    noise.plot(line['mu'], line['correlated'], color='C0', label='correlated')
    noise.set(xlabel='mu', ylabel='log-estimate', title='Noise along a line')
    for rho in dict.fromkeys(run['correlation'] for run in accepted):
        own = [run for run in accepted if run['correlation'] == rho]
        tried = [run['num_particles'] for run in own]
        acceptance.plot(tried, [run['acceptance'] for run in own], '-o', label=f'rho = {rho:g}')
    acceptance.set(xscale='log', xlabel='particles', ylim=(0, 1), title='Acceptance, fixed scale')
    for axes, cases, key, label in (
        (sizes, by_size, 'num_particles', 'particles'),
        (lengths, by_length, 'num_observations', 'returns'),
    ):
        counts = [case[key] for case in cases]
        for name in cases[0]['seconds']:
            own = [1e3 * case['seconds'][name] for case in cases]
            axes.plot(counts, own, '--^' if name in PEERS else '-o', label=name)
        axes.set(xscale='log', yscale='log', xlabel=label, ylabel='ms', title='One estimate')
        axes.set_xticks(counts, counts)
    acceptance.set_xticks(tried, tried)
    for axes in (noise, acceptance, sizes, lengths):
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize='small')
    figure.savefig(path, dpi=dpi)
    plt.close(figure)
