"""Mixtures and hidden Markov models: chains far from the mass find small modes of their own."""

import numpy as np
import tensorflow as tf

from experiments.targets.base import Target
from experiments.targets.posteriors.parts import (
    beta,
    constant,
    each,
    normal,
    normals,
    ordered,
    positive,
    posterior,
    probability,
)


def two_normals(num_rows: int = 1000) -> Target:
    """Two normals with ordered means, unknown scales and an unknown share.

    Args:
      num_rows: of data.
    """
    rng = np.random.default_rng(111)
    is_first = rng.uniform(size=num_rows) < 0.3
    y = np.where(
        is_first, -2.75 + 0.5 * rng.normal(size=num_rows), 2.75 + rng.normal(size=num_rows)
    )

    def log_joint(mu, s, share):
        logs = tf.stack([tf.math.log(share), tf.math.log1p(-share)], axis=-1)
        data = constant(y, mu)[:, tf.newaxis]
        terms = normal(data, mu[..., tf.newaxis, :], s[..., tf.newaxis, :])
        terms = tf.reduce_logsumexp(terms + logs[..., tf.newaxis, :], axis=-1)
        prior = normals(mu, 0, 2) + normals(s, 0, 2) + beta(share, 5, 5)
        return prior + tf.reduce_sum(terms, axis=-1)

    return posterior(
        'mixture_of_two', 'simulated', log_joint, mu=ordered(2), s=positive(2), share=probability()
    )


def three_normals(num_rows: int = 600) -> Target:
    """Three unit normals with ordered means and known shares.

    Args:
      num_rows: of data.
    """
    rng = np.random.default_rng(112)
    y = rng.choice([-4.0, 0.0, 5.0], size=num_rows) + rng.normal(size=num_rows)

    def log_joint(mu, s):
        data = constant(y, mu)[:, tf.newaxis]
        terms = tf.reduce_logsumexp(
            normal(data, mu[..., tf.newaxis, :], s[..., tf.newaxis, tf.newaxis]), axis=-1
        )
        return normals(mu, 0, 5) + normal(s, 0, 2) + tf.reduce_sum(terms, axis=-1)

    return posterior('mixture_of_three', 'simulated', log_joint, mu=ordered(3), s=positive())


def hidden_markov(means: tuple[float, float], stay: tuple[float, float], num_steps=150) -> Target:
    """A chain with two hidden states, normal observations and unknown everything.

    Args:
      means: of the observations in the two states.
      stay: probabilities to stay in the two states.
      num_steps: length of the series.
    """
    rng = np.random.default_rng(113)
    state, series = 0, []
    for _ in range(num_steps):
        if rng.uniform() > stay[state]:
            state = 1 - state
        series.append(means[state] + rng.normal())
    y = np.array(series)

    def log_joint(stays, mu, s):
        data = constant(y, mu)[:, tf.newaxis]
        emission = normal(data, mu[..., tf.newaxis, :], each(each(s)))
        order = [emission.shape.rank - 2, *range(emission.shape.rank - 2), emission.shape.rank - 1]
        by_time = tf.transpose(emission, order)
        log_stay, log_leave = tf.math.log(stays), tf.math.log1p(-stays)

        def forward(log_alpha, log_emission):
            moved = tf.stack([log_alpha + log_stay, tf.reverse(log_alpha + log_leave, [-1])], -1)
            return tf.reduce_logsumexp(moved, axis=-1) + log_emission

        log_alpha = tf.scan(forward, by_time[1:], by_time[0] + np.log(0.5))[-1]
        prior = tf.reduce_sum(beta(stays, 4, 2), axis=-1) + normals(mu, 5, 5) + normal(s, 0, 2)
        return prior + tf.reduce_logsumexp(log_alpha, axis=-1)

    return posterior(
        f'hidden_markov_{means[0]:g}_{means[1]:g}',
        'simulated',
        log_joint,
        stays=probability(2),
        mu=ordered(2),
        s=positive(),
    )
