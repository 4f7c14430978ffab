"""`tfp.experimental.mcmc.particle_filter`, compiled by XLA, in a random walk by hand."""

import functools

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import programs
from experiments.pmmh_peers.base import Peer, Walk
from experiments.targets import leverage

_RESAMPLE = tfp.experimental.mcmc.resample_systematic


def tfp_filter(data: np.ndarray, num_particles: int) -> Peer:
    """A bootstrap filter that resamples at every step.

    Args:
      data: [T].
      num_particles: N.
    """

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def compiled(theta, seed):
        return _log_likelihood(data, theta, num_particles, seed)

    @functools.cache
    def chain(num_steps):
        return _chain(data, num_particles, num_steps)

    def log_likelihood(theta, seed):
        return compiled(tf.constant(theta, tf.float32), tf.constant([seed, 0])).numpy()

    def random_walk(start, factor, num_steps, seed):
        start, factor = (tf.constant(value, tf.float32) for value in (start, factor))
        return Walk(*(x.numpy() for x in chain(num_steps)(start, factor, tf.constant([seed, 1]))))

    return Peer(log_likelihood, random_walk)


def _log_likelihood(data, theta, num_particles, seed):
    parameters = leverage.constrain(theta)
    mu, phi, sigma, _ = parameters
    series = tf.constant(data, theta.dtype)
    normal = tfp.distributions.Normal
    return tfp.experimental.mcmc.particle_filter(
        tf.tile(series[:, tf.newaxis], [1, theta.shape[0]]),
        initial_state_prior=normal(mu, sigma / tf.sqrt(1 - phi**2)),
        transition_fn=lambda step, x: normal(
            *leverage.transition_law(x, tf.gather(series, step), parameters)
        ),
        observation_fn=lambda step, x: normal(tf.zeros([], x.dtype), tf.exp(x / 2)),
        num_particles=num_particles,
        resample_fn=_RESAMPLE,
        # `None` is documented as every step, but TFP 0.25 then never resamples
        resample_criterion_fn=lambda cloud, _: tf.ones_like(cloud.log_weights, tf.bool),
        trace_fn=lambda _, results: results.accumulated_log_marginal_likelihood,
        trace_criterion_fn=None,
        seed=seed,
    )


def _chain(data, num_particles, num_steps):
    def log_prob(theta, seed):
        estimate = _log_likelihood(data, theta, num_particles, seed)
        return estimate + leverage.log_prior(theta)

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def chain(start, factor, seed):
        def step(last, seed):
            theta, value, _ = last
            noise_seed, filter_seed, accept_seed = tf.unstack(tfp.random.split_seed(seed, 3))
            noise = tf.random.stateless_normal(tf.shape(theta), noise_seed, dtype=theta.dtype)
            new = theta + tf.linalg.matvec(factor, noise)
            new_value = log_prob(new, filter_seed)
            uniform = tf.random.stateless_uniform(tf.shape(value), accept_seed, dtype=value.dtype)
            # of a value that is not a number, too: not accepted
            is_accepted = tf.math.log(uniform) < new_value - value
            theta = tf.where(is_accepted[:, tf.newaxis], new, theta)
            return theta, tf.where(is_accepted, new_value, value), is_accepted

        seeds = tf.ensure_shape(tfp.random.split_seed(seed, 1 + num_steps), [1 + num_steps, 2])
        value = log_prob(start, seeds[0])
        first = start, value, tf.zeros_like(value, tf.bool)
        states, _, is_accepted = tf.scan(step, seeds[1:], initializer=first)
        return states, is_accepted

    return chain
