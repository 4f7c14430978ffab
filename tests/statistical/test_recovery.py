"""Adaptation finds its way back from starts at which chains lose every move."""

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.support import catalogue, targets

NUM_STEPS = 600


def test_a_scale_at_which_every_chain_leaves_the_support_is_left_behind(seed):
    target = targets.BOX
    kernel = tfpa.EntropyAdaptiveHMC(
        target.log_prob, 1, NUM_STEPS, tfpa.preconditioners.cholesky(initial_scale=1000.0)
    )
    start = target.draw(seed, [20])
    _, first = kernel.one_step(start, kernel.bootstrap_results(start), seed=[seed, 0])
    assert first.info.num_nonfinite == 20, 'the first scale was meant to lose every chain'
    _, results = catalogue.sample(kernel, start, NUM_STEPS, [seed, 1])
    assert results.info.accept_prob > 0.4


def test_chains_without_a_density_do_not_disturb_the_others(seed):
    """Half of the chains start where the log-density is NaN: the rest learn as if alone."""

    def log_prob(x):
        return tf.where(x[..., 0] > 1e3, np.nan, -tf.reduce_sum(x**2, -1) / 2)

    kernel = tfpa.EntropyAdaptiveHMC(log_prob, 1, NUM_STEPS)
    alive = tf.random.stateless_normal([20, 3], [seed, 0])
    _, alone = catalogue.sample(kernel, alive, NUM_STEPS, [seed, 1])
    state = tf.concat([alive, tf.fill([20, 3], 1e4)], axis=0)
    _, results = catalogue.sample(kernel, state, NUM_STEPS, [seed, 1])
    assert results.info.num_nonfinite == 20 * NUM_STEPS
    # weights of two runs that differ in noise alone: their logarithms scatter by about 0.3
    ratio = results.info.entropy_weight / alone.info.entropy_weight
    assert abs(np.log(ratio)) < 1.5
    frozen = kernel.frozen(results)
    _, after = frozen.one_step(alive, frozen.bootstrap_results(alive), seed=[seed, 2])
    assert after.info.accept_prob > 0.4
