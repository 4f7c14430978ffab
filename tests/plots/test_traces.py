"""Traces draw the draws; rank curves show chains that disagree, and only those."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.plots import chains

NUM_RESULTS, NUM_CHAINS = 400, 4


@pytest.fixture(name='draws')
def fixture_draws(rng):
    return rng.standard_normal([NUM_RESULTS, NUM_CHAINS, 2, 4])


def rank_curves(ax):
    """The curves of the chains, without the line at zero."""
    return [line.get_data() for line in ax.lines if len(line.get_xdata()) > 2]


def half_band(ax):
    (band,) = ax.patches
    return band.get_y() + band.get_height()


def test_it_draws_the_draws(draws):
    figure = tfpa.plots.traces(runs.run_of_draws({'w': draws}), ['w[1,2]', 'w[0,0]'])
    (first, _), (second, _) = np.reshape(figure.axes, [2, 2])
    for ax, (i, j) in ((first, (1, 2)), (second, (0, 0))):
        assert ax.get_ylabel().startswith(f'w[{i},{j}]')
        for chain, line in zip(draws[..., i, j].T, ax.lines, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), chain)
    assert second.get_xlabel() == 'draw'


def test_rank_curves_are_differences_of_distribution_functions(draws):
    figure = tfpa.plots.traces(runs.run_of_draws(draws), ['x[0,0]'])
    pooled = np.sort(draws[..., 0, 0], axis=None)
    curves = rank_curves(figure.axes[1])
    assert len(curves) == NUM_CHAINS
    for chain, (share, difference) in zip(draws[..., 0, 0].T, curves, strict=True):
        assert difference[0] == difference[-1] == 0
        k = len(share) // 3
        threshold = pooled[int(np.ceil(share[k] * pooled.size)) - 1]
        expected = np.mean(chain <= threshold) - np.mean(pooled <= threshold)
        assert difference[k] == pytest.approx(expected)
    np.testing.assert_allclose(np.sum([y for _, y in curves], axis=0), 0, atol=1e-12)


def test_chains_that_agree_stay_in_the_band_and_others_leave_it(draws):
    draws[:, 0, 0, 1] += 0.5
    figure = tfpa.plots.traces(runs.run_of_draws(draws), ['x[0,0]', 'x[0,1]'])
    good, bad = figure.axes[1], figure.axes[3]
    assert max(np.abs(y).max() for _, y in rank_curves(good)) < half_band(good)
    assert max(np.abs(y).max() for _, y in rank_curves(bad)) > half_band(bad)


def test_the_band_holds_its_probability(rng):
    """Independent draws leave a 95 % band in at most 5 % of the coordinates."""
    num_coordinates = 200
    _, ax = plt.subplots()
    outside = 0
    for draws in rng.standard_normal([num_coordinates, 300, 3]):
        ax.clear()
        chains.rank_difference(ax, draws)
        outside += max(np.abs(y).max() for _, y in rank_curves(ax)) > half_band(ax)
    error = np.sqrt(num_coordinates * 0.05 * 0.95)
    assert outside < num_coordinates * 0.05 + 3 * error
    # not so wide that nothing would ever leave it
    assert outside > 0


def test_the_worst_coordinates_are_the_default(draws):
    draws[:, 1, 1, 3] += 1
    draws[:, 2, 0, 2] += 2
    figure = tfpa.plots.traces(runs.run_of_draws(draws), max_coordinates=2)
    labels = [ax.get_ylabel().splitlines()[0] for ax in figure.axes[::2]]
    assert labels == ['x[0,2]', 'x[1,3]']


@pytest.mark.parametrize('num_chains', [1, 12])
def test_any_number_of_chains(rng, num_chains):
    figure = tfpa.plots.traces(runs.run_of_draws(rng.standard_normal([50, num_chains, 1])))
    colours = [line.get_color() for line in figure.axes[0].lines]
    assert len({str(colour) for colour in colours}) == num_chains


def test_one_chain_without_a_dimension(rng):
    figure = tfpa.plots.traces(runs.run_of_draws(rng.standard_normal([50, 2]), 0))
    assert len(figure.axes[0].lines) == 1


def test_coordinates_that_never_move():
    figure = tfpa.plots.traces(runs.run_of_draws(np.ones([50, NUM_CHAINS, 1])))
    assert not figure.axes[1].patches


def test_one_label_needs_no_list(draws):
    figure = tfpa.plots.traces(runs.run_of_draws(draws), 'x[1,2]')
    assert [ax.get_ylabel().splitlines()[0] for ax in figure.axes[::2]] == ['x[1,2]']


def test_misuse(draws):
    run = runs.run_of_draws(draws)
    with pytest.raises(ValueError, match=r"such as 'x\[0,0\]'; got \['y'\]"):
        tfpa.plots.traces(run, 'y')
    for count in (0, -1, 1.5):
        with pytest.raises(ValueError, match='`max_coordinates` must be an int of at least 1'):
            tfpa.plots.traces(run, max_coordinates=count)
    with pytest.raises(ValueError, match=r"such as 'x\[0,0\]'; got \['x\[9\]'\]"):
        tfpa.plots.traces(run, ['x[0,0]', 'x[9]'])
    with pytest.raises(ValueError, match='at least two draws'):
        tfpa.plots.traces(runs.run_of_draws(draws[:1]))


@pytest.mark.parametrize('name', ['adaptation', 'covariance', 'traces', 'trajectories'])
def test_what_is_no_run_or_no_figure(draws, name):
    with pytest.raises(TypeError, match=r'`run` must be what tfp_adaptive.sample returned; got nd'):
        getattr(tfpa.plots, name)(draws)
    with pytest.raises(TypeError, match=r'`figure` must be a matplotlib figure.*got str'):
        tfpa.plots.traces(runs.run_of_draws(draws), figure='traces.png')
