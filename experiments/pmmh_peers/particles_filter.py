"""The filter of `particles`, one chain after the other: it has no chains side by side.

Its own `PMMH` of version 0.3 asks NumPy for `np.float`, which is gone since NumPy 1.24, so the
random walk is by hand.
"""

import numpy as np
import tensorflow as tf

from experiments import optional
from experiments.pmmh_peers.base import Peer, Walk
from experiments.targets import leverage


def particles_filter(data: np.ndarray, num_particles: int) -> Peer:
    """A bootstrap filter that resamples at every step.

    Args:
      data: [T].
      num_particles: N.
    """
    particles = optional.load('particles', 'peers')
    models = optional.load('particles.state_space_models', 'peers')
    normal = optional.load('particles.distributions', 'peers').Normal
    options = {'ESSrmin': 1.0, 'resampling': 'systematic'}

    class Leverage(models.StateSpaceModel):  # type: ignore[name-defined]
        def __init__(self, mu, eta, psi, zeta):
            self.mu, self.phi, self.sigma, self.rho = mu, np.tanh(eta), np.exp(psi), np.tanh(zeta)

        def PX0(self):  # noqa: N802
            return normal(self.mu, self.sigma / np.sqrt(1 - self.phi**2))

        def PX(self, t, xp):  # noqa: N802
            shock = np.exp(-xp / 2) * data[t - 1]
            loc = self.mu + self.phi * (xp - self.mu) + self.sigma * self.rho * shock
            return normal(loc, self.sigma * np.sqrt(1 - self.rho**2))

        def PY(self, t, xp, x):  # noqa: N802
            del t, xp
            return normal(0.0, np.exp(x / 2))

    def one_estimate(theta):
        model = models.Bootstrap(ssm=Leverage(*theta), data=data)
        found = particles.SMC(fk=model, N=num_particles, collect='off', **options)
        # of parameters far out, which are rejected
        with np.errstate(all='ignore'):
            found.run()
        return found.logLt

    def log_likelihood(theta, seed):
        np.random.seed(seed)  # what the library draws from
        return np.array([one_estimate(row) for row in theta])

    def random_walk(start, factor, num_steps, seed):
        np.random.seed(seed)
        states, is_accepted = zip(*(one_walk(row, factor, num_steps) for row in start), strict=True)
        return Walk(np.stack(states, axis=1), np.stack(is_accepted, axis=1))

    def one_walk(theta, factor, num_steps):
        value = log_prob(theta)
        states, is_accepted = np.empty([num_steps, len(theta)]), np.empty(num_steps, bool)
        for step in range(num_steps):
            new = theta + factor @ np.random.normal(size=len(theta))
            new_value = log_prob(new)
            is_accepted[step] = np.log(np.random.uniform()) < new_value - value
            if is_accepted[step]:
                theta, value = new, new_value
            states[step] = theta
        return states, is_accepted

    def log_prob(theta):
        return float(leverage.log_prior(tf.constant(theta, tf.float64))) + one_estimate(theta)

    return Peer(log_likelihood, random_walk)
