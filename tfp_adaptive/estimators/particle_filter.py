"""Particle filters whose log-estimate hardly changes with a small change of their noise.

Notation (T observations, N particles, S state size):
    x_tj   particle, [S];  w_tj  its weight;  a_tj  its ancestor
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfp_adaptive.estimators.records import Estimator
from tfp_adaptive.internal import arguments


def particle_filter(
    initial_fn: Callable,
    transition_fn: Callable,
    observation_log_prob_fn: Callable,
    observations: Any,
    num_particles: int = 100,
    *,
    state_size: int = 1,
    is_guided: bool = False,
) -> Estimator:
    """Likelihood of a state space model, by a bootstrap or a guided particle filter.

        x_0j from the initial law;  w_tj = p(y_t | x_tj);  log p = sum_t log (1/N) sum_j w_tj
        and for t = 1, ..., T - 1: a_t = systematic resampling of the particles, sorted by their
        first coordinate;  x_tj from the transition of x_{t-1, a_tj}

    which is unbiased for the likelihood. Sorting makes a small change of the noise a small change
    of the particles, and the estimates of a correlated chain correlated.

    The derivative of the log-estimate treats the ancestors as fixed, so it is not that of the
    log-likelihood: good enough to drive a proposal, but a random walk needs none.

    Args:
      initial_fn: (noise [*batch, N, S], *parts) -> particles at t = 0, [*batch, N, S].
      transition_fn: (noise [*batch, N, S], particles [*batch, N, S], last observation, this
        observation, *parts) -> particles [*batch, N, S]; for a guided filter a pair of them and
        of log p(x_t | x_{t-1}) - log q(x_t | x_{t-1}, y_t), [*batch, N]. The bootstrap filter must
        not look at this observation.
      observation_log_prob_fn: (observation, particles [*batch, N, S], *parts) -> [*batch, N].
      observations: [T, ...], floating.
      num_particles: N. Default 100.
      state_size: S. Default 1.
      is_guided: whether `transition_fn` returns a pair. Default `False`.

    Returns:
      An `Estimator` with T (1 + N S) numbers of noise.

    Raises:
      ValueError: if a count is not positive, or there are no observations.

    Reference: N. Gordon, D. Salmond, A. Smith 1993 for the filter; G. Deligiannidis, A. Doucet,
    M. Pitt. The correlated pseudo-marginal method. JRSS B 2018, for the sorting.

    Example:
      >>> estimator = tfpa.estimators.particle_filter(
      ...     lambda z, theta: z,
      ...     lambda z, x, last, now, theta: theta[..., tf.newaxis, tf.newaxis] * x + z,
      ...     lambda y, x, theta: tfp.distributions.Normal(x[..., 0], 1.0).log_prob(y),
      ...     observations=tf.constant([0.1, 0.7, -0.2]), num_particles=20)
      >>> noise = tf.random.stateless_normal([4, 63], seed=(0, 1))
      >>> estimator.log_likelihood(noise, tf.fill([4], 0.5)).shape
      TensorShape([4])
    """
    arguments.count('num_particles', num_particles, least=1)
    arguments.count('state_size', state_size, least=1)
    observations = tf.convert_to_tensor(observations)
    if not observations.shape.rank or not observations.shape[0]:
        raise ValueError(
            f'`observations` must be a tensor [T, ...] with T > 0; got shape {observations.shape}.'
        )
    num_steps = observations.shape[0]
    size = num_particles * state_size

    def log_likelihood(noise, *parts):
        data = tf.cast(observations, noise.dtype)
        uniforms, normals = _over_time(noise, num_steps, num_particles, state_size)

        def step(carried, inputs):
            particles, log_weights, total = carried
            uniform, normal, last, now = inputs
            particles = resampled(particles, log_weights, uniform)
            moved = transition_fn(normal, particles, last, now, *parts)
            particles, log_ratio = moved if is_guided else (moved, 0.0)
            log_weights = observation_log_prob_fn(now, particles, *parts) + log_ratio
            return particles, log_weights, total + _log_mean(log_weights)

        particles = initial_fn(normals[0], *parts)
        log_weights = observation_log_prob_fn(data[0], particles, *parts)
        total = _log_mean(log_weights)
        shape = tf.concat([tf.shape(total), [num_particles, state_size]], axis=0)
        start = (tf.broadcast_to(particles, shape), log_weights, total)
        if num_steps == 1:
            return total
        inputs = uniforms[1:], normals[1:], data[:-1], data[1:]
        return tf.foldl(step, inputs, initializer=start)[-1]

    return Estimator(num_steps * (1 + size), log_likelihood, num_steps * num_particles)


def resampled(particles: tf.Tensor, log_weights: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Systematic resampling of sorted particles.

    Args:
      particles: [*batch, N, S].
      log_weights: [*batch, N].
      uniform: [*batch] in (0, 1).
    """
    rank = log_weights.shape.rank - 1
    order = tf.argsort(particles[..., 0], axis=-1)
    log_weights = tf.gather(log_weights, order, axis=-1, batch_dims=rank)
    cumulative = tf.cumsum(tf.nn.softmax(log_weights, axis=-1), axis=-1)
    num_particles = particles.shape[-2]
    steps = tf.range(num_particles, dtype=particles.dtype)
    levels = (uniform[..., tf.newaxis] + steps) / num_particles
    ancestors = tf.searchsorted(tf.stop_gradient(cumulative), levels)
    # rounding may leave the last sum below the last level
    ancestors = tf.minimum(ancestors, num_particles - 1)
    ancestors = tf.gather(order, ancestors, axis=-1, batch_dims=rank)
    return tf.gather(particles, ancestors, axis=-2, batch_dims=rank)


def _over_time(noise, num_steps, num_particles, state_size):
    """Uniforms [T, *batch] and normals [T, *batch, N, S]."""
    rank = noise.shape.rank - 1
    uniforms = tf.math.erfc(-noise[..., :num_steps] / math.sqrt(2)) / 2
    shape = tf.concat([tf.shape(noise)[:-1], [num_steps, num_particles, state_size]], axis=0)
    normals = tf.reshape(noise[..., num_steps:], shape)
    static = noise.shape[:-1].concatenate([num_steps, num_particles, state_size])
    normals = tf.ensure_shape(normals, static)
    batch = list(range(rank))
    return (
        tf.transpose(uniforms, [rank, *batch]),
        tf.transpose(normals, [rank, *batch, rank + 1, rank + 2]),
    )


def _log_mean(log_weights):
    count = tf.cast(tf.shape(log_weights)[-1], log_weights.dtype)
    return tf.reduce_logsumexp(log_weights, axis=-1) - tf.math.log(count)
