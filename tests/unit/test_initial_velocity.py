"""kernels.base: chains that keep part of their velocity begin with a fresh one."""

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa

KERNELS = {
    'entropy': lambda share: tfpa.EntropyAdaptiveHMC(log_prob, 1, 0, momentum_refreshment=share),
    'windowed': lambda share: tfpa.WindowedHMC(log_prob, 2, 0, momentum_refreshment=share),
}


def log_prob(q):
    return -tf.reduce_sum(q**2, axis=-1) / 2


@pytest.mark.parametrize('name', KERNELS)
def test_the_first_step_keeps_nothing(name, seed):
    """It is that of a kernel that keeps nothing, with the same seed; the second one is not."""
    state = tf.random.stateless_normal([4, 3], [seed, 0], dtype=tf.float64)
    trace = []
    for share in (0.3, 1.0):
        kernel, now = KERNELS[name](share), state
        results = kernel.bootstrap_results(now)
        for step in range(2):
            now, results = kernel.one_step(now, results, seed=[seed, step])
            trace.append(results.proposed_state.numpy())
    kept_first, kept_second, fresh_first, fresh_second = trace
    np.testing.assert_array_equal(kept_first, fresh_first)
    assert not np.any(np.isclose(kept_second, fresh_second))
