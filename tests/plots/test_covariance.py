"""The learned covariance beside that of the draws: the matrices, scales and spectra are theirs."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.kernels import FrozenKernel

NUM_RESULTS, NUM_CHAINS = 300, 4


def with_factor(run, factor):
    """The run as if this had been its learned factor."""
    kernel = FrozenKernel(
        runs.gaussian_log_prob,
        tfpa.proposals.leapfrog(2),
        tfpa.preconditioners.cholesky(),
        tf.constant(factor),
    )
    return dataclasses.replace(run, frozen_kernel=kernel)


def correlation(covariance):
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


def conditions(ax):
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    return [
        float(re.search(r'condition ([\d.e+,]+)', text).group(1).replace(',', '')) for text in texts
    ]


@pytest.fixture(name='wide')
def fixture_wide(rng):
    """A run of two parts in 5 dimensions, with their covariance and a factor that is not theirs."""
    mixing = np.tril(rng.standard_normal([5, 5]), -1) + np.diag(np.geomspace(0.1, 10, 5))
    draws = rng.standard_normal([NUM_RESULTS, NUM_CHAINS, 5]) @ mixing.T
    states = [draws[..., 0], draws[..., 1:].reshape([NUM_RESULTS, NUM_CHAINS, 2, 2])]
    run = with_factor(runs.run_of_draws(states), np.diag(np.geomspace(1, 2, 5)))
    return run, np.cov(draws.reshape([-1, 5]).T)


def test_matrices_scales_and_spectra(wide):
    run, covariance = wide
    figure = tfpa.plots.covariance(run)
    learned, draws, scales, spectra = figure.axes[:4]
    assert (learned.get_title(), draws.get_title()) == ('learned', 'draws')
    np.testing.assert_allclose(learned.images[0].get_array(), np.eye(5), atol=1e-12)
    np.testing.assert_allclose(draws.images[0].get_array(), correlation(covariance), rtol=1e-9)
    labels = [tick.get_text() for tick in draws.get_yticklabels()]
    assert labels == ['x0', 'x1[0,0]', 'x1[0,1]', 'x1[1,0]', 'x1[1,1]']
    x, y = scales.lines[0].get_data()
    np.testing.assert_allclose(x, np.sqrt(np.diag(covariance)), rtol=1e-9)
    np.testing.assert_allclose(y, np.geomspace(1, 2, 5), rtol=1e-9)
    inverse = np.diag(1 / np.geomspace(1, 2, 5))
    white = inverse @ covariance @ inverse
    np.testing.assert_allclose(
        conditions(spectra), [np.linalg.cond(covariance), np.linalg.cond(white)], rtol=0.01
    )
    for line, matrix in zip(spectra.lines[:2], (covariance, white), strict=True):
        sd = np.sqrt(np.linalg.eigvalsh(matrix)[::-1])
        np.testing.assert_allclose(line.get_ydata(), sd / np.exp(np.log(sd).mean()), rtol=1e-6)


def test_a_perfect_factor_whitens(wide):
    run, covariance = wide
    figure = tfpa.plots.covariance(with_factor(run, 3 * np.linalg.cholesky(covariance)))
    assert conditions(figure.axes[3])[1] == 1
    x, y = figure.axes[2].lines[0].get_data()
    np.testing.assert_allclose(y, 3 * x, rtol=1e-9)
    np.testing.assert_allclose(
        figure.axes[0].images[0].get_array(), figure.axes[1].images[0].get_array(), atol=1e-9
    )


def test_some_coordinates_and_a_reference(wide):
    run, covariance = wide
    figure = tfpa.plots.covariance(run, ['x1[1,1]', 'x0'], reference_covariance=covariance)
    assert figure.axes[1].get_title() == 'reference'
    chosen = np.ix_([4, 0], [4, 0])
    np.testing.assert_allclose(
        figure.axes[1].images[0].get_array(), correlation(covariance[chosen]), rtol=1e-9
    )
    np.testing.assert_allclose(figure.axes[2].lines[0].get_ydata(), [2, 1], rtol=1e-9)


def test_draws_are_those_of_the_sampler(wide):
    """Bounded draws have another covariance than what the proposal has learned."""
    run, covariance = wide
    constrained = tf.nest.map_structure(np.exp, run.states)
    bounded = dataclasses.replace(run, states=constrained, unconstrained_states=run.states)
    figure = tfpa.plots.covariance(bounded)
    assert figure.axes[1].get_title() == 'unconstrained draws'
    np.testing.assert_allclose(
        figure.axes[1].images[0].get_array(), correlation(covariance), rtol=1e-9
    )


def test_of_a_real_run():
    run = runs.gaussian_run()
    figure = tfpa.plots.covariance(run, reference_covariance=runs.COVARIANCE)
    before, after = conditions(figure.axes[3])
    assert before == pytest.approx(np.linalg.cond(runs.COVARIANCE), rel=0.01)
    assert after < before


def test_coordinates_that_never_moved_are_left_out(wide, monkeypatch):
    run, covariance = wide
    still = [np.full_like(run.states[0], 3.0), np.array(run.states[1])]
    still[1][..., 1, 0] = -1.0
    run = dataclasses.replace(run, states=still, unconstrained_states=still)
    figure = tfpa.plots.covariance(run)
    assert figure.get_suptitle() == 'without x0, x1[1,0], which never moved'
    kept = np.ix_([1, 2, 4], [1, 2, 4])
    np.testing.assert_allclose(
        figure.axes[1].images[0].get_array(), correlation(covariance[kept]), rtol=1e-9
    )
    np.testing.assert_allclose(
        figure.axes[2].lines[0].get_ydata(), np.geomspace(1, 2, 5)[[1, 2, 4]], rtol=1e-9
    )
    assert conditions(figure.axes[3])[0] == pytest.approx(
        np.linalg.cond(covariance[kept]), rel=0.01
    )
    # a reference has them
    whole = tfpa.plots.covariance(run, reference_covariance=covariance)
    assert whole.axes[0].images[0].get_array().shape == (5, 5)
    assert not whole.get_suptitle()
    monkeypatch.setattr('tfp_adaptive.plots.covariances._MAX_NAMED', 1)
    assert tfpa.plots.covariance(run).get_suptitle() == 'without x0 and 1 more, which never moved'


def test_fewer_draws_than_coordinates(wide):
    run, _ = wide
    few = [part[:1, :3] for part in run.states]
    short = with_factor(runs.run_of_draws(few), np.eye(5))
    spectra = tfpa.plots.covariance(short).axes[3]
    assert [len(line.get_ydata()) for line in spectra.lines[:2]] == [2, 2]
    assert all('infinite' in text.get_text() for text in spectra.get_legend().get_texts())


def test_one_draw_has_no_covariance(wide):
    run, covariance = wide
    one = with_factor(runs.run_of_draws([part[:1, :1] for part in run.states]), np.eye(5))
    with pytest.raises(ValueError, match='`run` has no two different draws'):
        tfpa.plots.covariance(one)
    assert tfpa.plots.covariance(one, reference_covariance=covariance).axes


def test_one_label_needs_no_list(wide):
    figure = tfpa.plots.covariance(wide[0], 'x1[1,1]')
    assert figure.axes[0].images[0].get_array().shape == (1, 1)


def test_misuse(wide):
    run, covariance = wide
    for wrong in (-covariance, np.where(np.eye(5) > 0, np.inf, 0), np.full([5, 5], np.nan)):
        with pytest.raises(ValueError, match='`reference_covariance` must be positive definite'):
            tfpa.plots.covariance(run, reference_covariance=wrong)
    with pytest.raises(ValueError, match=r"such as 'x0'; got \['y'\]"):
        tfpa.plots.covariance(run, ['y'])
    with pytest.raises(ValueError, match=r'`reference_covariance` must have shape \(5, 5\)'):
        tfpa.plots.covariance(run, reference_covariance=np.eye(2))
    with pytest.raises(ValueError, match='`run` has no learned covariance'):
        tfpa.plots.covariance(dataclasses.replace(run, frozen_kernel=None))


def test_a_matrix_that_is_no_picture_is_refused(wide, monkeypatch):
    monkeypatch.setattr('tfp_adaptive.plots.covariances._MAX_COORDINATES', 4)
    with pytest.raises(ValueError, match='`coordinates` must name at most 4 of the 5'):
        tfpa.plots.covariance(wide[0])
