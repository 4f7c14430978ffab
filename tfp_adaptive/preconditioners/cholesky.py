"""Dense preconditioner: C lower triangular with a positive diagonal.

Parameters: C [D, D]. Cost O(D^2) a product and chain, and O(D^3) a relative update. The default: it
sees every correlation, and relative coordinates make it learn as fast on a condition number of 1e6
as on 1.
"""

import tensorflow as tf

from tfp_adaptive.internal import charts, triangular
from tfp_adaptive.typing import Preconditioner


def cholesky(
    initial_scale=None, *, coordinates: str = 'relative', min_diagonal: float | None = None
) -> Preconditioner:
    """A dense lower triangular factor.

    Args:
      initial_scale: scalar or [D], the initial diagonal, in the units of the state. Default
        `None`: a safe fraction of 1 / sqrt(largest curvature) at the start, found from one extra
        gradient.
      coordinates: 'relative' (default; C -> C (I + A)) or 'euclidean' (the entries of C, as the
        paper).
      min_diagonal: floor of the diagonal in euclidean coordinates, in the units of the parameters.
        Default `None`: 1e-3, as published.

    Returns:
      A `Preconditioner` whose parameters are C, shape [D, D].

    Raises:
      ValueError: for an unknown `coordinates`, or an `initial_scale` or `min_diagonal` that is not
        positive.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=2, num_adaptation_steps=500,
      ...     preconditioner=tfpa.preconditioners.cholesky(initial_scale=0.1))
    """
    floor = charts.diagonal_floor(coordinates, min_diagonal)
    chart = charts.select(
        coordinates,
        relative=charts.Chart(
            gradient=lambda factor, pairs: triangular.relative_gradient(pairs),
            log_det_gradient=triangular.identity_like,
            retract=triangular.relative_update,
        ),
        euclidean=charts.Chart(
            gradient=triangular.euclidean_gradient,
            log_det_gradient=lambda factor: tf.linalg.diag(1 / tf.linalg.diag_part(factor)),
            retract=lambda factor, tangent: triangular.euclidean_update(factor, tangent, floor),
        ),
    )

    def init(event_size, dtype, guess):
        guess = tf.cast(guess, dtype)
        if initial_scale is None and guess.shape.rank == 2:
            return guess
        scale = charts.initial_scale_vector(initial_scale, guess, event_size, dtype)
        return tf.linalg.diag(scale)

    return Preconditioner(
        init=init,
        forward=lambda factor, x: tf.matmul(x, factor, transpose_b=True),
        transpose=lambda factor, x: tf.matmul(x, factor),
        log_det=triangular.log_det,
        takes_scales=True,
        takes_factor=initial_scale is None,
        **chart._asdict(),
    )
