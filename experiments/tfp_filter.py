"""Stochastic volatility with leverage by TFP's own particle filter, in a random walk by hand."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import programs
from experiments.targets import leverage

_RESAMPLE = tfp.experimental.mcmc.resample_systematic


class Chain(NamedTuple):
    """What the random walk leaves behind."""

    states: tf.Tensor
    """[num_results, C, 4]."""
    is_accepted: tf.Tensor
    """[num_results, C]."""


def log_likelihood(data: np.ndarray, theta: tf.Tensor, num_particles: int, seed) -> tf.Tensor:
    """The log-estimate of a bootstrap filter that resamples at every step.

    Args:
      data: [T].
      theta: [C, 4].
      num_particles: N.
      seed: [2].

    Returns:
      [C].
    """
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


def random_walk(data, num_particles, factor, num_warmup_steps, num_results):
    """A compiled function (start [C, 4], seed [2]) -> `Chain`.

    Args:
      data: [T].
      num_particles: N.
      factor: [4, 4], of the covariance of a move.
      num_warmup_steps: that are dropped.
      num_results: N.
    """

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def chain(start, seed):
        scale = tf.constant(factor, start.dtype)

        def log_prob(theta, seed):
            estimate = log_likelihood(data, theta, num_particles, seed)
            return estimate + leverage.log_prior(theta)

        def step(last, seed):
            theta, value, _ = last
            noise_seed, filter_seed, accept_seed = tf.unstack(tfp.random.split_seed(seed, 3))
            noise = tf.random.stateless_normal(tf.shape(theta), noise_seed, dtype=theta.dtype)
            new = theta + tf.linalg.matvec(scale, noise)
            new_value = log_prob(new, filter_seed)
            uniform = tf.random.stateless_uniform(tf.shape(value), accept_seed, dtype=value.dtype)
            # of a value that is not a number, too: not accepted
            is_accepted = tf.math.log(uniform) < new_value - value
            theta = tf.where(is_accepted[:, tf.newaxis], new, theta)
            return theta, tf.where(is_accepted, new_value, value), is_accepted

        seeds = tfp.random.split_seed(seed, 1 + num_warmup_steps + num_results)
        seeds = tf.ensure_shape(seeds, [1 + num_warmup_steps + num_results, 2])
        value = log_prob(start, seeds[0])
        first = start, value, tf.zeros_like(value, tf.bool)
        middle = tf.foldl(step, seeds[1 : 1 + num_warmup_steps], initializer=first)
        states, _, is_accepted = tf.scan(step, seeds[1 + num_warmup_steps :], initializer=middle)
        return Chain(states, is_accepted)

    return chain
