"""Sums of outer products, sum_m left_m right_m^T, kept as `Pairs`."""

import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import Pairs


def stack(pairs: Pairs) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows of all groups, each [..., M, D]."""
    return _join(pairs.left), _join(pairs.right)


def keep(mask: tf.Tensor, pairs: Pairs) -> Pairs:
    """The same with zeros for the rows of chains outside `mask` [C]; empty groups stay empty.

    On both sides: zero times what is not finite is no number.
    """
    return Pairs(
        *(tuple(x if x.shape[0] == 0 else chains.keep(mask, x) for x in groups) for groups in pairs)
    )


def diagonal(pairs: Pairs) -> tf.Tensor:
    """The diagonal of the sum, [D].

    Groups are not joined: XLA fuses a joined stack into the sum, where every element has to find
    its group, which takes ten times as long. Where all are known to be of one size, their products
    are added before the rows are. With joined groups an adaptive step of stochastic volatility, D =
    2519, L = 1, takes 1.29 times the processor time (`python -m experiments run core_step`).
    """
    products = [left * right for left, right in zip(*pairs, strict=True)]
    sizes = {product.shape[0] for product in products}
    if len(sizes) == 1 and None not in sizes:
        products = [tf.add_n(products)]
    return tf.add_n([_sum_of_rows(product) for product in products])


def split_like(pairs: Pairs, left: tf.Tensor, right: tf.Tensor) -> Pairs:
    """Stacked rows [M, K] in the groups of `pairs`."""
    sizes = [chains.count(group) for group in pairs.left]
    return Pairs(tuple(tf.split(left, sizes)), tuple(tf.split(right, sizes)))


def _sum_of_rows(x):
    # on CPUs XLA fuses a plain sum, or a product with a vector, with all that x is made of, into a
    # loop that does not vectorise: a product with two rows has x computed first
    return tf.matmul(tf.ones([2, chains.count(x)], x.dtype), x)[0]


def _join(groups):
    return groups[0] if len(groups) == 1 else tf.concat(groups, axis=-2)
