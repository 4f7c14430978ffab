"""Block-diagonal preconditioner: dense triangular factors on consecutive groups of coordinates.

Parameters: for B equal blocks of k coordinates, C [B, k, k]. Cost O(D k) a product. Right for many
small correlated groups: the effects of each group of a hierarchical model, the coordinates of each
particle.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import charts, triangular
from tfp_adaptive.internal.direct_sum import direct_sum
from tfp_adaptive.typing import Pairs, Preconditioner


def block_diagonal(
    block_size: int | Sequence[int],
    initial_scale=None,
    *,
    coordinates: str = 'relative',
    min_diagonal: float | None = None,
) -> Preconditioner:
    """Dense blocks along the diagonal.

    Args:
      block_size: k >= 1, coordinates of every block, a divisor of D; or a sequence of sizes that
        sum to D.
      initial_scale: scalar or [D], the initial diagonal, in the units of the state. Default
        `None`: a safe fraction of 1 / sqrt(largest curvature) at the start.
      coordinates: 'relative' (default; C -> C (I + A)) or 'euclidean' (the entries of C).
      min_diagonal: floor of the diagonal in euclidean coordinates, in the units of the parameters.
        Default `None`: 1e-3.

    Returns:
      A `Preconditioner` whose parameters are C [D / k, k, k], or a tuple of [1, k, k] for a
      sequence of sizes.

    Raises:
      ValueError: for sizes that are not positive ints or do not make up D, and as `cholesky`.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=2, num_adaptation_steps=500,
      ...     preconditioner=tfpa.preconditioners.block_diagonal([2, 1]))
    """
    sizes = _check_sizes(block_size)
    blocks = [_equal_blocks(size, initial_scale, coordinates, min_diagonal) for size in sizes]
    if not isinstance(block_size, (list, tuple)):
        return blocks[0]
    whole = direct_sum(blocks, [[i] for i in range(len(sizes))], sizes)

    def init(event_size, dtype, guess):
        if sum(sizes) != event_size:
            raise ValueError(
                f'`block_size` must sum to the {event_size} coordinates of the state; '
                f'got {sizes}, which sums to {sum(sizes)}.'
            )
        scale = charts.initial_scale_vector(initial_scale, guess, event_size, dtype)
        return tuple(tf.linalg.diag(part[tf.newaxis]) for part in tf.split(scale, sizes))

    return whole._replace(init=init)


def _check_sizes(block_size) -> list[int]:
    sizes = list(block_size) if isinstance(block_size, (list, tuple)) else [block_size]
    for size in sizes or [None]:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(
                '`block_size` must be an int of at least 1, or a non-empty list of them; '
                f'got {block_size!r}.'
            )
    return sizes


def _equal_blocks(size, initial_scale, coordinates, min_diagonal) -> Preconditioner:
    def init(event_size, dtype, guess):
        if event_size % size:
            raise ValueError(
                f'`block_size`={size} does not divide the {event_size} coordinates of the state; '
                'give a sequence of sizes that sum to it.'
            )
        scale = charts.initial_scale_vector(initial_scale, guess, event_size, dtype)
        return tf.linalg.diag(tf.reshape(scale, [-1, size]))

    def split(x):
        """[M, D] -> [B, M, k]."""
        return tf.transpose(tf.reshape(x, [-1, x.shape[-1] // size, size]), [1, 0, 2])

    def join(x):
        return tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, x.shape[0] * size])

    def split_pairs(pairs):
        return Pairs(*(tuple(map(split, groups)) for groups in pairs))

    floor = charts.diagonal_floor(coordinates, min_diagonal)
    chart = charts.select(
        coordinates,
        relative=charts.Chart(
            gradient=lambda factor, pairs: triangular.relative_gradient(split_pairs(pairs)),
            log_det_gradient=triangular.identity_like,
            retract=triangular.relative_update,
        ),
        euclidean=charts.Chart(
            gradient=lambda factor, pairs: triangular.euclidean_gradient(
                factor, split_pairs(pairs)
            ),
            log_det_gradient=lambda factor: tf.linalg.diag(1 / tf.linalg.diag_part(factor)),
            retract=lambda factor, tangent: triangular.euclidean_update(factor, tangent, floor),
        ),
    )
    return Preconditioner(
        init=init,
        forward=lambda factor, x: join(tf.matmul(split(x), factor, transpose_b=True)),
        transpose=lambda factor, x: join(tf.matmul(split(x), factor)),
        log_det=triangular.log_det,
        takes_scales=True,
        **chart._asdict(),
    )
