"""Chains in two places that pool what they learn are the same chains in one place."""

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.contracts.comparisons import (
    assert_close,
    assert_identical,
    draw_noise,
    injected_steps,
    is_identical,
    rows_of,
)
from tests.support import targets
from tests.support.catalogue import (
    DEFAULT,
    every_kernel_on_any_chains,
    in_depth_on_any_chains,
)
from tests.support.lockstep import Lockstep

TARGET = targets.SKEWED
NUM_STEPS, NUM_ADAPTATION_STEPS = 4, 3
ALL = slice(None)
BLOCKS = (slice(0, 3), slice(3, 8))
"""Replicas need not have the same number of chains."""


@in_depth_on_any_chains
def test_pooled_blocks_of_chains_are_the_whole(entry, seed):
    """With the same noise, over the end of adaptation; sums differ in their last bits alone."""
    lockstep = Lockstep(len(BLOCKS))
    whole = entry.make(TARGET.log_prob, NUM_ADAPTATION_STEPS)
    pooled = whole.copy(pool_fn=lockstep.pool_fn)
    state = TARGET.draw(seed, [8], 'float64')
    results = whole.bootstrap_results(state)
    noises = [draw_noise(whole, state, [seed, step]) for step in range(NUM_STEPS)]
    expected = injected_steps(whole, state, ALL, results, noises)
    blocks = lockstep.run(
        [lambda rows=rows: injected_steps(pooled, state, rows, results, noises) for rows in BLOCKS]
    )
    assert lockstep.num_meetings == NUM_STEPS, 'one pooled reduction a step'
    for (first, *learned), (second, *also_learned), (together, *reference) in zip(
        *blocks, expected, strict=True
    ):
        joined = tf.nest.map_structure(lambda *x: tf.concat(x, axis=0), first, second)
        assert_close(joined, together, rtol=1e-9)
        assert_identical(learned[0], also_learned[0])
        assert_close(learned[0], reference[0], rtol=1e-9)
        assert_close(learned[1].accept_prob, reference[1].accept_prob, rtol=1e-12)
        assert_close(learned[1].entropy, reference[1].entropy, rtol=1e-9)
    assert is_identical(expected[-1][1], expected[NUM_ADAPTATION_STEPS - 1][1])


def test_blocks_that_do_not_pool_are_not_the_whole(seed):
    """The same comparison tells them apart."""
    whole = DEFAULT.make(TARGET.log_prob, NUM_ADAPTATION_STEPS)
    state = TARGET.draw(seed, [8], 'float64')
    results = whole.bootstrap_results(state)
    noises = [draw_noise(whole, state, [seed, step]) for step in range(2)]
    alone, together = (
        injected_steps(whole, state, rows, results, noises) for rows in (BLOCKS[0], ALL)
    )
    with pytest.raises(AssertionError):
        assert_close(alone[0][1], together[0][1], rtol=1e-3)


def test_as_published_cyclical_chains_have_nothing_to_pool(seed):
    """Over a whole cycle, blocks of chains are the rows of all of them: each learns from itself."""
    kernel = tfpa.CyclicalKernelAdaptiveMetropolis(
        TARGET.log_prob,
        num_steps_per_cycle=4,
        exploration_fraction=0.5,
        subsample_size=2,
        mode='as_published',
    )
    state = TARGET.draw(seed, [8], 'float64')
    start = kernel.bootstrap_results(state)
    noises = [draw_noise(kernel, state, [seed, step]) for step in range(6)]
    whole = injected_steps(kernel, state, ALL, start, noises)
    for rows in BLOCKS:
        results = start._replace(adaptation=rows_of(start.adaptation, rows))
        block = injected_steps(kernel, state, rows, results, noises)
        for (transition, learned, _), (all_chains, all_learned, _) in zip(
            block, whole, strict=True
        ):
            assert_close(transition.state, rows_of(all_chains.state, rows), rtol=1e-9)
            assert_close(learned, rows_of(all_learned, rows), rtol=1e-9)


@every_kernel_on_any_chains
def test_replicas_start_alike(entry, seed):
    """Whatever their chains saw of the density, they agree on one first scale."""
    lockstep = Lockstep(len(BLOCKS))
    alone = entry.make(TARGET.log_prob, NUM_ADAPTATION_STEPS)
    pooled = alone.copy(pool_fn=lockstep.pool_fn)
    state = 3 * TARGET.draw(seed, [8], 'float64')

    def start(kernel, rows):
        return kernel.bootstrap_results(state[rows]).adaptation

    common = lockstep.run([lambda rows=rows: start(pooled, rows) for rows in BLOCKS])
    assert lockstep.num_meetings == 1
    assert_identical(common[0], common[1])
    own = [start(alone, rows) for rows in BLOCKS]
    assert not is_identical(own[0], own[1])


def test_the_first_scale_is_that_of_the_mean_curvature_of_replicas(seed):
    curvatures = []

    def pool_fn(tensors):
        curvatures.append(tensors)
        return [tf.constant(8.0), tf.constant(2.0)]

    kernel = DEFAULT.make(TARGET.log_prob, 5, pool_fn=pool_fn)
    state = TARGET.draw(seed, [4])
    factor = kernel.bootstrap_results(state).adaptation.preconditioner
    np.testing.assert_allclose(factor, 0.5 * np.eye(7))
    ((curvature, count),) = curvatures
    assert count == 1
    alone = DEFAULT.make(TARGET.log_prob, 5).bootstrap_results(state)
    expected = np.eye(7) / np.sqrt(curvature)
    np.testing.assert_allclose(alone.adaptation.preconditioner, expected, rtol=1e-6)
