"""The pictures of `How adaptation works` that show the entropy objective."""

import dataclasses

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments.pages.tutorial_runs import (
    COUNTS,
    COVARIANCE,
    START,
    VELOCITY,
    Animation,
    gaussian,
    sample,
)


def entropy(settings, figures, numbers, animations):
    """The same Gaussian, learned by the entropy objective."""
    run = sample(gaussian, settings, None)
    figures['entropy'] = tfpa.plots.adaptation(run, COVARIANCE)
    shapes, errors = (
        tfpa.plots.style.load('matplotlib.pyplot')
        .figure(figsize=(9, 7), layout='constrained')
        .subfigures(2, 1)
    )
    figures['ellipses'] = tfpa.plots.ellipses(
        [_learned(run, count) for count in COUNTS],
        COVARIANCE,
        [f'{count} steps' for count in COUNTS],
        is_scaled=True,
        figure=shapes,
    ).figure
    _learned_energy(run, errors, numbers)
    figures['trajectories'] = tfpa.plots.trajectories(run, num_trajectories=6)
    root = np.linalg.cholesky(COVARIANCE)
    for count in (1, COUNTS[0], COUNTS[-1]):
        white = np.linalg.solve(root, np.linalg.solve(root, _learned(run, count)).T)
        numbers[f'condition_{count}'] = np.linalg.cond(white)
    numbers |= {
        'entropy_accept': run.diagnostics.accept_prob,
        'entropy_ess': run.diagnostics.min_ess,
        'entropy_rhat': run.diagnostics.max_rhat,
        'entropy_gradients': run.diagnostics.num_warmup_gradients,
    }

    def learning(count, figure):
        tfpa.plots.ellipses(
            [_learned(run, count)], COVARIANCE, [f'{count} steps'], is_scaled=True, figure=figure
        )

    frames = [1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300]
    animations['learning'] = Animation(learning, frames)

    def warming(count, figure):
        tfpa.plots.adaptation(_until(run, count), COVARIANCE, figure=figure)
        figure.axes[0].set_xlim(0, frames[-1])

    animations['entropy'] = Animation(warming, frames[1:], (7, 7))

    def moving(num_moves, figure):
        _, axes = tfpa.plots.style.make_axes(figure, 1, 1, (6, 5))
        tfpa.plots.trajectories(run, num_trajectories=6, num_moves=num_moves, ax=axes[0, 0])
        axes[0, 0].set(xlim=figures['trajectories'].axes[0].get_xlim())
        axes[0, 0].set(ylim=figures['trajectories'].axes[0].get_ylim())

    animations['trajectories'] = Animation(moving, list(range(1, 9)))


def _learned_energy(run, figure, numbers):
    """Energy errors in the coordinates of the learned proposal, one of whose steps is 1 there."""
    factor = np.linalg.cholesky(_learned(run, len(run.warmup_trace.accept_prob)))
    scales = np.sqrt(
        np.linalg.eigvalsh(np.linalg.inv(factor) @ COVARIANCE @ np.linalg.inv(factor.T))
    )

    def whitened(z):
        return gaussian(tf.linalg.matvec(tf.constant(factor, z.dtype), z))

    start, velocity = np.linalg.solve(factor, START), np.array(VELOCITY)
    multiples = [0.25, 0.5, 1.0, 2.0]
    _, axes = tfpa.plots.style.make_axes(figure, 1, 1, (6.5, 3.8))
    tfpa.plots.energy_errors(whitened, start, velocity, multiples, ax=axes[0, 0])
    axes[0, 0].set_xlabel('time along the trajectory, in learned steps')
    numbers |= {'learned_bound': 2 * scales[0], 'learned_bound_wide': 2 * scales[-1]}


def _until(run, count):
    """The run as if its warm-up had ended after `count` steps."""
    trace, history = tf.nest.map_structure(
        lambda x: x[:count], (run.warmup_trace, run.warmup_preconditioner)
    )
    return dataclasses.replace(run, warmup_trace=trace, warmup_preconditioner=history)


def _learned(run, count):
    factor = np.asarray(run.warmup_preconditioner[count - 1], np.float64)
    return factor @ factor.T
