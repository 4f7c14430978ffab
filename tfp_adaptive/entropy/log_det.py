"""Entropy of a proposal that is linear in its noise: log|det C| and nothing more."""

import tensorflow as tf

from tfp_adaptive.typing import Entropy, EntropyEstimate, Pairs


def log_det() -> Entropy:
    """No correction beyond log|det C|: exact for L = 1 (MALA) and for random walks.

    Returns:
      An `Entropy` that spends no Hessian-vector product.

    Example:
      >>> entropy = tfpa.entropy.log_det()
    """

    def draw(seed, num_chains, event_size, dtype):
        del seed
        return tf.zeros([num_chains, event_size], dtype)

    def estimate(residual, probe_fn, noise, penalty_weight, is_adapting):
        del residual, probe_fn, penalty_weight, is_adapting
        zeros, nothing = noise[:, 0], tf.zeros([0, noise.shape[-1]], noise.dtype)
        return EntropyEstimate(
            log_det=zeros,
            pairs=Pairs((nothing,), (nothing,)),
            forms=Pairs((nothing,), (nothing,)),
            is_finite=tf.ones_like(zeros, tf.bool),
            spectral_radius=nothing[:, 0],
            penalty=zeros,
            num_hessian_vector_products=tf.constant(0),
        )

    return Entropy(draw, estimate)
