"""The generalised speed measure of Titsias & Dellaportas (2019)."""

import tensorflow as tf

from tfp_adaptive.typing import Objective


def generalized_speed() -> Objective:
    """Log acceptance probability, the part of the speed measure beside its entropy.

    The loss of a move with energy error Delta is -log min(1, exp(-Delta)) = max(0, Delta). With
    the entropy weight beta it makes the generalised speed measure
    log min(1, exp(-Delta)) + beta * entropy (Hirt, Titsias & Dellaportas 2021, equation 5).

    Returns:
      An `Objective`.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=2, num_adaptation_steps=500,
      ...     objective=tfpa.objectives.generalized_speed())
    """

    def loss(energy_change, start, end, state=()):
        del start, end, state
        return tf.nn.relu(energy_change)

    return Objective(loss)
