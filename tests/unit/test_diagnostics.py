"""R-hat against ArviZ, effective sizes against the exact ones, and names of coordinates."""

import collections
import logging

import arviz
import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.sampling import coordinates, figures

NUM_CHAINS = 4


def autoregressive(rng, num_draws, num_chains, correlation):
    """Stationary AR(1) chains of unit variance, [num_draws, num_chains]."""
    noise = rng.standard_normal([num_draws, num_chains])
    chains = np.empty_like(noise)
    chains[0] = noise[0]
    for t in range(1, num_draws):
        chains[t] = correlation * chains[t - 1] + np.sqrt(1 - correlation**2) * noise[t]
    return chains


def awkward_draws(rng, num_draws):
    """[num_draws, C, 5]: Cauchy; one chain wider, one shifted, ties from rejections, one stuck."""
    draws = rng.standard_cauchy([num_draws, NUM_CHAINS, 5])
    draws[:, 0, 0] *= 3
    draws[:, 1, 1] += 0.5
    draws[5::3, :, 2] = draws[4:-1:3, :, 2][: len(draws[5::3])]
    draws[10:, 3, 3] = draws[9, 3, 3]
    return draws


@pytest.mark.parametrize('num_draws', [200, 201])
def test_rhat_is_that_of_arviz(rng, num_draws):
    draws = awkward_draws(rng, num_draws)
    _, _, rhat = tfpa.sampling.diagnose(draws, 1)
    expected = [arviz.rhat(draws[..., i].T) for i in range(draws.shape[-1])]
    np.testing.assert_allclose(rhat, expected, rtol=1e-12)


def test_rhat_sees_chains_that_differ_in_scale_alone(rng):
    draws = rng.standard_normal([500, NUM_CHAINS, 2])
    draws[:, 0, 0] *= 3
    _, _, rhat = tfpa.sampling.diagnose(draws, 1)
    assert rhat[0] > 1.1
    assert rhat[1] < 1.03


@pytest.mark.parametrize('correlation', [0.0, 0.8])
def test_effective_size_of_an_autoregression(rng, correlation):
    num_draws, num_coordinates = 2000, 40
    draws = autoregressive(rng, num_draws, NUM_CHAINS * num_coordinates, correlation)
    ess, ess_of_squares, _ = tfpa.sampling.diagnose(
        draws.reshape([num_draws, NUM_CHAINS, num_coordinates]), 1
    )
    for size, rho in ((ess, correlation), (ess_of_squares, correlation**2)):
        expected = num_draws * NUM_CHAINS * (1 - rho) / (1 + rho)
        error = size.std(ddof=1) / np.sqrt(num_coordinates)
        # the truncation of the sum biases a single estimate by a few per cent
        assert abs(size.mean() - expected) < 4 * error + 0.05 * expected


def test_effective_size_of_antithetic_chains(rng):
    """19 n by theory, which no 4000 draws can show: the bound, and the squares decide."""
    num_draws, num_coordinates, rho = 1000, 40, -0.9
    draws = autoregressive(rng, num_draws, NUM_CHAINS * num_coordinates, rho)
    draws = draws.reshape([num_draws, NUM_CHAINS, num_coordinates])
    ess, ess_of_squares, _ = tfpa.sampling.diagnose(draws, 1)
    total = num_draws * NUM_CHAINS
    np.testing.assert_allclose(ess, total * np.log10(total))
    expected = total * (1 - rho**2) / (1 + rho**2)
    error = ess_of_squares.std(ddof=1) / np.sqrt(num_coordinates)
    assert abs(ess_of_squares.mean() - expected) < 4 * error + 0.05 * expected
    alone = figures.effective_sizes_of_chains(draws[:, 0])
    assert np.all(alone > expected / NUM_CHAINS)
    np.testing.assert_allclose(np.median(alone), num_draws * np.log10(num_draws))


@pytest.mark.parametrize('num_chains', [1, NUM_CHAINS])
@pytest.mark.parametrize('noise', [0.0, 0.01])
def test_effective_size_of_draws_that_alternate(rng, num_chains, noise):
    """TFP's own estimate is negative or without end here."""
    sign = (-1.0) ** np.arange(1000)[:, np.newaxis, np.newaxis]
    draws = sign + noise * rng.standard_normal([1000, num_chains, 5])
    total = draws[..., 0].size
    ess, ess_of_squares, _ = tfpa.sampling.diagnose(draws, 1)
    np.testing.assert_allclose(ess, total * np.log10(total))
    assert np.isnan(ess_of_squares).all() == (noise == 0)
    assert np.nanmin(ess_of_squares, initial=total) > total / 3


def test_blocks_change_nothing(rng, monkeypatch):
    draws = rng.standard_normal([50, NUM_CHAINS, 7])
    whole = tfpa.sampling.diagnose(draws, 1)
    monkeypatch.setattr(coordinates, '_BLOCK_BYTES', 1)
    for a, b in zip(whole, tfpa.sampling.diagnose(draws, 1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_draws_may_lie_in_any_order_and_stay_as_they_are(rng, dtype):
    """Chains of other libraries lie one after the other, and are swapped to come here."""
    draws = (5 + rng.normal(size=[4, 1, 100]).cumsum(-1)).astype(dtype)
    swapped = np.moveaxis(draws, -1, 0)
    before = draws.copy()
    found = tfpa.sampling.diagnose(swapped, 1)
    np.testing.assert_array_equal(draws, before)
    for one, other in zip(found, tfpa.sampling.diagnose(swapped.copy(order='C'), 1), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize('batch_shape', [(), (1,), (3,), (2, 3)])
def test_structures_and_chain_dimensions(rng, batch_shape):
    states = {
        'b': rng.standard_normal([20, *batch_shape]),
        'a': [rng.standard_normal([20, *batch_shape, 2, 3])],
    }
    for found in tfpa.sampling.diagnose(states, len(batch_shape)):
        assert found['b'].shape == ()
        assert found['a'][0].shape == (2, 3)
        assert np.isfinite(found['a'][0]).all()


def test_what_cannot_be_judged_is_nan(rng):
    draws = rng.standard_normal([20, NUM_CHAINS, 4])
    draws[..., 1] = 2.0
    draws[7, 2, 2] = np.nan
    ess, _, rhat = tfpa.sampling.diagnose(draws, 1)
    np.testing.assert_array_equal(np.isnan(rhat), [False, True, False, False])
    np.testing.assert_array_equal(np.isnan(ess), [False, True, False, False])
    assert (ess[2], rhat[2]) == (0, np.inf)
    found = runs.run_of_draws(draws[..., [0, 1, 3]]).diagnostics
    assert found.max_rhat == max(rhat[0], rhat[3])
    assert found.min_ess <= min(ess[0], ess[3])
    assert runs.run_of_draws(draws).diagnostics.max_rhat == np.inf
    for figure in tfpa.sampling.diagnose(draws[:3], 1):
        assert np.isnan(figure).all()


@pytest.mark.parametrize('num_chains', [2, NUM_CHAINS])
def test_chains_at_rest_in_different_places_have_infinite_rhat(num_chains):
    draws = np.broadcast_to(np.arange(num_chains, dtype=float)[:, np.newaxis], [20, num_chains, 1])
    assert tfpa.sampling.diagnose(draws, 1)[2] == np.inf


def test_no_cast_warning_reaches_the_user(rng):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger, level = tf.get_logger(), tf.get_logger().level
    logger.addHandler(handler)
    logger.setLevel('WARNING')
    try:
        tfpa.sampling.diagnose(rng.standard_normal([20, 2]).astype('float32'), 1)
        assert not records
        logger.warning('heard')
        assert [record.getMessage() for record in records] == ['heard']
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_names_follow_the_order_of_flatten():
    pair = collections.namedtuple('Pair', ['loc', 'scale'])
    structure = {'z': 1, 'a': [2, pair(3, 4)]}
    assert coordinates.part_names(structure) == ['a.x0', 'a.x1.loc', 'a.x1.scale', 'z']
    assert tf.nest.flatten(structure) == [2, 3, 4, 1]
    assert coordinates.part_names(np.zeros(3)) == ['x']
    assert coordinates.part_names([1, 2]) == ['x0', 'x1']
    assert coordinates.part_names([1, 2], ['mu', 'tau']) == ['mu', 'tau']


@pytest.mark.parametrize('names', [['mu'], ['mu', 'mu']])
def test_names_that_do_not_fit_are_refused(names):
    with pytest.raises(ValueError, match='`names` must be 2 different strings'):
        coordinates.part_names([1, 2], names)


def test_labels_run_in_row_major_order():
    assert coordinates.labels('mu', ()) == ['mu']
    labels = coordinates.labels('w', (2, 3))
    assert labels == ['w[0,0]', 'w[0,1]', 'w[0,2]', 'w[1,0]', 'w[1,1]', 'w[1,2]']
    draws = np.arange(5 * 4 * 6).reshape([5, 4, 2, 3])
    matrix = coordinates.as_matrix(draws, 1)
    np.testing.assert_array_equal(matrix[..., labels.index('w[1,0]')], draws[..., 1, 0])


@pytest.mark.parametrize('value', [0.1, 1 / 3, 0.7, 2.0])
def test_a_constant_coordinate_has_no_effective_size(value, rng):
    """Whatever rounding does to the mean of a constant."""
    draws = rng.normal(size=[1000, 10, 3])
    draws[..., 1] = value
    ess, ess_of_squares, _ = figures.diagnose([draws], 1)
    for size in (ess[0], ess_of_squares[0]):
        np.testing.assert_array_equal(np.isnan(size), [False, True, False])


def test_sizes_do_not_depend_on_where_a_coordinate_lies(rng):
    """Of draws that alternate, q^2 about zero would have 40 times the size of deviations."""
    draws = np.zeros([1000, 4])
    for i in range(1, 1000):
        draws[i] = -0.9 * draws[i - 1] + rng.normal(size=4)
    here, far = (tfpa.sampling.diagnose(draws + shift, 1)[1] for shift in (0.0, 100.0))
    assert far == pytest.approx(here, rel=1e-6)
    of_squares = tfpa.sampling.diagnose(np.square(draws + 100.0), 1)[0]
    assert of_squares > 10 * here
