"""internal.outer_products: sums of outer products, group by group."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.internal import outer_products
from tfp_adaptive.typing import Pairs

SIZE = 5


@pytest.mark.parametrize('is_static', [True, False], ids=['static', 'dynamic'])
@pytest.mark.parametrize('sizes', [(3,), (3, 3, 3), (3, 0, 4, 3), (0,)], ids=str)
def test_diagonal(sizes, is_static, rng):
    left, right = ([rng.normal(size=[size, SIZE]) for size in sizes] for _ in range(2))
    signature = [tf.TensorSpec([size if is_static else None, SIZE], tf.float64) for size in sizes]

    @tf.function(input_signature=[signature, signature], autograph=False)
    def diagonal(left, right):
        return outer_products.diagonal(Pairs(left, right))

    expected = np.zeros([SIZE, SIZE])
    for rows in zip(left, right, strict=True):
        for a, b in zip(*rows, strict=True):
            expected += np.outer(a, b)
    np.testing.assert_allclose(diagonal(left, right), np.diag(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize('bad', [np.nan, np.inf])
@pytest.mark.parametrize('side', ['left', 'right'])
def test_chains_outside_the_mask_are_left_out_of_the_product(side, bad, rng):
    """Whatever their rows hold, and on either side; a group without rows stays one."""
    pairs = Pairs(*([rng.normal(size=[3, SIZE]), np.zeros([0, SIZE])] for _ in range(2)))
    expected = sum(np.outer(pairs.left[0][row], pairs.right[0][row]) for row in (0, 2))
    getattr(pairs, side)[0][1, 2] = bad
    pairs = tf.nest.map_structure(tf.constant, pairs)
    kept = outer_products.keep(tf.constant([True, False, True]), pairs)
    assert [len(group) for group in kept.left] == [len(group) for group in kept.right] == [3, 0]
    left, right = outer_products.stack(kept)
    np.testing.assert_allclose(np.transpose(left) @ right, expected, rtol=1e-12)


@pytest.mark.parametrize('sizes', [(3,), (3, 0, 4)], ids=str)
def test_rows_that_are_joined_can_be_split_again(sizes, rng):
    groups = [tf.constant(rng.normal(size=[size, SIZE])) for size in sizes]
    pairs = Pairs(groups, [2 * group for group in groups])
    left, right = outer_products.stack(pairs)
    again = outer_products.split_like(pairs, left[:, :2], right)
    for group, half, twice in zip(groups, *again, strict=True):
        np.testing.assert_array_equal(half, group[:, :2])
        np.testing.assert_array_equal(twice, 2 * group)
