"""The objective of L2HMC (Levy, Hoffman & Sohl-Dickstein 2018)."""

import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import Objective

_SMALLEST_RATIO = 1e-4


def l2hmc(decay: float = 0.99) -> Objective:
    """Loss lambda / (a d^2) - a d^2 / lambda with d = |q' - q|; no entropy term.

    lambda is a moving average of a d^2 over steps and chains; it starts at 1 and is updated after
    its use. The ratio a d^2 / lambda is bounded below by 1e-4, where the loss is 1e4. So
    scales of 1e-5 and less are not learned: it wants coordinates of scales not far from 1.

    Args:
      decay: of the moving average, in [0, 1).

    Returns:
      An `Objective` whose state is lambda.

    Raises:
      ValueError: if `decay` is not in [0, 1).

    Reference: Hirt, Titsias & Dellaportas (2021), equation 21 (squared distance, as printed).

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=2, num_adaptation_steps=500,
      ...     objective=tfpa.objectives.l2hmc())
    """
    if not 0 <= decay < 1:
        raise ValueError(f'`decay` must lie in [0, 1); got {decay}.')

    def accepted_distance(energy_change, start, end):
        return tf.exp(-tf.nn.relu(energy_change)) * chains.squared_norm(end - start)

    def loss(energy_change, start, end, state):
        ratio = accepted_distance(energy_change, start, end) / state
        ratio = tf.maximum(ratio, _SMALLEST_RATIO)
        return 1 / ratio - ratio

    return Objective(
        loss,
        uses_entropy=False,
        init=lambda dtype: tf.ones([], dtype),
        statistic=accepted_distance,
        update=lambda state, mean: decay * state + (1 - decay) * mean,
    )
