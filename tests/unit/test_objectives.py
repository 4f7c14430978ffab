"""objectives: the loss of a move."""

import numpy as np
import tensorflow as tf

from tfp_adaptive import objectives


def test_generalized_speed_is_minus_log_acceptance():
    energy = np.array([-3.0, -0.1, 0.0, 0.5, 4.0])
    unused = tf.zeros([5, 2], tf.float64)
    loss = objectives.generalized_speed().loss(tf.constant(energy), unused, unused)
    np.testing.assert_allclose(loss, -np.log(np.minimum(1, np.exp(-energy))), atol=1e-15)
