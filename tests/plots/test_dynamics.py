"""plots.dynamics, tuning, modes and animations: the numbers behind the pictures, and marks."""

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import pyplot as plt

import tfp_adaptive as tfpa
from tfp_adaptive.plots import density, dynamics, tuning

SCALE = 0.5


def gaussian(x):
    return -tf.reduce_sum((x / SCALE) ** 2, axis=-1) / 2


def quartic(x):
    return -tf.reduce_sum(x**4, axis=-1)


def in_dtype(dtype):
    """The Gaussian as one who knows of one dtype only would write it."""
    return lambda x: gaussian(x - tf.zeros([2], dtype))


def twin(position, velocity, step_size, num_steps, method):
    """Powers of the matrix that one step applies to (q, v) on a Gaussian."""
    stiffness = 1 / SCALE**2
    if method == 'euler':
        step = np.array([[1, step_size], [-step_size * stiffness, 1]])
    else:
        kick = np.array([[1, 0], [-step_size / 2 * stiffness, 1]])
        step = kick @ np.array([[1, step_size], [0, 1]]) @ kick
    start = np.stack([position, velocity])
    rows = [np.linalg.matrix_power(step, k) @ start for k in range(num_steps + 1)]
    energy = [np.sum(q**2) * stiffness / 2 + np.sum(v**2) / 2 for q, v in rows]
    return np.array(rows), np.array(energy) - energy[0]


@pytest.mark.parametrize('method', dynamics.METHODS)
def test_trajectories_are_those_of_the_matrices(method):
    start = np.array([0.3, -0.2]), np.array([1.0, 0.5])
    path = dynamics.trajectory(gaussian, *start, 0.2, 8, method=method)
    rows, errors = twin(*start, 0.2, 8, method)
    np.testing.assert_allclose(path.positions, rows[:, 0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(path.velocities, rows[:, 1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(path.energy_errors, errors, rtol=1e-10, atol=1e-12)


def test_unknown_methods_are_refused():
    with pytest.raises(ValueError, match=r"`method` must be one of .* got 'verlet'"):
        dynamics.trajectory(gaussian, [0.0], [1.0], 0.1, 2, method='verlet')
    with pytest.raises(ValueError, match=r'must have shape \[2\]'):
        tfpa.plots.integrators(gaussian, [0.0] * 3, [1.0] * 3, [0.1], 1.0)


def test_panels_show_every_path_and_the_region():
    figure = tfpa.plots.integrators(
        gaussian, [0.3, 0.0], [1.0, 0.5], [0.1, 0.25], 2.0, region=[[-4, 4], [-1, 1]]
    )
    assert len(figure.axes) == 2
    for ax, num_steps in zip(figure.axes, (20, 8), strict=True):
        paths = {line.get_label(): line.get_xydata() for line in ax.lines}
        assert paths['leapfrog'].shape == paths['euler'].shape == (num_steps + 1, 2)
        assert ax.get_xlim()[0] < -4
        assert ax.get_xlim()[1] > 4
        np.testing.assert_allclose(np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim()))


@pytest.mark.parametrize(
    ('target', 'step_sizes', 'time'),
    [(gaussian, [0.1, 1.25], 50.0), (gaussian, [0.1, 0.75], 50.0), (quartic, [0.2, 0.6], 6.0)],
)
def test_a_path_that_explodes_leaves_the_view(target, step_sizes, time):
    """The scale is that of the density, and a cross marks where a path is lost."""
    start = [SCALE, 0.0], [0.0, 1.0]
    figure = tfpa.plots.integrators(target, *start, step_sizes, time)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(texts) == ['euler', 'leapfrog', 'leaves the view', 'start']
    num_whole = 0
    for ax, step_size in zip(figure.axes, step_sizes, strict=True):
        assert len(ax.collections) == 1
        assert np.ptp(ax.get_xlim()) < 20 * SCALE
        view = np.transpose([ax.get_xlim(), ax.get_ylim()])
        crosses = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == 'X']
        lines = {line.get_label(): line.get_xydata() for line in ax.lines}
        for method in dynamics.METHODS:
            num_steps, shown = round(time / step_size), lines[method]
            path = dynamics.trajectory(target, *start, step_size, num_steps, method=method)
            positions = path.positions
            np.testing.assert_array_equal(shown, positions[: len(shown)])
            num_whole += len(shown) == len(positions)
            if len(shown) < len(positions):
                way = shown[-1], positions[len(shown)]
                assert any(is_exit(cross, *way, view) for cross in crosses)
    assert num_whole >= 1


def is_exit(point, last, beyond, view):
    """Whether the line between the two leaves the view here."""
    share = np.linalg.norm(point - last) / np.linalg.norm(beyond - last)
    is_between = share < 1 and np.allclose(last + share * (beyond - last), point)
    return is_between and np.min(np.abs(view - point)) < 1e-9


def test_what_explodes_at_once_or_overflows_is_drawn_as_well():
    steep = dynamics.trajectory(lambda x: 1e200 * gaussian(x), [1.0, 0.0], [0.0, 0.0], 0.1, 5)
    assert not np.isfinite(steep.positions[-1]).all()
    figure = tfpa.plots.integrators(
        lambda x: 1e200 * gaussian(x), [1.0, 0.0], [0.0, 0.0], [0.1], 0.5, methods=['leapfrog']
    )
    assert np.isfinite(figure.axes[0].get_xlim()).all()


@pytest.mark.parametrize(('limits', 'constant'), [((1e20, 2e20), 0), ((-1.0, 1.0), 1e17)])
def test_contours_that_rounding_loses_are_left_out(limits, constant):
    _, ax = plt.subplots()
    ax.set(xlim=limits, ylim=limits)
    density.contours(ax, lambda x: gaussian(x) - constant)
    assert not ax.collections
    assert ax.get_xlim() == limits
    density.contours(ax, lambda x: np.nan * gaussian(x))
    assert not ax.collections


@pytest.mark.parametrize('dtype', [tf.float32, tf.float64])
def test_a_density_of_either_precision(dtype, rng):
    """One that takes float64 gets it; one that takes float32 alone gets that."""
    start = [0.3, 0.0], [1.0, 0.5]
    tfpa.plots.integrators(in_dtype(dtype), *start, [0.2], 1.0)
    tfpa.plots.energy_errors(in_dtype(dtype), *start, [0.2], 1.0)
    tfpa.plots.modes(in_dtype(dtype), rng.normal(size=[30, 3, 2]))
    errors = dynamics.trajectory(in_dtype(dtype), *start, 0.2, 8).energy_errors
    _, expected = twin(*np.array(start), 0.2, 8, 'leapfrog')
    gap = np.max(np.abs(errors - expected))
    assert gap < (1e-12 if dtype == tf.float64 else 1e-5)


def test_a_large_constant_leaves_energy_errors_as_they_are():
    start = np.array([0.3, -0.2]), np.array([1.0, 0.5])
    path = dynamics.trajectory(lambda x: gaussian(x) - 1e7, *start, 0.2, 8)
    _, errors = twin(*start, 0.2, 8, 'leapfrog')
    np.testing.assert_allclose(path.energy_errors, errors, atol=1e-7)


def test_what_fails_in_both_precisions_says_why():
    def broken(x):
        raise RuntimeError(f'no density in {x.dtype.name}')

    with pytest.raises(RuntimeError, match='no density in float32') as error:
        dynamics.trajectory(broken, [0.0], [1.0], 0.1, 1)
    assert 'float64' in str(error.value.__context__)


def test_divergent_trajectories_end_with_a_cross_on_the_threshold():
    stable, divergent = 0.9 * 2 * SCALE, 1.5 * 2 * SCALE
    figure = tfpa.plots.energy_errors(gaussian, [0.3], [1.0], [stable, divergent], 20.0)
    (ax,) = figure.axes
    crosses = [line for line in ax.lines if line.get_marker() == 'X']
    assert len(crosses) == 1
    ((time, height),) = crosses[0].get_xydata()
    assert height == 1000
    _, errors = twin(np.array([0.3]), np.array([1.0]), divergent, 13, 'leapfrog')
    first = int(np.argmax(np.abs(errors) > 1000))
    assert (first - 1) * divergent < time <= first * divergent
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [f'step size {stable:g}', f'step size {divergent:g}, diverges']


def test_step_size_smooths_the_acceptance():
    accept_prob, steps = np.linspace(0, 1, 100), np.full(100, 0.3)
    figure = tfpa.plots.step_size(
        accept_prob, steps, target_accept_prob=0.65, learned_step_size=0.3
    )
    upper, lower = figure.axes
    smooth = upper.lines[1].get_ydata()
    np.testing.assert_allclose(smooth, [accept_prob[i : i + 25].mean() for i in range(76)])
    assert lower.lines[1].get_ydata()[0] == 0.3
    with pytest.raises(ValueError, match='arrays of one length'):
        tfpa.plots.step_size([1.0, 0.5], [0.1])


def test_metric_is_the_shrunk_covariance(rng):
    draws = rng.normal(size=[40, 3])
    count = len(draws)
    shrunk = (count * np.cov(draws.T) + 5e-3 * np.eye(3)) / (count + 5)
    np.testing.assert_allclose(tuning.estimated_covariance(draws), shrunk, rtol=1e-6)
    with pytest.raises(ValueError, match='between 2 and the number of draws'):
        tfpa.plots.metric(draws, np.eye(3), [50])
    with pytest.raises(ValueError, match='between 2 and the number of draws'):
        tfpa.plots.metric(draws, np.eye(3), [])
    with pytest.raises(ValueError, match=r'must have shape \(3, 3\)'):
        tfpa.plots.metric(draws, np.eye(2), [20])
    with pytest.raises(ValueError, match=r'`draws` must have shape \[N, D\] .*got \(40, 1\)'):
        tfpa.plots.metric(draws[:, :1], np.eye(1), [20])


def test_ellipses_lie_about_the_draws(rng):
    """Those of the draws so far; about the origin if there are none."""
    draws = np.array([3.0, -5.0, 7.0]) + rng.normal(size=[40, 3])
    counts = 10, 40
    figure = tfpa.plots.metric(draws, np.eye(3), counts, coordinates=(2, 0))
    for ax, count in zip(figure.axes, counts, strict=True):
        lines = {line.get_label(): line.get_xydata() for line in ax.lines}
        for name in ('target', 'learned'):
            centre = (lines[name].min(axis=0) + lines[name].max(axis=0)) / 2
            np.testing.assert_allclose(centre, draws[:count, [2, 0]].mean(axis=0), atol=1e-2)
    (ax,) = tfpa.plots.ellipses([np.eye(2)], np.eye(2), ['one']).axes
    for line in ax.lines:
        np.testing.assert_allclose(line.get_xydata()[:-1].mean(axis=0), 0, atol=1e-2)


@pytest.mark.parametrize(
    ('arguments', 'more', 'message'),
    [
        (([np.eye(1)], np.eye(1), ['a']), {}, '`reference_covariance` must have at least two'),
        (([np.eye(2)], 4.0, ['a']), {}, '`reference_covariance` must have at least two'),
        (([np.eye(3)], np.eye(2), ['a']), {}, r'`covariances` must have shape \(2, 2\)'),
        (([np.eye(2)], -np.eye(2), ['a']), {}, '`reference_covariance` must be positive'),
        (([np.ones([2, 2])], np.eye(2), ['a']), {}, '`covariances` must be positive'),
        (
            ([np.diag([1.0, np.inf])], np.eye(2), ['a']),
            {},
            '`covariances` must be positive',
        ),
        (([np.eye(2)] * 2, np.eye(2), ['a']), {}, '`titles` must be as many .* 2; got 1'),
        (([], np.eye(2), []), {}, '`covariances` is empty'),
        (([np.eye(2)], np.eye(2), ['a']), {'coordinates': (0, 2)}, '`coordinates` must be two'),
        (([np.eye(2)], np.eye(2), ['a']), {'coordinates': (1, 1)}, '`coordinates` must be two'),
        (([np.eye(2)], np.eye(2), ['a']), {'draws': []}, '`draws` must be as many .* 1; got 0'),
        (([np.eye(2)], np.eye(2), ['a']), {'draws': [[1.0, 2.0]]}, r'`draws` must .* \[n, 2\]'),
    ],
)
def test_misuse_of_ellipses(arguments, more, message):
    with pytest.raises(ValueError, match=message):
        tfpa.plots.ellipses(*arguments, **more)


@pytest.mark.parametrize('step_sizes', [[], [0.1, 0.0], [-0.1], [np.nan]])
@pytest.mark.parametrize('name', ['integrators', 'energy_errors'])
def test_step_sizes_are_positive_numbers(name, step_sizes):
    with pytest.raises(ValueError, match='`step_sizes` must be one or more positive numbers'):
        getattr(tfpa.plots, name)(gaussian, [0.0, 0.0], [1.0, 0.0], step_sizes, 1.0)


def test_one_method_or_none():
    start = [0.0, 0.0], [1.0, 0.0], [0.1], 0.3
    (ax,) = tfpa.plots.integrators(gaussian, *start, methods='leapfrog').axes
    assert ax.lines[0].get_label() == 'leapfrog'
    with pytest.raises(ValueError, match='`methods` must be one or more'):
        tfpa.plots.integrators(gaussian, *start, methods=[])


def test_scaled_ellipses_have_the_area_of_the_target():
    matrix = np.array([[4.0, 1.0], [1.0, 9.0]])
    figure = tfpa.plots.ellipses([matrix], np.eye(2), ['one'], is_scaled=True)
    shown = {line.get_label(): line.get_xydata() for line in figure.axes[0].lines}
    target, learned = (_area(shown[name]) for name in ('target', 'learned'))
    np.testing.assert_allclose(learned, target)
    np.testing.assert_allclose(_area(shown['target']), np.pi, rtol=1e-3)


def _area(points):
    x, y = points.T
    return abs(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])) / 2


def test_modes_beyond_the_draws_are_in_the_picture(rng):
    figure = tfpa.plots.modes(gaussian, rng.normal(size=[30, 3, 2]), diagnosis='R-hat 2')
    plane, time = figure.axes
    assert time.get_title() == 'R-hat 2'
    assert len(time.lines) == 2 * 3
    assert len({line.get_marker() for line in time.lines[1::2]}) == 3
    assert len({line.get_marker() for line in plane.lines}) == 3
    with pytest.raises(ValueError, match=r'must have shape \[N, C, 2\]'):
        tfpa.plots.modes(gaussian, rng.normal(size=[30, 2]))


def test_animations_hold_every_frame(tmp_path):
    image = pytest.importorskip('PIL.Image')

    def draw(scale, figure):
        tfpa.plots.ellipses([scale * np.eye(2)], np.eye(2), [str(scale)], figure=figure)

    for name in ('ellipses.gif', 'ellipses.GIF'):
        path = tfpa.plots.animate(draw, [1, 2, 3], tmp_path / name, dpi=30)
        assert image.open(path).n_frames == 3
    with pytest.raises(ValueError, match='`frames` is empty'):
        tfpa.plots.animate(draw, [], tmp_path / 'none.gif')
