"""What a step costs: target evaluations at run time, copies at compile time, and nothing else."""

import math

import tensorflow as tf

from experiments.benchmark.counting import Counter, operations
from tests.contracts.comparisons import draw_noise
from tests.support import targets
from tests.support.catalogue import (
    FLOW_OF_TWO_STEPS,
    every_kernel,
    every_kernel_in_depth,
    in_depth,
)

TARGET = targets.SKEWED


@every_kernel_in_depth
def test_evaluations_in_eager_mode(entry, seed):
    _check_adaptive(entry, 'eager', seed)
    _check_frozen(entry, 'eager', seed)


@every_kernel
def test_evaluations_of_an_adaptive_program(entry, seed):
    _check_adaptive(entry, 'graph', seed)


def test_evaluations_of_a_flow_over_two_steps(seed):
    """The score at the midpoint is the trajectory's own; only products are spent beyond it."""
    _check_adaptive(FLOW_OF_TWO_STEPS, 'graph', seed)


@every_kernel
def test_evaluations_of_a_frozen_program(entry, seed):
    _check_frozen(entry, 'graph', seed)


def _check_adaptive(entry, mode, seed):
    """Two steps that learn and two that do not; a program holds one copy of each kind of use."""
    counter = Counter(TARGET.log_prob)
    kernel = entry.make(counter, 2)
    step = kernel.one_step if mode == 'eager' else tf.function(kernel.one_step, autograph=False)
    state = TARGET.draw(seed, [4])
    spent, results = counter.spent_by(kernel.bootstrap_results, state)
    num_counted = 2 * entry.learns_by_gradient + entry.counts_estimates
    assert int(results.info.num_gradients) == num_counted
    num_usual = 2 + (not entry.uses_score) if entry.learns_by_gradient else 1
    assert spent == num_usual + entry.num_more_at_start
    num_copies = []
    for i in range(4):
        step_seed = tf.constant([seed, i])
        noise = draw_noise(kernel, state, step_seed)
        evaluations = entry.num_evaluations(noise)
        products = entry.num_products(noise) if i < 2 else 0
        info, num_traced = results.info, counter.num_traced
        spent, (state, results) = counter.spent_by(step, state, results, seed=step_seed)
        num_copies.append(counter.num_traced - num_traced)
        assert spent == evaluations + products
        num_new = int(results.info.num_gradients - info.num_gradients)
        assert num_new == evaluations * (entry.learns_by_gradient or entry.counts_estimates)
        reported = results.info.num_hessian_vector_products - info.num_hessian_vector_products
        assert int(reported) == products + entry.free_products * evaluations
    if mode == 'graph':
        assert num_copies[0] <= entry.max_copies + entry.max_product_copies
        assert num_copies[1:] == [0, 0, 0]


def _check_frozen(entry, mode, seed):
    counter = Counter(TARGET.log_prob)
    kernel = entry.make(counter, 2)
    state = TARGET.draw(seed, [4])
    frozen = kernel.frozen(kernel.bootstrap_results(state))
    step = frozen.one_step if mode == 'eager' else tf.function(frozen.one_step, autograph=False)
    spent, results = counter.spent_by(frozen.bootstrap_results, state)
    assert spent == 1
    assert int(results.info.num_gradients) == (entry.uses_score or entry.counts_estimates)
    num_copies = []
    for i in range(3):
        step_seed = tf.constant([seed, i])
        evaluations = entry.num_evaluations(draw_noise(frozen, state, step_seed))
        num_gradients, num_traced = results.info.num_gradients, counter.num_traced
        spent, (state, results) = counter.spent_by(step, state, results, seed=step_seed)
        num_copies.append(counter.num_traced - num_traced)
        assert spent == evaluations
        num_new = int(results.info.num_gradients - num_gradients)
        assert num_new == evaluations * (entry.uses_score or entry.counts_estimates)
    if mode == 'graph':
        assert num_copies[0] <= entry.max_copies
        assert num_copies[1:] == [0, 0]


@every_kernel_in_depth
def test_frozen_program_holds_no_adaptation(entry, seed):
    """What was learned passes through untouched, and the optimizer is gone."""
    kernel = entry.make(TARGET.log_prob, 2)
    state = TARGET.draw(seed, [4])
    bootstrapped = kernel.bootstrap_results(state)
    frozen = kernel.frozen(bootstrapped)
    adaptive_program, frozen_program = (
        tf.function(owner.one_step, autograph=False).get_concrete_function(
            state, owner.bootstrap_results(state), seed=tf.TensorSpec([2], tf.int32)
        )
        for owner in (kernel, frozen)
    )
    frozen_operations, adaptive_operations = (
        [operation.kind for operation in operations(program)]
        for program in (frozen_program, adaptive_program)
    )
    assert len(frozen_operations) < len(adaptive_operations)
    assert draw_noise(frozen, state, [seed, 0]).entropy == ()
    # a move has one root for each draw of normal numbers, what learns a matrix has more
    if entry.learns_matrix:
        assert adaptive_operations.count('Sqrt') > entry.num_normals
    assert frozen_operations.count('Sqrt') == entry.num_normals
    _, results = frozen_program.graph.structured_outputs
    assert results.adaptation.optimizer == ()
    inputs = {id(x) for x in frozen_program.inputs}
    for leaf in tf.nest.flatten(results.adaptation):
        while leaf.op.type == 'Identity':
            leaf = leaf.op.inputs[0]
        assert id(leaf) in inputs


@in_depth(where=lambda entry: not entry.counts_estimates)  # its noise has no static shape
def test_no_tensor_holds_a_matrix_for_every_chain(entry):
    """C chains in d dimensions: nothing of size C d d, and of size d d only what is dense."""
    num_chains, event_size = 6, 101
    kernel = entry.make(lambda x: -tf.reduce_sum(x**2, axis=-1) / 2, 2)
    state = tf.zeros([num_chains, event_size])
    results = kernel.bootstrap_results(state)
    frozen = kernel.frozen(results)
    is_sparse = any(word in entry.name for word in ('diagonal', 'banded', 'bordered', 'low_rank'))
    bound = event_size**2 * (1 if is_sparse else num_chains)
    for owner, start in ((kernel, results), (frozen, frozen.bootstrap_results(state))):
        seed = tf.TensorSpec([2], tf.int32)
        program = tf.function(owner.one_step).get_concrete_function(state, start, seed=seed)
        shapes = [shape for operation in operations(program) for shape in operation.shapes]
        assert min(min(shape, default=0) for shape in shapes) >= 0  # none is unknown
        assert max(map(math.prod, shapes)) < bound


def test_operations_are_found_in_loops_and_branches():
    @tf.function(autograph=False)
    def outer_products(x):
        def body(step, x):
            def large():
                return tf.reduce_sum(x[:, :, None] * x[:, None, :], axis=-1)

            return step + 1, tf.cond(step > 1, large, lambda: x)

        return tf.while_loop(lambda step, x: step < 3, body, (0, x))

    program = outer_products.get_concrete_function(tf.zeros([5, 7]))
    assert (5, 7, 7) in {shape for found in operations(program) for shape in found.shapes}
