"""Eight schools (Rubin 1981), centred, for tests of coordinates."""

import numpy as np
import tensorflow_probability as tfp

tfd = tfp.distributions

EFFECTS = np.array([28, 8, -3, 7, -1, 1, 18, 12], 'f')
ERRORS = np.array([15, 10, 16, 11, 9, 11, 10, 18], 'f')


@tfd.JointDistributionCoroutineAutoBatched
def schools():
    mu = yield tfd.Normal(0.0, 5.0, name='mu')
    tau = yield tfd.HalfNormal(10.0, name='tau')
    theta = yield tfd.Sample(tfd.Normal(mu, tau), 8, name='theta')
    yield tfd.Normal(theta, ERRORS, name='effect')
