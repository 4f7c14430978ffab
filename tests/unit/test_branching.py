"""internal.branching: a step taken or not, in every mode."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.internal import branching


@pytest.mark.parametrize('mode', ['eager', 'graph', 'XLA'])
@pytest.mark.parametrize('condition', [True, False])
def test_when(condition, mode):
    def run(condition, value):
        return branching.when(condition, lambda old: (old[0] + 1, {'b': 2 * old[1]['b']}), value)

    if mode != 'eager':
        run = tf.function(run, jit_compile=mode == 'XLA', autograph=False)
    value = (tf.constant(3), {'b': tf.constant([1.0, np.nan])})
    first, second = run(tf.constant(condition), value)
    assert int(first) == 3 + condition
    np.testing.assert_array_equal(second['b'], [1.0 + condition, np.nan])
