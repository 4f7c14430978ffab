"""internal.in_sequence: values stay as they are, the graph gets an edge where that pays."""

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tfp_adaptive.internal.in_sequence import in_sequence
from tfp_adaptive.kernels.frozen import FrozenKernel

ROULETTE = tfpa.entropy.russian_roulette()


def wait(first, then, since=None, limit=100):
    return in_sequence(first, then, since=[first] if since is None else since, limit=limit)


def depends(tensor, other) -> bool:
    """Whether `other` is needed to compute `tensor`, both of one graph."""
    seen, waiting = set(), [tensor.op]
    while waiting:
        operation = waiting.pop()
        if operation is other.op:
            return True
        if operation.name not in seen:
            seen.add(operation.name)
            waiting += [x.op for x in operation.inputs]
    return False


@pytest.fixture(autouse=True)
def devices(monkeypatch):
    """Nothing but a CPU, whatever there is."""
    found = [tf.config.PhysicalDevice('/device:CPU:0', 'CPU')]
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda: found)
    return found


@pytest.mark.parametrize('first', [0.0, 1e30, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    'then', [np.float32([np.nan, -np.inf]), np.int32([3, 0]), [True, False], np.ones([2, 3, 4]), 7]
)
def test_values_stay_as_they_are_whatever_they_wait_for(first, then):
    then = tf.constant(then)
    found = tf.function(wait, jit_compile=True)(tf.constant([first, 1.0]), then)
    assert found.dtype == then.dtype
    np.testing.assert_array_equal(found, then)


def test_the_compiler_does_not_see_through_it():
    @tf.function(jit_compile=True)
    def compiled(x, y):
        return wait(tf.exp(x), y)

    hlo = compiled.experimental_get_compiler_ir(tf.ones([3]), tf.ones([3]))(stage='optimized_hlo')
    assert 'exponential' in hlo


@pytest.mark.parametrize('shape', [(4,), (4, 3), (4, 3, 2), ()])
def test_rows_and_scalars_wait(shape):
    with tf.Graph().as_default():
        first, then = tf.ones([4]), {'a': tf.ones(shape)}
        found = wait(first, then)['a']
        assert depends(found, first)
        assert found.shape == shape


@pytest.mark.parametrize('shape', [(2,), (1, 4), (5, 4)])
def test_other_shapes_do_not_wait(shape):
    with tf.Graph().as_default():
        first, then = tf.ones([4]), tf.ones(shape)
        assert wait(first, then) is then


def test_nothing_waits_in_eager_mode_or_where_an_accelerator_is_seen(devices):
    then = tf.ones([2])
    assert wait(then + 1, then) is then
    devices.append(tf.config.PhysicalDevice('/device:GPU:0', 'GPU'))
    with tf.Graph().as_default():
        then = tf.ones([2])
        assert wait(then + 1, then) is then


def test_nothing_waits_since_a_constant_from_outside_the_graph():
    outside = tf.ones([2])
    with tf.Graph().as_default():
        first, then = tf.zeros([2]), tf.ones([2])
        assert wait(first, then, since=[outside]) is then


@pytest.mark.parametrize(
    ('size', 'limit', 'waits'),
    [(100, 100, True), (101, 100, False), (2, 0, False), (None, 100, False), (0, 100, False)],
)
def test_only_small_things_wait_and_only_where_that_is_wanted(size, limit, waits):
    with tf.Graph().as_default():
        since = [tf.compat.v1.placeholder(tf.float32, [size])]
        first, then = tf.zeros([2]), tf.ones([2])
        assert depends(wait(first, then, since, limit), first) == waits


def waits_after(compute):
    """Whether something waits, at a limit of 100, after `compute` of a tensor [2, 3]."""
    with tf.Graph().as_default():
        tf.zeros([1000])
        x = tf.compat.v1.placeholder(tf.float32, [2, 3])
        first = tf.zeros([2])
        compute(x)
        return depends(wait(first, tf.ones([2, 3]), since=[x]), first)


def test_what_is_computed_since_counts():
    assert waits_after(lambda x: x @ tf.zeros([3, 50]))
    assert not waits_after(lambda x: tf.reduce_sum(x @ tf.zeros([3, 51])))


def test_what_functions_compute_counts():
    assert waits_after(tf.function(lambda x: x @ tf.zeros([3, 50])))
    assert not waits_after(tf.function(lambda x: tf.reduce_sum(x @ tf.zeros([3, 51]))))
    assert waits_after(
        lambda x: tf.function(lambda x, y: x + tf.reduce_sum(y * 2))(x, tf.zeros([30, 30]))
    )


def test_what_is_computed_from_data_alone_does_not_count():
    assert waits_after(lambda x: x + tf.reduce_sum(tf.zeros([30, 30]) + 1.0))


def test_what_is_not_known_counts_as_large():
    assert not waits_after(lambda x: tf.while_loop(lambda y: y[0, 0] < 1, lambda y: y + 1, [x]))
    assert not waits_after(tf.function(lambda x: tf.while_loop(lambda y: y[0, 0] < 1, tf.exp, [x])))
    assert not waits_after(lambda x: tf.boolean_mask(x, x > 0))


def step_graph(num_leapfrog_steps, num_data):
    """(seed, log-likelihoods, products) in the graph of a frozen step on a regression."""
    data = tf.ones([3, num_data])

    def log_prob(w):
        return -tf.reduce_sum(tf.square(w), -1) - tf.reduce_sum(tf.nn.softplus(w @ data), -1)

    proposal = tfpa.proposals.leapfrog(num_leapfrog_steps)
    kernel = FrozenKernel(log_prob, proposal, tfpa.preconditioners.cholesky(), tf.eye(3))
    state = tf.zeros([4, 3])
    results = kernel.bootstrap_results(state)

    @tf.function(autograph=False)
    def step(state, results, seed):
        return kernel.one_step(state, results, seed=seed)

    graph = step.get_concrete_function(state, results, tf.zeros([2], tf.int32)).graph
    seed = graph.inputs[-1 - len(graph.captures)]
    assert (seed.dtype, seed.shape.as_list()) == (tf.int32, [2])

    def outputs(kind):
        return [x.outputs[0] for x in graph.get_operations() if x.type == kind]

    return seed, outputs('Softplus')[-1], outputs('MatMul')


@pytest.mark.parametrize(
    ('num_leapfrog_steps', 'num_data', 'first_waits', 'gradient_waits'),
    [
        (1, 20, True, True),
        (1, 10_000, True, False),
        (2, 20, False, False),
        (3, 20, True, True),
        (3, 1_000, True, False),
    ],
)
def test_products_of_a_step_wait_for_the_velocity_and_for_the_value(
    num_leapfrog_steps, num_data, first_waits, gradient_waits
):
    seed, value, products = step_graph(num_leapfrog_steps, num_data)
    assert len(products) >= 4
    assert all(depends(product, seed) for product in products) == first_waits
    # of the residuals: no function of the value
    gradients = [x for x in products if x.op.inputs[0].shape[-1] == num_data]
    assert gradients
    assert any(depends(gradient, value) for gradient in gradients) == gradient_waits


@pytest.mark.parametrize(('num_data', 'waits'), [(3, True), (1_000, False)])
def test_the_entropy_of_a_small_target_waits_for_the_move(num_data, waits):
    data = tf.ones([3, num_data])

    def log_prob(w):
        return -tf.reduce_sum(tf.square(w), -1) - tf.reduce_sum(tf.nn.softplus(w @ data), -1)

    found = []

    def estimate(residual, probe_fn, noise, *rest):
        found.append(noise)
        return ROULETTE.estimate(residual, probe_fn, noise, *rest)

    kernel = tfpa.EntropyAdaptiveHMC(
        log_prob, num_leapfrog_steps=3, entropy=ROULETTE._replace(estimate=estimate)
    )
    state = tf.ones([4, 3])
    results = kernel.bootstrap_results(state)
    step = tf.function(kernel.one_step, autograph=False)
    graph = step.get_concrete_function(state, results, tf.zeros([2], tf.int32)).graph
    # that of a loop is in a graph of its own
    (value,) = [x.outputs[0] for x in graph.get_operations() if x.type == 'Softplus']
    (noise,) = found
    assert [depends(x, value) for x in noise] == [waits] * 3
