"""Adaptation finds its way back from starts at which chains lose every move."""

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
