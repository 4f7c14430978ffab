"""`sample` says what is wrong with a run, once, at the line that called it."""

import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tfp_adaptive.sampling import SamplingWarning

NUM_CHAINS = 4


def test_a_real_run_is_judged():
    """A banana far too long for so few draws."""

    def banana(x):
        straight = x[..., 1] + 0.1 * (x[..., 0] ** 2 - 100)
        return -(x[..., 0] ** 2 / 100 + straight**2) / 2

    with pytest.warns(SamplingWarning) as caught:
        run = tfpa.sample(
            banana,
            100,
            100,
            initial_state=tf.zeros([NUM_CHAINS, 2]),
            kernel=tfp.mcmc.RandomWalkMetropolis,
            seed=(0, 1),
            progress=False,
            jit_compile=False,
        )
    assert tuple(str(warning.message) for warning in caught) == run.warnings
    assert {warning.filename for warning in caught} == {__file__}
    assert any(sentence.startswith('R-hat exceeds') for sentence in run.warnings)
    assert any(sentence.startswith('The effective sample size') for sentence in run.warnings)
