"""The picture of what samplers without gradients propose along a curved target."""

import pathlib

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import optional, programs, targets
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.tables import Table
from tfp_adaptive.plots import density, tuning
from tfp_adaptive.proposals import kernel_embedding

_FIGURE = 'proposals.png'


def gradient_free_proposals(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Learns both proposals, and draws one standard deviation of each from some places."""
    del progress
    settings, target = config.settings, targets.make(**config.target)
    first = np.array(settings['places'], np.float32)
    places = np.stack([first, settings['ridge'] * (100 - first**2)], axis=1)
    covariances = {
        'fixed': np.tile(settings['walk_scale'] ** 2 * np.eye(2), [len(places), 1, 1]),
        'AdaptiveMetropolis': _learned(target, settings, places),
        'KernelAdaptiveMetropolis': _embedded(target, settings, places),
    }
    optional.load('matplotlib', 'matplotlib').use('Agg')
    plt = optional.load('matplotlib.pyplot', 'matplotlib')
    figure, axes = plt.subplots(
        1, 3, figsize=(12, 4), sharex=True, sharey=True, layout='constrained'
    )
    for ax, (name, own) in zip(axes, covariances.items(), strict=True):
        ax.set(xlim=settings['limits'][:2], ylim=settings['limits'][2:], title=name, xlabel='q_1')
        density.contours(ax, target.log_prob)
        for place, covariance in zip(places, own, strict=True):
            tuning.ellipse(ax, covariance, place, color='k')
            ax.plot(*place, 'k.')
    axes[0].set_ylabel('q_2')
    figure.savefig(folder / _FIGURE, dpi=settings['dpi'])
    plt.close(figure)
    runs = [
        {
            'kernel': name,
            'q_1': float(place[0]),
            'deviations': np.sqrt(np.linalg.eigvalsh(covariance)).tolist(),
        }
        for name, own in covariances.items()
        for place, covariance in zip(places, own, strict=True)
    ]
    table = Table(
        'Proposals',
        ['kernel', 'q_1', 'least sd', 'largest sd'],
        [[run['kernel'], run['q_1'], *run['deviations']] for run in runs],
    )
    return Outcome([table], runs, [_FIGURE])


def _warm_up(kernel, target, settings):
    state = target.initial_state(settings['num_chains'], (settings['seed'], 0))
    run = programs.warm_up_program(kernel, settings['num_warmup_steps'])
    return run(state, tf.constant([settings['seed'], 1]))[1].adaptation.preconditioner


def _learned(target, settings, places) -> np.ndarray:
    kernel = tfpa.AdaptiveMetropolis(target.log_prob, settings['num_warmup_steps'])
    factor = _warm_up(kernel, target, settings).numpy()
    return np.tile(factor @ factor.T, [len(places), 1, 1])


def _embedded(target, settings, places) -> np.ndarray:
    function = tfpa.kernel_functions.gaussian(settings['length_scale'])
    kernel = tfpa.KernelAdaptiveMetropolis(target.log_prob, settings['num_warmup_steps'], function)
    embedding = _warm_up(kernel, target, settings)
    roots = kernel_embedding.root(function.gradient, embedding, tf.constant(places)).numpy()
    noise = float(embedding.noise_scale) ** 2 * np.eye(2)
    return noise + np.einsum('cmi,cmj->cij', roots, roots)
