"""What warm-up did, step by step."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.plots import checks, style
from tfp_adaptive.sampling.findings.settling import target_acceptance

_MAX_SNAPSHOTS = 100
_MAX_LINES = 60


def adaptation(run: Any, reference_covariance: Any = None, *, figure: Any = None) -> Any:
    """How a kernel of this package learned during warm-up.

    Panels over the warm-up steps: the acceptance probability and its target; the entropy weight
    beta; the largest |eigenvalue| of the whitened Jacobian residual, of which 1 means that
    trajectories fold over; the scales of the learned proposal, one line a coordinate with their
    geometric mean; and, with `reference_covariance` S, the condition number of S seen through the
    proposal, C^{-1} S C^{-T}, which is 1 when the proposal has learned S.

    A weight that is fixed and a residual that is zero (one leapfrog step, or none) have no panel.
    Where the history of the preconditioner was not kept, for it would have taken more than 32 MiB,
    the scale is that of the proposed move, exp(entropy / D), and the condition number is the final
    one alone.

    Args:
      run: `SampleRun`.
      reference_covariance: [D, D] covariance of the target in the coordinates of the sampler, known
        or estimated. Default `None`: no such panel.
      figure: matplotlib figure or subfigure to draw into. Default `None`: a new one.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      TypeError: if `run` is no `SampleRun`, or `figure` no figure.
      ValueError: if the kernel of the run reported no adaptation, or `reference_covariance` has
        another shape, is not positive definite, or meets a preconditioner that is not linear.

    Example:
      >>> figure = tfpa.plots.adaptation(run, np.diag([1.0, 4.0, 9.0]))
      >>> figure.axes[0].get_ylabel()
      'acceptance'
    """
    style.check_run(run)
    info = run.warmup_trace
    if info is None or not len(info.accept_prob) or isinstance(info.entropy_weight, tuple):
        raise ValueError(
            '`run` has no adaptation to show: its kernel reported none, or there was no warm-up.'
        )
    panels = [_acceptance]
    panels += [_entropy_weight] if np.ptp(info.entropy_weight) > 0 else []
    panels += [_spectral_radius] if np.any(info.spectral_radius) else []
    history = _history(run)
    panels += [_scales] if history else [_entropy]
    if reference_covariance is not None:
        root = _cholesky(run, reference_covariance)
        panels.append(lambda ax, run, history: _condition_number(ax, run, history, root))
    figure, axes = style.make_axes(
        figure, len(panels), 1, (7, 1.7 * len(panels) + 0.4), sharex=True
    )
    for panel, ax in zip(panels, axes.flat, strict=True):
        panel(ax, run, history)
        ax.set_xlim(0, len(info.accept_prob))
    figure.align_ylabels(list(axes.flat))
    axes[-1, 0].set_xlabel('warm-up step')
    return figure


def _steps(series) -> np.ndarray:
    """Steps 1, 2, ...: the figures of a step are those at its end."""
    return np.arange(1, len(series) + 1)


def _acceptance(ax, run, history):
    del history
    accept_prob = np.asarray(run.warmup_trace.accept_prob)
    steps = _steps(accept_prob)
    ax.plot(steps, accept_prob, '.', color=style.SKY, markersize=2, label='mean over chains')
    width = max(1, len(steps) // 40)
    kernel = np.ones(width) / width
    ax.plot(
        steps[width - 1 :],
        np.convolve(accept_prob, kernel, mode='valid'),
        color=style.BLUE,
        label=f'running mean of {width} steps',
    )
    target = target_acceptance(run.kernel)
    if target is not None:
        ax.axhline(target, color=style.GREY, linestyle='--', linewidth=1, label='target')
    ax.set(ylabel='acceptance', ylim=(-0.03, 1.03))
    style.legend(ax, loc='lower right', ncols=3)


def _entropy_weight(ax, run, history):
    del history
    weight = run.warmup_trace.entropy_weight
    ax.plot(_steps(weight), weight, color=style.BLUE)
    ax.set(ylabel='entropy weight')
    if np.min(weight) > 0:
        style.log_scale(ax, 'y')


def _spectral_radius(ax, run, history):
    del history
    radius = run.warmup_trace.spectral_radius
    ax.plot(_steps(radius), radius, '.', color=style.BLUE, markersize=2)
    ax.axhline(1, color=style.VERMILLION, linestyle='--', linewidth=1)
    ax.annotate(
        'paths fold over',
        (0, 1),
        (4, 2),
        xycoords=('axes fraction', 'data'),
        textcoords='offset points',
        fontsize=9,
        color=style.VERMILLION,
    )
    ax.set(
        ylabel='largest |eigenvalue|\nof the residual', ylim=(0, max(1.25, 1.05 * np.max(radius)))
    )


def _entropy(ax, run, history):
    del history
    entropy = run.warmup_trace.entropy
    ax.plot(_steps(entropy), np.exp(entropy / run.event_size), color=style.BLUE)
    ax.set(ylabel='learned scale,\ngeometric mean')
    style.log_scale(ax, 'y')


def _history(run) -> list[tuple[int, Any]]:
    """(step, `LearnedProposal`) at about a hundred steps of the warm-up, the last one included."""
    learned, history = run.learned, run.warmup_preconditioner
    leaves = tf.nest.flatten(history)
    if learned is None or not leaves:
        return []
    steps = np.unique(np.linspace(0, len(leaves[0]) - 1, _MAX_SNAPSHOTS).astype(int))
    return [
        (int(step) + 1, learned.at(tf.nest.map_structure(lambda x, i=step: x[i], history)))
        for step in steps
    ]


def _scales(ax, run, history):
    del run
    steps = [step for step, _ in history]
    scales = np.array([proposal.scale() for _, proposal in history])
    shown = np.linspace(0, scales.shape[1] - 1, min(_MAX_LINES, scales.shape[1])).astype(int)
    label = (
        'coordinates'
        if len(shown) == scales.shape[1]
        else f'{len(shown)} of {scales.shape[1]} coordinates'
    )
    lines = ax.plot(steps, scales[:, shown], color=style.SKY, linewidth=0.8)
    lines[0].set_label(label)
    mean = np.exp(np.mean(np.log(scales), axis=1))
    ax.plot(steps, mean, color=style.BLUE, label='geometric mean')
    ax.set(ylabel='learned scale')
    style.log_scale(ax, 'y')
    style.legend(ax, loc='best', ncols=2)


def _cholesky(run, covariance) -> np.ndarray:
    if run.learned is None:
        raise ValueError('`reference_covariance` needs a run with a linear preconditioner.')
    name = 'reference_covariance'
    return checks.cholesky(name, checks.matrix(name, covariance, run.event_size))


def _condition_number(ax, run, history, root):
    history = history or [(len(run.warmup_trace.accept_prob), run.learned)]
    steps = [step for step, _ in history]
    numbers = []
    for _, proposal in history:
        # S = root root^T seen through C has the eigenvalues of (root^{-1} C C^T root^{-T})^{-1}
        half = np.linalg.solve(root, proposal.covariance())
        eigenvalues = np.linalg.eigvalsh(np.linalg.solve(root, half.T))
        numbers.append(eigenvalues[-1] / eigenvalues[0])
    ax.plot(steps, numbers, 'o-' if len(steps) == 1 else '-', color=style.BLUE)
    start = np.linalg.cond(root) ** 2
    ax.axhline(
        start, color=style.GREY, linestyle='--', linewidth=1, label='of the reference itself'
    )
    ax.set(ylabel='condition number', ylim=(1, 1.3 * max(start, *numbers)))
    style.log_scale(ax, 'y')
    style.legend(ax, loc='best')
