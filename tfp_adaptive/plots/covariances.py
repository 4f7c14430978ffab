"""What the proposal believes of the target's shape, beside what the draws say."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfp_adaptive.plots import checks, packed, style

_MAX_COORDINATES = 1000
_MAX_NAMED = 5


def covariance(
    run: Any,
    coordinates: str | Sequence[str] | None = None,
    *,
    reference_covariance: Any = None,
    figure: Any = None,
) -> Any:
    """The learned covariance C C^T beside the covariance S of the draws.

    Above, both as correlations. Below, the learned scales against the standard deviations of the
    draws, which lie on a line of slope one where the proposal has learned them; and the standard
    deviations of S along its principal axes, before and after the proposal's change of coordinates,
    C^{-1} S C^{-T}, each relative to its geometric mean: flat is perfect, and the square of largest
    over smallest is the condition number. All in the coordinates of the sampler, without the bounds
    of a model. Coordinates that never moved have no correlations: they are left out, and named
    above. Where there are fewer draws than coordinates, the axes without any spread are left out.

    Args:
      run: `SampleRun`.
      coordinates: a label, such as 'w[3]', or a sequence of them, for a part of a large matrix.
        Default `None`: all.
      reference_covariance: [D, D] to show instead of that of the draws, in the same coordinates.
        Default `None`.
      figure: matplotlib figure or subfigure to draw into. Default `None`: a new one.

    Returns:
      The figure.

    Raises:
      ImportError: without matplotlib.
      TypeError: if `run` is no `SampleRun`, or `figure` no figure.
      ValueError: if the run has no linear proposal of this package, for a coordinate that does not
        exist, for more than 1,000 of them, if none of them moved, or if `reference_covariance` has
        another shape or is not positive definite.

    Example:
      >>> figure = tfpa.plots.covariance(run)
      >>> [ax.get_title() for ax in figure.axes[:2]]
      ['learned', 'draws']
    """
    style.check_run(run)
    if run.learned is None:
        raise ValueError(
            '`run` has no learned covariance: its kernel learns no matrix, or its preconditioner '
            'is not linear.'
        )
    labels = packed.labels(run)
    chosen = packed.choose(run, labels if coordinates is None else checks.names(coordinates))
    if len(chosen) > _MAX_COORDINATES:
        raise ValueError(
            f'`coordinates` must name at most {_MAX_COORDINATES} of the {len(labels)} coordinates: '
            'a larger matrix is no picture.'
        )
    still: list[int] = []
    if reference_covariance is None:
        draws, still = _draws(run, chosen)
        chosen = [i for i in chosen if i not in still]
        reference = np.atleast_2d(np.cov(draws))
        name = 'unconstrained draws' if packed.are_unconstrained(run) else 'draws'
    else:
        reference, name = _reference(reference_covariance, len(labels), chosen), 'reference'
    learned = _submatrix(run, chosen)
    figure, axes = style.make_axes(figure, 2, 2, (8.5, 8))
    if still:
        figure.suptitle(_note([labels[i] for i in still]), fontsize=10)
    names = [labels[i] for i in chosen]
    image = None
    for ax, matrix, title in zip(axes[0], (learned, reference), ('learned', name), strict=True):
        image = _heat_map(ax, matrix, names, title)
    figure.colorbar(image, ax=list(axes[0]), label='correlation', shrink=0.8, pad=0.02)
    for ax in axes.flat:
        ax.set_box_aspect(1)
    _scales(axes[1, 0], learned, reference, name)
    _spectra(axes[1, 1], learned, reference)
    return figure


def _submatrix(run, chosen) -> np.ndarray:
    columns = np.zeros([len(chosen), run.event_size])
    columns[np.arange(len(chosen)), chosen] = 1
    return np.asarray(run.learned.covariance_matvec(columns)[:, chosen], np.float64)


def _draws(run, chosen) -> tuple[np.ndarray, list[int]]:
    """(draws [number of coordinates that moved, N], indices of those that never did)."""
    draws = packed.columns(run, chosen).reshape([len(chosen), -1]).astype(np.float64)
    is_still = np.ptp(draws, axis=1) == 0
    if is_still.all():
        raise ValueError(
            '`run` has no two different draws, and so no covariance to show: draw more, or pass '
            '`reference_covariance`.'
        )
    return draws[~is_still], np.array(chosen)[is_still].tolist()


def _reference(given, size, chosen) -> np.ndarray:
    name = 'reference_covariance'
    reference = checks.matrix(name, given, size)[np.ix_(chosen, chosen)]
    checks.cholesky(name, reference)
    return reference


def _note(still) -> str:
    more = f' and {len(still) - _MAX_NAMED} more' if len(still) > _MAX_NAMED else ''
    return f'without {", ".join(still[:_MAX_NAMED])}{more}, which never moved'


def _heat_map(ax, matrix, names, title):
    scale = np.sqrt(np.diag(matrix))
    image = ax.imshow(
        matrix / np.outer(scale, scale), cmap='RdBu_r', vmin=-1, vmax=1, interpolation='nearest'
    )
    ax.spines[['left', 'bottom']].set_visible(False)
    ax.set_title(title, fontsize=11)
    style.ticks(ax, names)
    return image


def _scales(ax, learned, reference, name):
    x, y = np.sqrt(np.diag(reference)), np.sqrt(np.diag(learned))
    ax.plot(x, y, 'o', color=style.BLUE, markersize=5, alpha=0.7, markeredgewidth=0)
    ratio = np.exp(np.mean(np.log(y / x)))
    ends = np.array([x.min(), x.max()])
    ax.plot(ends, ratio * ends, color=style.GREY, linestyle='--', linewidth=1, label='proportional')
    ax.set(xlabel=f'standard deviation, {name}', ylabel='learned scale')
    style.log_scale(ax, 'x')
    style.log_scale(ax, 'y')
    style.legend(ax, loc='lower left', bbox_to_anchor=(0, 1))


def _spectra(ax, learned, reference):
    scale = np.sqrt(np.diag(reference))
    rank = np.linalg.matrix_rank(reference / np.outer(scale, scale), hermitian=True)
    root = np.linalg.cholesky(learned)
    white = np.linalg.solve(root, np.linalg.solve(root, reference).T)
    for matrix, colour, marker, label in (
        (reference, style.ORANGE, 's', 'as they are'),
        (white, style.BLUE, 'o', 'through the proposal'),
    ):
        variances = np.linalg.eigvalsh(matrix)[::-1][:rank]
        sd = np.sqrt(np.maximum(variances, np.finfo(float).tiny))
        sd /= np.exp(np.mean(np.log(sd)))
        condition = style.number((sd[0] / sd[-1]) ** 2) if rank == len(matrix) else 'infinite'
        ax.plot(
            np.arange(1, len(sd) + 1),
            sd,
            marker=marker,
            markersize=4,
            color=colour,
            label=f'{label}: condition {condition}',
        )
    ax.axhline(1, color=style.GREY, linewidth=0.8)
    ax.set(xlabel='principal axis', ylabel='relative standard deviation')
    ax.xaxis.get_major_locator().set_params(integer=True)
    style.log_scale(ax, 'y')
    style.legend(ax, loc='lower left', bbox_to_anchor=(0, 1))
