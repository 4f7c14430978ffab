"""Diagonal preconditioner: C = diag(c), one learned scale per coordinate.

Parameters: c [D], positive. Cost O(D). Right for targets whose coordinates differ in scale but
hardly in correlation, and for dimensions where a dense factor does not fit.
"""

import tensorflow as tf

from tfp_adaptive.internal import charts, outer_products
from tfp_adaptive.typing import Preconditioner


def diagonal(
    initial_scale=None, *, coordinates: str = 'relative', min_diagonal: float | None = None
) -> Preconditioner:
    """One scale per coordinate.

    Args:
      initial_scale: scalar or [D], in the units of the state. Default `None`: a safe fraction of
        1 / sqrt(largest curvature) at the start, found from one extra gradient.
      coordinates: 'relative' (default; learns log c) or 'euclidean' (learns c, as the paper).
      min_diagonal: floor of the diagonal in euclidean coordinates, in the units of the parameters.
        Default `None`: 1e-3, as published.

    Returns:
      A `Preconditioner` whose parameters are c, shape [D].

    Raises:
      ValueError: for an unknown `coordinates`, or an `initial_scale` or `min_diagonal` that is not
        positive.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=5, num_adaptation_steps=500,
      ...     preconditioner=tfpa.preconditioners.diagonal())
    """
    floor = charts.diagonal_floor(coordinates, min_diagonal)
    chart = charts.select(
        coordinates,
        relative=charts.Chart(
            gradient=lambda scale, pairs: outer_products.diagonal(pairs),
            log_det_gradient=tf.ones_like,
            retract=lambda scale, tangent: scale * tf.exp(tangent),
        ),
        euclidean=charts.Chart(
            gradient=lambda scale, pairs: outer_products.diagonal(pairs) / scale,
            log_det_gradient=tf.math.reciprocal,
            retract=lambda scale, tangent: tf.maximum(scale + tangent, floor),
        ),
    )
    return Preconditioner(
        init=lambda event_size, dtype, guess: charts.initial_scale_vector(
            initial_scale, guess, event_size, dtype
        ),
        forward=lambda scale, x: scale * x,
        transpose=lambda scale, x: scale * x,
        log_det=lambda scale: tf.reduce_sum(tf.math.log(scale)),
        takes_scales=True,
        **chart._asdict(),
    )
