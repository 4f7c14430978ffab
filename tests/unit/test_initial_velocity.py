"""kernels.base: the velocity a chain starts with where part of it is kept between steps."""

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa


def kernel():
    return tfpa.EntropyAdaptiveHMC(
        lambda q: -tf.reduce_sum(q**2, axis=-1) / 2, momentum_refreshment=0.5
    )


def test_is_a_standard_normal_draw():
    """Mean and second moment within 4 standard errors."""
    velocity = kernel().bootstrap_results(tf.zeros([2000, 3], tf.float64)).velocity[0].numpy()
    assert velocity.shape == (2000, 3)
    assert abs(velocity.mean()) < 4 / np.sqrt(velocity.size)
    assert abs(np.mean(velocity**2) - 1) < 4 * np.sqrt(2 / velocity.size)


def test_is_not_the_noise_of_a_step_with_seed_zero():
    """Seed (0, 0) is what many users pass; mixing v with itself would not be a normal draw."""
    state, seed = tf.zeros([4, 3], tf.float64), tf.zeros([2], tf.int32)
    kept = kernel().bootstrap_results(state).velocity[0]
    drawn = kernel()._sampler.draw(seed, 4, 3, tf.float64).move
    assert not np.allclose(kept, drawn)
