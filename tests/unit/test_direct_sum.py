"""internal.direct_sum: every group of coordinates goes to its family and back to its place."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tfp_adaptive.internal.direct_sum import direct_sum
from tfp_adaptive.preconditioners import banded, cholesky, diagonal
from tfp_adaptive.typing import Pairs

SIZES = (2, 1, 3)
SIZE = sum(SIZES)
PIECES = ([0, 1], [2], [3, 4, 5])
GROUPINGS = [
    [list(group) for group in (order[:cut], order[cut:]) if group]
    for order in itertools.permutations(range(3))
    for cut in (1, 3)
]


def _coordinates(groups):
    return [[i for piece in group for i in PIECES[piece]] for group in groups]


@pytest.mark.parametrize('groups', GROUPINGS, ids=str)
def test_each_group_sees_its_coordinates_in_its_order(groups, rng):
    families = [diagonal() for _ in groups]
    whole = direct_sum(families, groups, SIZES)
    scales = [np.exp(rng.normal(size=len(indices))) for indices in _coordinates(groups)]
    parameters = tuple(tf.constant(scale) for scale in scales)
    expected = np.diag(twins.direct_sum([np.diag(scale) for scale in scales], _coordinates(groups)))
    x = rng.normal(size=[4, SIZE])
    np.testing.assert_array_equal(whole.forward(parameters, tf.constant(x)), expected * x)
    np.testing.assert_array_equal(whole.transpose(parameters, tf.constant(x)), expected * x)
    left, right = rng.normal(size=[2, 4, SIZE])
    gradient = whole.gradient(parameters, Pairs((tf.constant(left),), (tf.constant(right),)))
    for own, indices in zip(gradient, _coordinates(groups), strict=True):
        np.testing.assert_allclose(own, np.sum((left * right)[:, indices], axis=0), rtol=1e-12)


def test_first_parameters_have_the_sizes_of_the_groups():
    whole = direct_sum([cholesky(), diagonal()], [[2, 0], [1]], SIZES)
    dense, scale = whole.init(SIZE, tf.float32, tf.constant(0.5))
    assert (dense.shape, scale.shape) == ([5, 5], [1])
    np.testing.assert_allclose(whole.log_det((dense, scale)), 6 * np.log(0.5), rtol=1e-6)


def test_two_borders_share_a_coin_and_stay_uncorrelated():
    """Over all signs and both sides of the coin the probe has identity covariance."""
    bordered = [banded(1, 1), banded(1, 1)]
    whole = direct_sum(bordered, [[2], [1, 0]], SIZES)
    bits = np.array(list(itertools.product([0.0, 1.0], repeat=SIZE + 1)))
    probe = whole.probe(tf.constant(2 * bits[:, 1:] - 1), tf.constant(bits[:, 0])).numpy()
    np.testing.assert_allclose(probe.T @ probe / len(probe), np.eye(SIZE), atol=1e-12)
    assert {tuple(row != 0) for row in probe} == {
        (False, True, False, False, False, True),
        (True, False, True, True, True, False),
    }


def test_a_family_of_one_scale_is_given_the_smallest_guess_of_its_group():
    """One that takes scales is given those of its own coordinates, in its own order."""
    single = diagonal()._replace(
        init=lambda size, dtype, guess: tf.fill([size], tf.cast(guess, dtype)), takes_scales=False
    )
    whole = direct_sum([diagonal(), single], [[2, 0], [1]], SIZES)
    own, _ = whole.init(SIZE, tf.float64, tf.constant([1.0, 2, 3, 4, 5, 6], tf.float64))
    np.testing.assert_array_equal(own, [4, 5, 6, 1, 2])
    _, same = direct_sum([diagonal(), single], [[0], [2, 1]], SIZES).init(
        SIZE, tf.float64, tf.constant([1.0, 2, 3, 4, 5, 6], tf.float64)
    )
    np.testing.assert_array_equal(same, [3, 3, 3, 3])
