"""The picture of the adaptation draws the trace of the warm-up."""

import dataclasses

import matplotlib as mpl
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support import runs

STEPS = np.arange(1, runs.NUM_WARMUP_STEPS + 1)


def panel(figure, ylabel):
    (found,) = [ax for ax in figure.axes if ax.get_ylabel().startswith(ylabel)]
    return found


def line(ax, label):
    (found,) = [artist for artist in ax.lines if artist.get_label() == label]
    return found


def test_it_draws_the_trace():
    run = runs.gaussian_run()
    figure = tfpa.plots.adaptation(run, runs.COVARIANCE)
    assert isinstance(figure, mpl.figure.Figure)
    labels = [ax.get_ylabel().split()[0] for ax in figure.axes]
    assert labels == ['acceptance', 'entropy', 'largest', 'learned', 'condition']
    assert [ax.get_xlabel() for ax in figure.axes] == ['', '', '', '', 'warm-up step']
    for name, series in (
        ('acceptance', run.warmup_trace.accept_prob),
        ('entropy weight', run.warmup_trace.entropy_weight),
        ('largest', run.warmup_trace.spectral_radius),
    ):
        steps, values = panel(figure, name).lines[0].get_data()
        np.testing.assert_array_equal(steps, STEPS)
        np.testing.assert_array_equal(values, series)


def test_acceptance_has_its_running_mean_and_its_target():
    run = runs.gaussian_run()
    ax = panel(tfpa.plots.adaptation(run), 'acceptance')
    width = runs.NUM_WARMUP_STEPS // 40
    steps, mean = line(ax, f'running mean of {width} steps').get_data()
    assert steps[0] == width
    assert steps[-1] == runs.NUM_WARMUP_STEPS
    np.testing.assert_allclose(mean[0], run.warmup_trace.accept_prob[:width].mean(), rtol=1e-5)
    np.testing.assert_allclose(mean[-1], run.warmup_trace.accept_prob[-width:].mean(), rtol=1e-5)
    assert line(ax, 'target').get_ydata()[0] == 0.67


def test_scales_and_condition_number_of_every_snapshot():
    run = runs.gaussian_run()
    figure = tfpa.plots.adaptation(run, runs.COVARIANCE)
    scales, condition = panel(figure, 'learned scale'), panel(figure, 'condition number')
    steps, numbers = condition.lines[0].get_data()
    assert steps[0] == 1
    assert steps[-1] == runs.NUM_WARMUP_STEPS
    assert len(steps) == 100
    for i in (0, 50, -1):
        factor = run.warmup_preconditioner[int(steps[i]) - 1].astype(np.float64)
        learned = factor @ factor.T
        expected = np.sqrt(np.diag(learned))
        for coordinate in range(2):
            assert scales.lines[coordinate].get_ydata()[i] == pytest.approx(
                expected[coordinate], rel=1e-5
            )
        geometric_mean = line(scales, 'geometric mean').get_ydata()[i]
        assert geometric_mean == pytest.approx(np.sqrt(np.prod(expected)), rel=1e-5)
        white = np.linalg.solve(factor, np.linalg.solve(factor, runs.COVARIANCE).T)
        assert numbers[i] == pytest.approx(np.linalg.cond(white), rel=1e-4)
    reference = line(condition, 'of the reference itself').get_ydata()[0]
    assert reference == pytest.approx(np.linalg.cond(runs.COVARIANCE))


def test_without_a_history_it_draws_the_entropy_and_the_final_number():
    run = dataclasses.replace(runs.gaussian_run(), warmup_preconditioner=())
    figure = tfpa.plots.adaptation(run, runs.COVARIANCE)
    scale = panel(figure, 'learned scale,\ngeometric mean').lines[0].get_ydata()
    np.testing.assert_allclose(scale, np.exp(run.warmup_trace.entropy / 2), rtol=1e-5)
    steps, numbers = panel(figure, 'condition number').lines[0].get_data()
    whole = tfpa.plots.adaptation(runs.gaussian_run(), runs.COVARIANCE)
    assert list(steps) == [runs.NUM_WARMUP_STEPS]
    assert numbers[0] == panel(whole, 'condition number').lines[0].get_ydata()[-1]


def test_a_fixed_weight_and_a_zero_residual_have_no_panel():
    run = runs.gaussian_run()
    info = run.warmup_trace
    still = info._replace(
        entropy_weight=np.zeros_like(info.entropy_weight),
        spectral_radius=np.zeros_like(info.spectral_radius),
    )
    figure = tfpa.plots.adaptation(dataclasses.replace(run, warmup_trace=still))
    assert [ax.get_ylabel() for ax in figure.axes] == ['acceptance', 'learned scale']


def test_many_coordinates_are_thinned(monkeypatch):
    monkeypatch.setattr('tfp_adaptive.plots.warmup._MAX_LINES', 1)
    ax = panel(tfpa.plots.adaptation(runs.gaussian_run()), 'learned scale')
    assert ax.lines[0].get_label() == '1 of 2 coordinates'
    assert len(ax.lines) == 2


def test_it_draws_into_a_given_figure():
    given = mpl.pyplot.figure(figsize=(8, 8), layout='constrained')
    left, _ = given.subfigures(1, 2)
    assert tfpa.plots.adaptation(runs.gaussian_run(), figure=left) is left
    assert len(left.axes) == 4
    assert mpl.pyplot.get_fignums() == [given.number]


def test_a_kernel_without_adaptation_is_refused():
    run = tfpa.sample(
        runs.gaussian_log_prob,
        10,
        10,
        initial_state=tf.zeros([2, 2]),
        kernel=tfp.mcmc.RandomWalkMetropolis,
        seed=(0, 1),
        progress=False,
        jit_compile=False,
    )
    with pytest.raises(ValueError, match='`run` has no adaptation to show'):
        tfpa.plots.adaptation(run)


def test_a_warm_up_of_a_frozen_kernel_is_refused():
    info = runs.warmup_info(np.zeros(runs.NUM_WARMUP_STEPS))._replace(
        entropy=(), spectral_radius=(), entropy_weight=(), penalty_weight=()
    )
    run = dataclasses.replace(runs.gaussian_run(), warmup_trace=info)
    with pytest.raises(ValueError, match='`run` has no adaptation to show'):
        tfpa.plots.adaptation(run)


@pytest.mark.parametrize(
    ('covariance', 'message'),
    [
        (np.eye(3), r'must have shape \(2, 2\), .*got \(3, 3\)'),
        (-np.eye(2), 'must be positive definite'),
        (np.diag([1.0, np.inf]), 'must be positive definite'),
    ],
)
def test_an_impossible_reference_is_refused(covariance, message):
    with pytest.raises(ValueError, match=f'`reference_covariance` {message}'):
        tfpa.plots.adaptation(runs.gaussian_run(), covariance)
