"""A filter and a random walk in JAX, with the resampling of BlackJAX, compiled, by `vmap`."""

import functools

import numpy as np

from experiments import optional
from experiments.pmmh_peers.base import Peer, Walk


def blackjax_filter(data: np.ndarray, num_particles: int) -> Peer:
    """A bootstrap filter that resamples at every step.

    Args:
      data: [T].
      num_particles: N.
    """
    jax = optional.load('jax', 'peers')
    random = jax.random
    jnp = jax.numpy
    norm = optional.load('jax.scipy.stats', 'peers').norm
    resample = optional.load('blackjax.smc.resampling', 'peers').systematic
    series = jnp.asarray(data, jnp.float32)

    def log_prior(theta):
        mu, eta, psi, zeta = theta
        phi, sigma, rho = jnp.tanh(eta), jnp.exp(psi), jnp.tanh(zeta)
        return (
            norm.logpdf(mu, 0, 2)
            + norm.logpdf(phi, 0.9, 0.05)
            + norm.logpdf(rho, -0.5, 0.2)
            + (2 * psi - 0.05 * sigma)
            # of tanh, in the tails too
            + sum(-2 * (jnp.abs(x) + jax.nn.softplus(-2 * jnp.abs(x))) for x in (eta, zeta))
        )

    def log_likelihood(theta, key):
        """[4] -> []."""
        mu, eta, psi, zeta = theta
        phi, sigma, rho = jnp.tanh(eta), jnp.exp(psi), jnp.tanh(zeta)

        def weigh(x, y):
            log_weights = norm.logpdf(y, 0.0, jnp.exp(x / 2))
            largest = jnp.max(log_weights)
            weights = jnp.exp(log_weights - largest)
            return weights / jnp.sum(weights), largest + jnp.log(jnp.mean(weights))

        def step(cloud, now):
            x, weights = cloud
            last, y, key = now
            of_ancestors, of_moves = random.split(key)
            x = x[resample(of_ancestors, weights, num_particles)]
            loc = mu + phi * (x - mu) + sigma * rho * jnp.exp(-x / 2) * last
            x = loc + sigma * jnp.sqrt(1 - rho**2) * random.normal(of_moves, x.shape)
            weights, log_mean = weigh(x, y)
            return (x, weights), log_mean

        of_first, of_rest = random.split(key)
        first = mu + sigma / jnp.sqrt(1 - phi**2) * random.normal(of_first, [num_particles])
        weights, log_mean = weigh(first, series[0])
        keys = random.split(of_rest, series.size - 1)
        _, log_means = jax.lax.scan(step, (first, weights), (series[:-1], series[1:], keys))
        return log_mean + jnp.sum(log_means)

    def walk(start, factor, num_steps, key):
        """[4] -> [N, 4], [N]."""

        def step(state, key):
            theta, value = state
            of_move, of_filter, of_test = random.split(key, 3)
            new = theta + factor @ random.normal(of_move, theta.shape)
            new_value = log_prior(new) + log_likelihood(new, of_filter)
            # of a value that is not a number, too: not accepted
            is_accepted = jnp.log(random.uniform(of_test)) < new_value - value
            theta = jnp.where(is_accepted, new, theta)
            value = jnp.where(is_accepted, new_value, value)
            return (theta, value), (theta, is_accepted)

        of_start, of_steps = random.split(key)
        value = log_prior(start) + log_likelihood(start, of_start)
        _, trace = jax.lax.scan(step, (start, value), random.split(of_steps, num_steps))
        return trace

    estimates = jax.jit(jax.vmap(log_likelihood))

    @functools.cache
    def chains(num_steps):
        def one(start, factor, key):
            return walk(start, factor, num_steps, key)

        return jax.jit(jax.vmap(one, in_axes=(0, None, 0), out_axes=1))

    def keys_of(seed, size):
        return random.split(random.key(seed), size)

    def of_arrays(theta, seed):
        theta = jnp.asarray(theta, jnp.float32)
        return np.asarray(estimates(theta, keys_of(seed, len(theta))))

    def random_walk(start, factor, num_steps, seed):
        start, factor = (jnp.asarray(value, jnp.float32) for value in (start, factor))
        trace = chains(num_steps)(start, factor, keys_of(seed, len(start)))
        return Walk(*(np.asarray(part) for part in trace))

    return Peer(of_arrays, random_walk)
