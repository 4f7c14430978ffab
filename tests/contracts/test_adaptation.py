"""What is learned: that it moves, that it stops, and that it survives a restart."""

import itertools
import pickle

import numpy as np
import pytest
import tensorflow as tf

from tests.contracts.comparisons import (
    all_finite,
    assert_close,
    assert_identical,
    draw_noise,
    is_identical,
    log_det_of,
    packed,
    preconditioner_of,
    pure_step,
    to_numpy,
)
from tests.support import catalogue, targets
from tests.support.catalogue import (
    DEFAULT,
    KERNELS,
    NUM_ADAPTATION_STEPS,
    every_kernel,
    parametrize,
)
from tfp_adaptive.typing import Flow

TARGET = targets.LIST


def _start(program, seed):
    state = TARGET.draw(seed, [8], 'float64')
    return state, program.kernel.bootstrap_results(state)


@every_kernel
def test_adaptation_is_bitwise_constant_after_its_last_step(entry, seed):
    program = catalogue.program(entry)
    state, results = _start(program, seed)
    n = NUM_ADAPTATION_STEPS
    _, trace = program.run(state, results, [[seed, i] for i in range(n + 4)])
    adaptations = [results.adaptation, *(step.adaptation for step in trace)]
    for before, after in itertools.pairwise(adaptations[: n + 1]):
        assert not is_identical(before.preconditioner, after.preconditioner)
        assert not is_identical(before.optimizer, after.optimizer)
    for later in adaptations[n + 1 :]:
        assert_identical(later, adaptations[n])
    assert int(trace[-1].step) == n + 4


@parametrize([entry for entry in KERNELS if entry.learns_matrix])
def test_the_learned_factor_stays_in_its_family(entry, seed):
    """Its determinant is the one reported, which for a triangular factor its diagonal makes."""
    learned = catalogue.learned(entry, targets.SKEWED, seed)
    preconditioner = preconditioner_of(learned.kernel, learned.state)
    parameters = learned.results.adaptation.preconditioner
    if isinstance(preconditioner, Flow):
        z = preconditioner.inverse(parameters, learned.state)
        again, log_det = preconditioner.forward(parameters, z)
        np.testing.assert_allclose(again, learned.state, rtol=1e-3, atol=1e-4)
        assert np.std(log_det) > 0.01, 'still a linear map'
        return
    prepared = preconditioner.prepare(parameters)
    dense = np.transpose(preconditioner.forward(prepared, tf.eye(7)))
    sign, log_det = np.linalg.slogdet(dense)
    assert sign == 1
    np.testing.assert_allclose(preconditioner.log_det(parameters), log_det, rtol=1e-3, atol=1e-3)
    transposed = preconditioner.transpose(prepared, tf.eye(7))
    np.testing.assert_allclose(transposed, dense, rtol=1e-4, atol=1e-5)


@every_kernel
def test_no_adaptation_steps_learn_nothing(entry, seed):
    kernel = entry.make(TARGET.log_prob, 0)
    state = TARGET.draw(seed, [8])
    bootstrapped = kernel.bootstrap_results(state)
    _, results = kernel.one_step(state, bootstrapped, seed=[seed, 0])
    assert_identical(results.adaptation, bootstrapped.adaptation)


@every_kernel
def test_a_run_resumed_from_disk_is_the_same_run(entry, seed):
    """The restart is in the middle of adaptation, where there is most to lose."""
    program = catalogue.program(entry)
    state, results = _start(program, seed)
    seeds = [[seed, i] for i in range(NUM_ADAPTATION_STEPS + 2)]
    half = len(seeds) // 2
    whole_states, whole_trace = program.run(state, results, seeds)
    states, trace = program.run(state, results, seeds[:half])
    saved = pickle.dumps(to_numpy((states[-1], trace[-1])))
    state, results = tf.nest.map_structure(tf.constant, pickle.loads(saved))
    states, trace = program.run(state, results, seeds[half:])
    assert_identical(states[-1], whole_states[-1])
    assert_identical(trace[-1], whole_trace[-1])


@every_kernel
def test_a_step_replays_from_its_recorded_seed(entry, seed):
    program = catalogue.program(entry)
    state, results = _start(program, seed)
    states, trace = program.run(state, results, [[seed, i] for i in range(4)])
    replayed = program.step(states[2], trace[2], seed=trace[3].seed)
    assert_identical(replayed, (states[3], trace[3]))


@every_kernel
def test_frozen_takes_the_steps_of_the_adapted_kernel(entry, seed):
    """With the same noise: freezing removes code, it changes no chain."""
    learned = catalogue.learned(entry, targets.SKEWED, seed)
    state, frozen = learned.state, learned.frozen
    noise = draw_noise(learned.kernel, state, [seed, 0])
    start = packed(learned.kernel, state)
    adaptive, adaptation, _ = pure_step(learned.kernel, *start, learned.results, noise)
    assert_identical(adaptation, learned.results.adaptation)
    stripped = noise._replace(entropy=())
    results = frozen.bootstrap_results(state)
    transition, adaptation, _ = pure_step(frozen, *start, results, stripped)
    assert_close(transition, adaptive, rtol=1e-4)
    assert_identical(adaptation.preconditioner, learned.results.adaptation.preconditioner)


def _mean_accept_prob(kernel, state, seed):
    """Per chain, over 50 frozen steps."""
    results, total = kernel.bootstrap_results(state), 0.0
    step = tf.function(kernel.one_step, autograph=False)
    for i in range(50):
        state, results = step(state, results, seed=tf.constant([seed, i]))
        total += np.exp(np.minimum(results.log_accept_ratio, 0))
    return total / 50


@pytest.mark.parametrize(
    'entry',
    [
        pytest.param(entry, marks=[] if entry is DEFAULT else pytest.mark.slow, id=entry.name)
        for entry in KERNELS
    ],
)
def test_one_bad_chain_does_not_stop_the_others_from_learning(entry, seed):
    """One of four chains starts where the density is NaN and can never leave.

    That it changes nothing of what a step learns, test_regions shows for every kernel.
    """
    target = targets.NAN_REGION
    state = tf.tensor_scatter_nd_update(
        target.draw(seed, [4]), [[0]], tf.constant([[9.0, 0, 0, 0]])
    )
    kernel = entry.make(target.log_prob, 400, step_size=0.1)
    bootstrapped = kernel.bootstrap_results(state)
    end, results = catalogue.sample(kernel, state, 400, [seed, 0])
    np.testing.assert_array_equal(end[0], state[0])
    assert all_finite(results.adaptation)
    assert not is_identical(
        results.adaptation.preconditioner, bootstrapped.adaptation.preconditioner
    )
    assert int(results.info.num_nonfinite) >= 400
    accept_prob = _mean_accept_prob(kernel.frozen(results), end, seed)
    assert accept_prob[0] == 0
    assert 0.1 < np.mean(accept_prob[1:]) < 0.99


@catalogue.in_depth(
    where=lambda entry: (
        entry.learns_matrix
        and not any(word in entry.name for word in ('euclidean', 'l2hmc', 'momentum', 'real_nvp'))
    ),
    representatives=('mala', 'random_walk'),
)
def test_a_bad_first_scale_is_forgotten(entry, seed):
    """A hundred times too large (every move rejected for long) or too small: the same proposal.

    Euclidean coordinates move by a fixed amount a step, and the L2HMC objective is flat where
    every move is rejected; the networks of a flow learn from rejected moves as well, and after a
    thousand steps some have not forgotten it. None of these can promise this.
    """
    num_steps = 600
    kernel = entry.make(TARGET.log_prob, num_steps)
    state = TARGET.draw(seed, [16])
    bootstrapped = kernel.bootstrap_results(state)
    run = catalogue.sampler(kernel, num_steps)
    log_scales = []
    for step_size, first_accept_prob in ((100.0, 0.0), (0.01, 1.0)):
        start = bootstrapped._replace(step_size=tf.constant(step_size))
        _, first = kernel.one_step(state, start, seed=[seed, 9])
        assert abs(float(first.info.accept_prob) - first_accept_prob) < 0.01
        _, results = run(state, start, [seed, 0])
        log_det = log_det_of(kernel, state, results.adaptation.preconditioner)
        log_scales.append(float(log_det) / 7 + np.log(step_size))
    assert abs(log_scales[0] - log_scales[1]) < 0.05 * np.log(100.0 / 0.01)


@pytest.mark.parametrize('entry', KERNELS[:2], ids=lambda entry: entry.name)
def test_walls_do_not_let_the_scale_run_away(entry, seed):
    """Inside the walls the density is flat: only lost proposals tell that a move is too long."""

    def log_prob(x):
        inside = tf.reduce_all(tf.abs(x) <= 1, axis=-1)
        return tf.where(inside, 0 * tf.reduce_sum(x, axis=-1), float('-inf'))

    kernel = entry.make(log_prob, 400)
    state = tf.random.stateless_uniform([16, 4], [seed, 0], -1, 1)
    state, results = catalogue.sample(kernel, state, 400, [seed, 1])
    assert np.mean(_mean_accept_prob(kernel.frozen(results), state, seed)) > 0.4
