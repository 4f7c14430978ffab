"""What a step costs: target evaluations at run time, traces at compile time, and nothing else."""

import numpy as np
import pytest
import tensorflow as tf

from tests.contracts.comparisons import draw_noise
from tests.support import targets
from tests.support.catalogue import every_kernel

TARGET = targets.SKEWED


class _Counter:
    """A log-density that counts how often it is traced, and how often it is run."""

    def __init__(self, log_prob):
        self._log_prob = log_prob
        self.num_traced = 0
        self.num_run = 0

    def __call__(self, x):
        self.num_traced += 1
        tf.numpy_function(self._count, [], [])  # stateful: TensorFlow never prunes it
        return self._log_prob(x)

    def _count(self):
        self.num_run += 1

    def spent_by(self, function, *args, **kwargs):
        """(runs, result) of a call."""
        before = self.num_run
        result = function(*args, **kwargs)
        tf.nest.map_structure(np.asarray, result)
        return self.num_run - before, result


@pytest.mark.parametrize('mode', ['eager', 'graph'])
@every_kernel
def test_evaluations_a_step(entry, mode, seed):
    counter = _Counter(TARGET.log_prob)
    kernel = entry.make(counter, 2)
    step = kernel.one_step if mode == 'eager' else tf.function(kernel.one_step)
    state = TARGET.draw(seed, [4])
    spent, results = counter.spent_by(kernel.bootstrap_results, state)
    assert spent == int(results.info.num_gradients)
    for i in range(4):
        step_seed = tf.constant([seed, i])
        products = int(entry.num_products(draw_noise(kernel, state, step_seed))) if i < 2 else 0
        before = results.info
        spent, (state, results) = counter.spent_by(step, state, results, seed=step_seed)
        assert spent == entry.num_gradients + products
        assert int(results.info.num_gradients - before.num_gradients) == entry.num_gradients
        reported = results.info.num_hessian_vector_products - before.num_hessian_vector_products
        assert int(reported) == products


@pytest.mark.parametrize('mode', ['eager', 'graph'])
@every_kernel
def test_evaluations_a_frozen_step(entry, mode, seed):
    counter = _Counter(TARGET.log_prob)
    kernel = entry.make(counter, 2)
    state = TARGET.draw(seed, [4])
    frozen = kernel.frozen(kernel.bootstrap_results(state))
    step = frozen.one_step if mode == 'eager' else tf.function(frozen.one_step)
    spent, results = counter.spent_by(frozen.bootstrap_results, state)
    assert spent == 1
    assert int(results.info.num_gradients) == 1
    for i in range(3):
        spent, (state, results) = counter.spent_by(
            step, state, results, seed=tf.constant([seed, i])
        )
        assert spent == entry.num_gradients
        assert int(results.info.num_gradients) == 1 + (i + 1) * entry.num_gradients


@every_kernel
def test_traces_of_the_target_a_program(entry, seed):
    """A program holds at most one copy a leapfrog step and one of the Hessian-vector product."""
    counter = _Counter(TARGET.log_prob)
    kernel = entry.make(counter, 2)
    state = TARGET.draw(seed, [4])
    results = kernel.bootstrap_results(state)
    for owner, limit in ((kernel, entry.num_gradients + 1), (kernel.frozen(results), None)):
        step, results = tf.function(owner.one_step), owner.bootstrap_results(state)
        before = counter.num_traced
        _, results = step(state, results, seed=tf.constant([seed, 0]))
        traced = counter.num_traced - before
        assert 1 <= traced <= (limit or entry.num_gradients)
        step(state, results, seed=tf.constant([seed, 1]))
        assert counter.num_traced - before == traced


@every_kernel
def test_frozen_program_holds_no_adaptation(entry, seed):
    """What is learned passes through untouched, and most of the operations are gone."""
    kernel = entry.make(TARGET.log_prob, 2)
    state = TARGET.draw(seed, [4])
    results = kernel.bootstrap_results(state)
    frozen = kernel.frozen(results)
    frozen_results = frozen.bootstrap_results(state)
    assert frozen_results.adaptation.optimizer == ()
    programs = [
        tf.function(owner.one_step).get_concrete_function(
            state, owner_results, seed=tf.TensorSpec([2], tf.int32)
        )
        for owner, owner_results in ((kernel, results), (frozen, frozen_results))
    ]
    adaptive_size, frozen_size = (
        len(program.graph.as_graph_def().node)
        + sum(len(f.node_def) for f in program.graph.as_graph_def().library.function)
        for program in programs
    )
    assert frozen_size < 0.7 * adaptive_size
    outputs = programs[1].graph.structured_outputs[1].adaptation
    inputs = {id(x) for x in programs[1].inputs}
    for leaf in tf.nest.flatten(outputs):
        while leaf.op.type == 'Identity':
            leaf = leaf.op.inputs[0]
        assert id(leaf) in inputs
