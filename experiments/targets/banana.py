"""A Gaussian bent into a banana: curvature that no linear preconditioner removes."""

import math

import tensorflow as tf

from experiments.targets.base import Moments, Target, normal_start

_VARIANCE = 100.0


def banana(bend: float = 0.1) -> Target:
    """q_1 ~ N(0, 100), q_2 | q_1 ~ N(b (100 - q_1^2), 1).

    Args:
      bend: b.
    """

    def log_prob(q):
        first, second = tf.unstack(q, axis=-1)
        straight = second + bend * (first**2 - _VARIANCE)
        return -(first**2 / _VARIANCE + straight**2) / 2

    sd = (math.sqrt(_VARIANCE), math.sqrt(1 + 2 * (bend * _VARIANCE) ** 2))
    return Target(
        name='banana',
        event_size=2,
        log_prob=log_prob,
        initial_state=normal_start(2, scale=1.0),
        provenance='Haario, Saksman & Tamminen (1999); b = 0.1 in Hirt, Titsias & Dellaportas',
        reference=Moments(('q1', 'q2'), (0.0, 0.0), sd, 'exact'),
    )
