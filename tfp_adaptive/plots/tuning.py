"""The classical tuning at work: step size and acceptance, and the metric as draws come in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.plots import checks, style
from tfp_adaptive.tuning import covariance

_CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 200)), np.sin(np.linspace(0, 2 * np.pi, 200))])
_SMOOTH = 25


def step_size(
    accept_prob: Any,
    step_sizes: Any,
    *,
    target_accept_prob: float | None = None,
    learned_step_size: float | None = None,
    figure: Any = None,
) -> Any:
    """Acceptance and step size during warm-up, one above the other.

    Args:
      accept_prob: [n] mean acceptance probability of each step.
      step_sizes: [n] step size with which the step was made.
      target_accept_prob: a line in the upper panel. Default `None`: none.
      learned_step_size: what was kept, a line in the lower panel. Default `None`: none.
      figure: matplotlib figure or subfigure to draw into. Default `None`: a new one.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      ValueError: if the two arrays are not of one length.

    Example:
      >>> figure = tfpa.plots.step_size([1.0, 0.2, 0.6], [0.1, 0.4, 0.2], learned_step_size=0.2)
      >>> figure.axes[1].get_ylabel()
      'step size'
    """
    accept_prob, step_sizes = (np.asarray(x, np.float64) for x in (accept_prob, step_sizes))
    if accept_prob.shape != step_sizes.shape or accept_prob.ndim != 1:
        raise ValueError(
            '`accept_prob` and `step_sizes` must be arrays of one length; got shapes '
            f'{accept_prob.shape} and {step_sizes.shape}.'
        )
    figure, axes = style.make_axes(figure, 2, 1, (7, 4.2), sharex=True)
    upper, lower = axes[:, 0]
    steps = np.arange(1, len(accept_prob) + 1)
    upper.plot(steps, accept_prob, color=style.SKY, linewidth=0.7, label='each step')
    if len(steps) > 2 * _SMOOTH:
        mean = np.convolve(accept_prob, np.ones(_SMOOTH) / _SMOOTH, mode='valid')
        upper.plot(
            steps[_SMOOTH - 1 :], mean, color=style.BLUE, linewidth=1.6, label=f'last {_SMOOTH}'
        )
    if target_accept_prob is not None:
        upper.axhline(
            target_accept_prob, color='black', linestyle='--', linewidth=1, label='target'
        )
    upper.set(ylabel='acceptance', ylim=(0, 1.05))
    style.legend(upper, loc='center left', bbox_to_anchor=(1, 0.5))
    lower.plot(steps, step_sizes, color=style.ORANGE, linewidth=1.0, label='tried')
    if learned_step_size is not None:
        lower.axhline(learned_step_size, color='black', linestyle='--', linewidth=1, label='kept')
    lower.set(ylabel='step size', xlabel='warm-up step', xlim=(0, len(steps)))
    style.log_scale(lower, 'y')
    style.legend(lower, loc='center left', bbox_to_anchor=(1, 0.5))
    figure.align_ylabels([upper, lower])
    return figure


def metric(
    draws: Any,
    reference_covariance: Any,
    counts: Sequence[int] = (10, 30, 100, 300),
    *,
    coordinates: tuple[int, int] = (0, 1),
    figure: Any = None,
) -> Any:
    """The covariance that a dense metric has estimated after some draws, beside the target's.

    One panel a count: the draws so far, and about their mean the ellipses of one standard deviation
    of the estimate, shrunk as in `tuning.covariance`, and of the target.

    Args:
      draws: [N, D], in the order in which they came; D is at least 2.
      reference_covariance: [D, D] of the target.
      counts: numbers of draws, from 2 to N each. Default: 10, 30, 100 and 300.
      coordinates: indices of the two that are shown.
      figure: matplotlib figure or subfigure to draw into. Default `None`: a new one.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      ValueError: if there are fewer draws than a count, fewer than two coordinates, or a covariance
        that has another shape or is not positive definite.

    Example:
      >>> draws = np.random.default_rng(0).normal(size=[100, 2])
      >>> figure = tfpa.plots.metric(draws, np.eye(2), [10, 100])
      >>> [ax.get_title() for ax in figure.axes]
      ['10 draws', '100 draws']
    """
    draws = np.asarray(draws, np.float64)
    if draws.ndim != 2 or draws.shape[1] < 2:
        raise ValueError(f'`draws` must have shape [N, D] with D of at least 2; got {draws.shape}.')
    if not len(counts) or max(counts) > len(draws) or min(counts) < 2:
        raise ValueError(
            f'`counts` must lie between 2 and the number of draws; got {list(counts)} and draws of '
            f'shape {draws.shape}.'
        )
    return ellipses(
        [estimated_covariance(draws[:count]) for count in counts],
        checks.matrix('reference_covariance', reference_covariance, draws.shape[1]),
        [f'{count} draws' for count in counts],
        draws=[draws[:count] for count in counts],
        coordinates=coordinates,
        figure=figure,
    )


def ellipses(
    covariances: Sequence[Any],
    reference_covariance: Any,
    titles: Sequence[str],
    *,
    draws: Sequence[Any] | None = None,
    is_scaled: bool = False,
    coordinates: tuple[int, int] = (0, 1),
    figure: Any = None,
) -> Any:
    """Ellipses of one standard deviation, one panel a covariance, beside that of the target.

    Both lie about the mean of the draws of their panel, or about the origin if there are none.

    Args:
      covariances: each [D, D]; D is at least 2.
      reference_covariance: [D, D] of the target.
      titles: one for each of the covariances.
      draws: of each panel, [n, D] each. Default `None`: none are shown.
      is_scaled: whether to give every ellipse the area of the target's: a proposal that has the
        shape of the target may be smaller. Default `False`.
      coordinates: indices of the two that are shown.
      figure: matplotlib figure or subfigure to draw into. Default `None`: a new one.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      ValueError: if there are fewer than two coordinates, not as many titles or draws as
        covariances, or a covariance is not positive definite.

    Example:
      >>> figure = tfpa.plots.ellipses([np.eye(2), 4 * np.eye(2)], np.eye(2), ['one', 'two'])
      >>> [ax.get_title() for ax in figure.axes]
      ['one', 'two']
    """
    count, size = len(covariances), len(np.atleast_1d(reference_covariance))
    pair = _pair(coordinates, size)
    truth = _planar('reference_covariance', reference_covariance, size, pair)
    learned = [_planar('covariances', own, size, pair) for own in covariances]
    _check_panels(count, size, titles, draws)
    figure, axes = style.make_axes(
        figure, 1, count, (3 * count + 0.4, 3.5), sharex=True, sharey=True
    )
    for i, (ax, own) in enumerate(zip(axes[0], learned, strict=True)):
        centre = np.zeros(2)
        if is_scaled:
            own = own * np.sqrt(np.linalg.det(truth) / np.linalg.det(own))
        if draws is not None:
            points = np.asarray(draws[i])[:, pair]
            centre = points.mean(axis=0)
            ax.plot(*points.T, '.', color=style.GREY, markersize=3, label='draws')
        ellipse(ax, truth, centre, color='black', linestyle='--', linewidth=1.2, label='target')
        ellipse(ax, own, centre, color=style.BLUE, linewidth=2, label='learned')
        ax.set_title(titles[i], fontsize=11)
        ax.set(xlabel=f'$q_{pair[0] + 1}$')
    axes[0, 0].set(ylabel=f'$q_{pair[1] + 1}$')
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc='outside lower center', ncols=3, frameon=False, fontsize=9)
    return figure


def _pair(coordinates, size) -> list[int]:
    if size < 2:
        raise ValueError(
            f'`reference_covariance` must have at least two coordinates for an ellipse; got {size}.'
        )
    pair = list(coordinates)
    if len(pair) != 2 or pair[0] == pair[1] or not set(pair) <= set(range(size)):
        raise ValueError(
            f'`coordinates` must be two different indices from 0 to {size - 1}; got {pair}.'
        )
    return pair


def _planar(name, covariance, size, pair) -> np.ndarray:
    """Rows and columns of the two coordinates."""
    planar = checks.matrix(name, covariance, size)[np.ix_(pair, pair)]
    checks.cholesky(name, planar)
    return planar


def _check_panels(count, size, titles, draws):
    if not count:
        raise ValueError('`covariances` is empty: a picture needs at least one.')
    for name, given in (('titles', titles), ('draws', draws)):
        if given is not None and len(given) != count:
            raise ValueError(
                f'`{name}` must be as many as `covariances`, {count}; got {len(given)}.'
            )
    for own in () if draws is None else draws:
        if np.ndim(own) != 2 or np.shape(own)[1] != size or not len(own):
            raise ValueError(
                f'`draws` must have shape [n, {size}] in each panel; got {np.shape(own)}.'
            )


def estimated_covariance(draws: Any) -> np.ndarray:
    """What `tuning.covariance` makes of draws [N, D], shape [D, D]."""
    estimator = covariance()
    draws = tf.constant(np.asarray(draws, np.float64))
    state = estimator.init(draws.shape[1], draws.dtype)
    sums = estimator.collect(state, draws, draws, tf.ones([len(draws)], tf.bool))
    factor = estimator.factor(estimator.absorb(state, sums)).numpy()
    return factor @ factor.T


def ellipse(ax: Any, matrix: np.ndarray, centre: Any = (0, 0), **kwargs: Any) -> None:
    """The ellipse of one standard deviation of a covariance [2, 2] about a centre [2]."""
    ax.plot(*(np.linalg.cholesky(matrix) @ _CIRCLE + np.reshape(centre, [2, 1])), **kwargs)
