"""What a step costs: target evaluations at run time, copies at compile time, and nothing else."""

import math

import tensorflow as tf

from experiments.benchmark.counting import Counter, operations
from tests.contracts.comparisons import draw_noise
from tests.support import catalogue, targets
from tests.support.catalogue import (
    FLOW_OF_TWO_STEPS,
    every_kernel,
    every_kernel_in_depth,
    in_depth,
)

TARGET, LIST = targets.SKEWED, targets.LIST


@every_kernel_in_depth
def test_evaluations_in_eager_mode(entry, seed):
    counter = Counter(TARGET.log_prob)
    kernel, state = entry.make(counter, 2), TARGET.draw(seed, [4])
    _check_adaptive(entry, kernel, kernel.one_step, counter, state, 2, seed)
    frozen = kernel.frozen(kernel.bootstrap_results(state))
    spent, results = counter.spent_by(frozen.bootstrap_results, state)
    assert spent == 1
    _check_frozen(entry, frozen, frozen.one_step, counter, (state, results), seed)


@every_kernel
def test_evaluations_of_an_adaptive_program(entry, seed):
    _check_program(entry, seed)


def test_evaluations_of_a_flow_over_two_steps(seed):
    """The score at the midpoint is the trajectory's own; only products are spent beyond it."""
    _check_program(FLOW_OF_TWO_STEPS, seed)


@every_kernel
def test_evaluations_of_a_frozen_program(entry, seed):
    program, power = catalogue.frozen_program(entry, TARGET, seed), tf.constant(1.0)
    assert 0 < program.num_copies <= entry.max_copies
    bootstrap = program.kernel.bootstrap_results
    spent, _ = program.counter.spent_by(bootstrap, catalogue.learned(entry, TARGET, seed).state)
    assert spent == 1
    state = TARGET.draw(seed, [entry.num_chains])
    spent, results = program.counter.spent_by(bootstrap, state)
    assert spent == 1 + entry.num_more_at_start  # other chains than those that have learned

    def step(state, results, seed):
        return program.step(state, results, power, seed=seed)

    start = state, results
    assert _check_frozen(entry, program.kernel, step, program.counter, start, seed) == 0


def _check_program(entry, seed):
    """A program holds one copy of each kind of use, and calls trace no other."""
    program, n = catalogue.program(entry), catalogue.NUM_ADAPTATION_STEPS
    assert 0 < program.num_copies <= entry.max_copies + entry.max_product_copies
    state = LIST.draw(seed, [8], 'float64')
    used = program.kernel, program.step, program.counter
    assert _check_adaptive(entry, *used, state, n, seed) == 0


def _check_adaptive(entry, kernel, step, counter, state, num_adaptation_steps, seed):
    """All steps that learn, and two that do not; how often they traced the target."""
    spent, results = counter.spent_by(kernel.bootstrap_results, state)
    num_counted = 2 * entry.learns_by_gradient + entry.counts_estimates
    assert int(results.info.num_gradients) == num_counted
    num_usual = 2 + (not entry.uses_score) if entry.learns_by_gradient else 1
    assert spent == num_usual + entry.num_more_at_start
    num_traced = counter.num_traced
    for i in range(num_adaptation_steps + 2):
        step_seed = tf.constant([seed, i])
        noise = draw_noise(kernel, state, step_seed)
        evaluations = entry.num_evaluations(noise)
        products = entry.num_products(noise) if i < num_adaptation_steps else 0
        info = results.info
        spent, (state, results) = counter.spent_by(step, state, results, seed=step_seed)
        assert spent == evaluations + products
        num_new = int(results.info.num_gradients - info.num_gradients)
        assert num_new == evaluations * (entry.learns_by_gradient or entry.counts_estimates)
        reported = results.info.num_hessian_vector_products - info.num_hessian_vector_products
        assert int(reported) == products + entry.free_products * evaluations
    return counter.num_traced - num_traced


def _check_frozen(entry, frozen, step, counter, start, seed):
    """Three steps; how often they traced the target."""
    state, results = start
    assert int(results.info.num_gradients) == (entry.uses_score or entry.counts_estimates)
    num_traced = counter.num_traced
    for i in range(3):
        step_seed = tf.constant([seed, i])
        evaluations = entry.num_evaluations(draw_noise(frozen, state, step_seed))
        num_gradients = results.info.num_gradients
        spent, (state, results) = counter.spent_by(step, state, results, seed=step_seed)
        assert spent == evaluations
        num_new = int(results.info.num_gradients - num_gradients)
        assert num_new == evaluations * (entry.uses_score or entry.counts_estimates)
    return counter.num_traced - num_traced


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
        step = tf.function(owner.one_step, autograph=False)
        program = step.get_concrete_function(state, start, seed=seed)
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
