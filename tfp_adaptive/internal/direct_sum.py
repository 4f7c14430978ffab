"""Direct sums: a preconditioner that acts on groups of coordinates independently."""

from collections.abc import Sequence

import tensorflow as tf

from tfp_adaptive.internal import charts
from tfp_adaptive.typing import Pairs, Preconditioner


def direct_sum(
    families: Sequence[Preconditioner], groups: Sequence[Sequence[int]], sizes: Sequence[int]
) -> Preconditioner:
    """One family a group of pieces of the packed coordinates.

    Args:
      families: one a group.
      groups: the pieces of each group, in the order in which its family sees them; together every
        piece once.
      sizes: coordinates of each piece, in packed order.

    Returns:
      A `Preconditioner` whose parameters and tangents are tuples, one entry a group.
    """
    group_sizes = [sum(sizes[piece] for piece in group) for group in groups]

    def take(x):
        """[M, D] -> one [M, size] a group."""
        pieces = tf.split(x, sizes, axis=-1)
        return [tf.concat([pieces[i] for i in group], axis=-1) for group in groups]

    def restore(xs):
        """The inverse of `take`."""
        pieces: dict[int, tf.Tensor] = {}
        for x, group in zip(xs, groups, strict=True):
            parts = tf.split(x, [sizes[i] for i in group], axis=-1)
            pieces.update(zip(group, parts, strict=True))
        return tf.concat([pieces[i] for i in range(len(sizes))], axis=-1)

    def each(name, *arguments):
        """Calls the member `name` of every family on its share of the arguments."""
        return tuple(
            getattr(family, name)(*share)
            for family, *share in zip(families, *arguments, strict=True)
        )

    def init(event_size, dtype, guess):
        shares = take(tf.broadcast_to(guess, [1, event_size]))
        return tuple(
            charts.initial_parameters(family, size, dtype, share[0])
            for family, size, share in zip(families, group_sizes, shares, strict=True)
        )

    def gradient(parameters, pairs):
        groups_of_left, groups_of_right = (zip(*map(take, rows), strict=True) for rows in pairs)
        shares = [Pairs(*share) for share in zip(groups_of_left, groups_of_right, strict=True)]
        return each('gradient', parameters, shares)

    def probe(signs, coin):
        return restore(
            [family.probe(x, coin) for family, x in zip(families, take(signs), strict=True)]
        )

    return Preconditioner(
        init=init,
        forward=lambda prepared, x: restore(each('forward', prepared, take(x))),
        transpose=lambda prepared, x: restore(each('transpose', prepared, take(x))),
        log_det=lambda parameters: tf.add_n(each('log_det', parameters)),
        gradient=gradient,
        log_det_gradient=lambda parameters: each('log_det_gradient', parameters),
        retract=lambda parameters, tangent: each('retract', parameters, tangent),
        probe=probe,
        prepare=lambda parameters: each('prepare', parameters),
        takes_scales=True,
    )
