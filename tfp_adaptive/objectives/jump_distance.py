"""Expected squared jump distance (Pasarica & Gelman 2010)."""

import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import Objective


def expected_squared_jump_distance() -> Objective:
    """Loss -a |q' - q|^2 with a the acceptance probability; no entropy term.

    A rival of the generalised speed measure: it is dominated by the widest coordinates, so on
    ill-conditioned targets the narrow scale sets the step and the wide ones the objective. As
    published it has the units of the state, squared: it wants coordinates whose scales are
    within a few orders of magnitude of 1.

    Returns:
      An `Objective`.

    Reference: Hirt, Titsias & Dellaportas (2021), equation 20 (squared distance, as printed).

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=2, num_adaptation_steps=500,
      ...     objective=tfpa.objectives.expected_squared_jump_distance())
    """

    def loss(energy_change, start, end, state=()):
        del state
        return -tf.exp(-tf.nn.relu(energy_change)) * chains.squared_norm(end - start)

    return Objective(loss, uses_entropy=False)
