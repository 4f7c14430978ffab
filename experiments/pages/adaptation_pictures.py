"""The twelve pictures of `How adaptation works`, and every number that its text quotes."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import programs
from experiments.pages.entropy_pictures import entropy
from experiments.pages.tutorial_runs import (
    COUNTS,
    COVARIANCE,
    MEANS,
    REGION,
    SCALES,
    START,
    VELOCITY,
    Animation,
    gaussian,
    hmc,
    mixture,
    of_one_scale,
    of_ten_scales,
    sample,
)
from tfp_adaptive.plots.dynamics import trajectory
from tfp_adaptive.plots.tuning import estimated_covariance


def pictures(
    settings: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Animation]]:
    """Everything that the page shows.

    Args:
      settings: of the run.

    Returns:
      (name -> figure, name -> number or sentence, name -> `Animation`).
    """
    figures: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    animations: dict[str, Animation] = {}
    for part in (
        _steps,
        _integrators,
        _energy,
        _dual_averaging,
        _metric,
        _windows,
        _modes,
        entropy,
    ):
        part(settings, figures, numbers, animations)
    return figures, numbers, animations


def _steps(settings, figures, numbers, animations):
    """HMC of five leapfrog steps with three step sizes, and with more of them."""
    figure = _plt().figure(figsize=(9, 6), layout='constrained')
    for panel, (name, step_size) in zip(
        figure.subfigures(3, 1), settings['step_sizes'].items(), strict=True
    ):
        run = sample(gaussian, settings, hmc(step_size), num_warmup_steps=0)
        tfpa.plots.traces(run, ['x[1]'], figure=panel)
        panel.suptitle(f'step size {step_size:g}', fontsize=11)
        numbers |= {
            f'{name}_step': step_size,
            f'{name}_accept': run.diagnostics.accept_prob,
            f'{name}_ess': run.diagnostics.min_ess,
        }
    numbers |= {'num_results': settings['num_results'], 'num_draws': 4 * settings['num_results']}
    figures['steps'] = figure

    def growing(step_size, figure):
        run = sample(gaussian, settings, hmc(step_size), num_warmup_steps=0)
        tfpa.plots.traces(run, ['x[1]'], figure=figure)
        figure.axes[0].set(ylim=REGION[1])
        figure.suptitle(
            f'step size {step_size:g}, acceptance {run.diagnostics.accept_prob:.2f}', fontsize=11
        )

    step_sizes = [0.02, 0.1, 0.3, 0.6, 0.75, 0.85]
    animations['steps'] = Animation(growing, step_sizes, (9, 3))


def _integrators(settings, figures, numbers, animations):
    """Euler and leapfrog, and leapfrog with growing steps."""
    del settings
    figures['euler'] = tfpa.plots.integrators(
        gaussian, START, VELOCITY, [0.15, 0.3], 4.0, region=REGION
    )
    figures['leapfrog'] = tfpa.plots.integrators(
        gaussian, START, VELOCITY, [0.2, 0.5, 1.0], 4.0, methods=['leapfrog'], region=REGION
    )
    for method in ('euler', 'leapfrog'):
        path = trajectory(gaussian, START, VELOCITY, 0.3, 13, method=method)
        numbers[f'{method}_error'] = abs(path.energy_errors[-1])
    for step_size in (0.2, 0.5, 1.0):
        path = trajectory(gaussian, START, VELOCITY, step_size, round(4 / step_size))
        numbers[f'error_{round(10 * step_size)}'] = np.max(np.abs(path.energy_errors))
    numbers['smallest_scale'] = np.sqrt(np.linalg.eigvalsh(COVARIANCE)[0])
    numbers['stable_step'] = 2 * numbers['smallest_scale']

    def euler(time, figure):
        tfpa.plots.integrators(gaussian, START, VELOCITY, [0.3], time, region=REGION, figure=figure)

    def leapfrog(step_size, figure):
        tfpa.plots.integrators(
            gaussian, START, VELOCITY, [step_size], 4.0, region=REGION, figure=figure
        )

    animations['euler'] = Animation(euler, [0.3 * count for count in range(1, 11)])
    step_sizes = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    animations['leapfrog'] = Animation(leapfrog, step_sizes)


def _energy(settings, figures, numbers, animations):
    """Energy errors of steps that are stable, and of steps that are not."""
    del settings
    stable = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    figures['energy'] = tfpa.plots.energy_errors(gaussian, START, VELOCITY, stable)
    diverging = [0.6, 0.82, 0.9, 1.1]
    figures['divergence'] = tfpa.plots.energy_errors(gaussian, START, VELOCITY, diverging)
    for step_size in (0.1, 0.6):
        path = trajectory(gaussian, START, VELOCITY, step_size, round(10 / step_size))
        numbers[f'energy_{round(10 * step_size)}'] = np.max(np.abs(path.energy_errors))
    path = trajectory(gaussian, START, VELOCITY, 1.1, 20)
    numbers['divergent_after'] = int(np.argmax(~(np.abs(path.energy_errors) <= 1000)))

    def growing(step_sizes, limits):
        def draw(count, figure):
            _, axes = tfpa.plots.style.make_axes(figure, 1, 1, (5, 4))
            tfpa.plots.energy_errors(gaussian, START, VELOCITY, step_sizes[:count], ax=axes[0, 0])
            axes[0, 0].set_ylim(limits)

        return Animation(draw, list(range(1, len(step_sizes) + 1)))

    animations['energy'] = growing(stable, (1e-6, 10))
    animations['divergence'] = growing(diverging, (1e-4, 3e3))


def _dual_averaging(settings, figures, numbers, animations):
    """Acceptance and step size of `WindowedHMC` with a metric that stays as it is."""
    accept_prob, steps, kernel = _tuned(
        of_one_scale, settings['num_tuning_steps'], tfpa.tuning.no_windows()
    )
    target = kernel.parameters['target_accept_prob']
    figures['dual_averaging'] = tfpa.plots.step_size(
        accept_prob, steps, target_accept_prob=target, learned_step_size=steps[-1]
    )
    animations['dual_averaging'] = _unfolding(accept_prob, steps, target)
    numbers |= {
        'target_accept': target,
        'num_tuning_steps': len(steps),
        'kept_step': steps[-1],
        'formula_step': float(tfpa.tuning.step_size_formula(np.ones(10), target)),
    }


def _windows(settings, figures, numbers, animations):
    """The same where scales differ: every window gives a better metric and a larger step."""
    accept_prob, steps, kernel = _tuned(
        of_ten_scales, settings['num_window_steps'], tfpa.tuning.windows()
    )
    target = kernel.parameters['target_accept_prob']
    figures['windows'] = tfpa.plots.step_size(
        accept_prob, steps, target_accept_prob=target, learned_step_size=steps[-1]
    )
    animations['windows'] = _unfolding(accept_prob, steps, target)
    numbers |= {
        'num_window_steps': len(steps),
        'first_window_step': np.median(steps[40:75]),
        'last_window_step': steps[-1],
        'smallest_of_ten': SCALES[0],
        'largest_of_ten': SCALES[-1],
    }


def _unfolding(accept_prob, steps, target):
    """Of a warm-up step by step."""
    limits = 0.8 * np.min(steps), 1.25 * np.max(steps)

    def draw(count, figure):
        tfpa.plots.step_size(
            accept_prob[:count], steps[:count], target_accept_prob=target, figure=figure
        )
        figure.axes[0].set_xlim(0, len(steps))
        figure.axes[1].set_ylim(limits)

    frames = [max(2, int(len(steps) * share)) for share in np.linspace(0.05, 1, 10)]
    return Animation(draw, frames)


def _tuned(target, num_steps, schedule):
    """(acceptance [n], step size [n], kernel) of a warm-up; steps in units of the metric."""
    kernel = tfpa.WindowedHMC(target, 3, num_adaptation_steps=num_steps, schedule=schedule)

    @tf.function(autograph=False, jit_compile=programs.JIT_COMPILE)
    def warm_up(state, seed):
        return tfp.mcmc.sample_chain(
            num_steps,
            state,
            kernel=kernel,
            trace_fn=lambda _, results: (
                results.info.accept_prob,
                results.adaptation.preconditioner[0] / results.adaptation.optimizer.factor[0],
            ),
            seed=seed,
        ).trace

    start = tf.random.stateless_normal([4, len(SCALES)], seed=(1, 0))
    accept_prob, steps = warm_up(start, tf.constant([1, 1]))
    return accept_prob.numpy(), steps.numpy(), kernel


def _metric(settings, figures, numbers, animations):
    """The covariance of a growing number of draws."""
    run = sample(gaussian, settings, hmc(settings['step_sizes']['good']), num_warmup_steps=0)
    draws = run.states[:, 0]
    figures['metric'] = tfpa.plots.metric(draws, COVARIANCE, COUNTS)

    def learning(count, figure):
        tfpa.plots.metric(draws, COVARIANCE, [count], figure=figure)
        figure.axes[0].set(xlim=REGION[0], ylim=REGION[1])

    animations['metric'] = Animation(learning, [5, 10, 20, 30, 50, 75, 100, 150, 200, 300])
    for count in (COUNTS[0], COUNTS[-1]):
        difference = estimated_covariance(draws[:count]) - COVARIANCE
        numbers[f'metric_error_{count}'] = np.linalg.norm(difference, 2) / np.linalg.norm(
            COVARIANCE, 2
        )


def _modes(settings, figures, numbers, animations):
    """Chains about one mode each: everything looks learned, and R-hat tells that it is not."""
    start = tf.constant(MEANS[[0, 0, 1, 2]], tf.float32)
    run = sample(mixture, settings, None, initial_state=start)
    numbers |= {
        'modes_accept': run.diagnostics.accept_prob,
        'modes_rhat': run.diagnostics.max_rhat,
        'modes_warning': run.warnings[0],
    }
    alone = sample(mixture, settings, None, initial_state=tf.constant(MEANS[[0] * 4], tf.float32))
    numbers['one_mode_rhat'] = alone.diagnostics.max_rhat
    diagnosis = (
        f'R-hat {run.diagnostics.max_rhat:.1f}, acceptance {run.diagnostics.accept_prob:.2f}'
    )
    figures['modes'] = tfpa.plots.modes(mixture, run.states, diagnosis=diagnosis)

    def settling(count, figure):
        tfpa.plots.modes(mixture, run.states[:count], figure=figure)
        figure.axes[1].set_xlim(0, len(run.states))

    frames = [int(len(run.states) * share) for share in np.linspace(0.1, 1, 8)]
    animations['modes'] = Animation(settling, frames)


def close(figures: dict[str, Any]) -> None:
    """Frees what matplotlib keeps of them."""
    for figure in figures.values():
        _plt().close(figure)


def _plt():
    return tfpa.plots.style.load('matplotlib.pyplot')
