"""Importance sampling of random effects.

Notation (T groups, N particles):
    x_tj = loc_t + scale_t z_tj      effects drawn from the instrument q_t, with z the noise
    w_tj = p(y_t, x_tj | theta) / q_t(x_tj | theta)
"""

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfp_adaptive.estimators.records import Estimator
from tfp_adaptive.internal import arguments

_SCORES = ('fisher', 'pathwise')
_ROUNDINGS = 100


def importance_sampling(
    joint_log_prob_fn: Callable,
    instrument_fn: Callable,
    num_groups: int,
    num_particles: int = 100,
    *,
    score: str = 'pathwise',
    shared_weights: bool = False,
) -> Estimator:
    """Likelihood of a model with one random effect a group, by importance sampling.

        log p = sum_t log (1/N) sum_j w_tj

    which is unbiased for the product of the groups' likelihoods, since their noises are
    independent.

    Args:
      joint_log_prob_fn: (effects [*batch, T, N], *parts [*batch, *event]) -> log-density of each
        group's data and effect given the parts, [*batch, T, N].
      instrument_fn: parts -> (loc, scale) of the normal instrument, each [*batch, T] or
        [*batch, 1]. The law of the effects themselves is one; a fit to the data is better. Where
        the scale is below a hundred roundings of loc, 1e-5 of it in float32, effects cannot be told
        apart: the estimate is zero there, and a chain does not enter.
      num_groups: T.
      num_particles: N. Default 100.
      score: 'pathwise' is the derivative of the estimate itself, noise held fixed; 'fisher', as
        published, is sum_tj W_tj grad log p(y_t, x_tj | theta) with normalized weights W and the
        effects held fixed. Both tend to the score as N grows, but the noise of 'fisher' explodes
        where the effects have hardly any spread, and chains that it drives do not get there.
        Default 'pathwise'.
      shared_weights: whether one weight is shared by all groups, as published:
        log p = log (1/N) sum_j prod_t w_tj. Also unbiased, but much noisier. Default `False`.

    Returns:
      An `Estimator` with T N numbers of noise.

    Raises:
      ValueError: if a count is not positive, or `score` is neither.

    Reference: J. Dahlin, A. Wills, B. Ninness. Correlated pseudo-marginal Metropolis-Hastings
    using quasi-Newton proposals, 2018. Section 6.1.

    Example:
      >>> data = tf.constant([0.3, 1.8, 1.1])
      >>> def joint(x, theta):  # y_t ~ N(x_t, 1), x_t ~ N(theta, 1)
      ...     prior = tfp.distributions.Normal(theta[..., tf.newaxis, tf.newaxis], 1.0)
      ...     return prior.log_prob(x) + tfp.distributions.Normal(x, 1.0).log_prob(data[:, None])
      >>> estimator = tfpa.estimators.importance_sampling(
      ...     joint, lambda theta: (theta[..., tf.newaxis], 1.0), num_groups=3)
      >>> noise = tf.random.stateless_normal([4, 300], seed=(0, 1))
      >>> estimator.log_likelihood(noise, tf.zeros([4])).shape
      TensorShape([4])
    """
    arguments.count('num_groups', num_groups, least=1)
    arguments.count('num_particles', num_particles, least=1)
    if score not in _SCORES:
        raise ValueError(f"`score` must be 'fisher' or 'pathwise'; got {score!r}.")

    def log_likelihood(noise, *parts):
        shape = tf.concat([tf.shape(noise)[:-1], [num_groups, num_particles]], axis=0)
        z = tf.reshape(noise, shape)
        z = tf.ensure_shape(z, noise.shape[:-1].concatenate([num_groups, num_particles]))
        loc, scale = (
            tf.convert_to_tensor(x, z.dtype)[..., tf.newaxis] for x in instrument_fn(*parts)
        )
        effects = loc + scale * z
        if score == 'fisher':
            effects = tf.stop_gradient(effects)
        joint = joint_log_prob_fn(effects, *parts)
        # minus the log-density of the instrument
        correction = tf.square(z) / 2 + tf.math.log(scale) + math.log(2 * math.pi) / 2
        if score == 'fisher':
            # weights that move with the joint density alone: the derivative is that of Fisher's
            # identity, the second one that of Louis'
            correction = tf.stop_gradient(correction)
        log_weights = joint + correction
        if shared_weights:
            log_weights = tf.reduce_sum(log_weights, axis=-2, keepdims=True)
        value = tf.reduce_logsumexp(log_weights, axis=-1) - math.log(num_particles)
        value = tf.reduce_sum(value, axis=-1)
        is_resolved = tf.broadcast_to(_is_resolved(loc, scale), tf.shape(z))
        is_resolved = tf.reduce_all(is_resolved, axis=[-2, -1])
        return tf.where(is_resolved, value, -np.inf * tf.ones_like(value))

    return Estimator(num_groups * num_particles, log_likelihood, num_groups * num_particles)


def _is_resolved(loc, scale):
    """Whether loc + scale z keeps what makes the effects of a group differ.

    Where it does not, the joint density sees no z, and exp(z^2 / 2) is left in the weights.
    """
    precision = np.finfo(scale.dtype.as_numpy_dtype).eps
    return scale > _ROUNDINGS * precision * tf.abs(loc)
