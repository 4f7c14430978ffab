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

    @tf.function(input_signature=[signature, signature])
    def diagonal(left, right):
        return outer_products.diagonal(Pairs(left, right))

    expected = np.zeros([SIZE, SIZE])
    for rows in zip(left, right, strict=True):
        for a, b in zip(*rows, strict=True):
            expected += np.outer(a, b)
    np.testing.assert_allclose(diagonal(left, right), np.diag(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize('sizes', [(3,), (3, 0, 4)], ids=str)
def test_rows_that_are_joined_can_be_split_again(sizes, rng):
    groups = [tf.constant(rng.normal(size=[size, SIZE])) for size in sizes]
    pairs = Pairs(groups, [2 * group for group in groups])
    left, right = outer_products.stack(pairs)
    again = outer_products.split_like(pairs, left[:, :2], right)
    for group, half, twice in zip(groups, *again, strict=True):
        np.testing.assert_array_equal(half, group[:, :2])
        np.testing.assert_array_equal(twice, 2 * group)
