"""What waits for what: the values stay, the graph gets an edge where that pays."""

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tfp_adaptive.internal.order import Order
from tfp_adaptive.kernels.frozen import FrozenKernel


def permitted(limit=100, size=1):
    order = Order(size)
    order.permit(limit)
    return order


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
@pytest.mark.parametrize('then', [np.float32([np.nan, -np.inf]), np.int32([3, 0]), [True, False]])
def test_values_stay_as_they_are_whatever_they_wait_for(first, then):
    then = tf.constant(then)
    wait = tf.function(lambda first, then: permitted().after(first, then), jit_compile=True)
    found = wait(tf.constant([first, 1.0]), then)
    assert found.dtype == then.dtype
    np.testing.assert_array_equal(found, then)


def test_the_compiler_does_not_see_through_it():
    @tf.function(jit_compile=True)
    def wait(x, y):
        return permitted().after(tf.exp(x), y)

    hlo = wait.experimental_get_compiler_ir(tf.ones([3]), tf.ones([3]))(stage='optimized_hlo')
    assert 'exponential' in hlo


@pytest.mark.parametrize('shapes', [((4,), (4, 3)), ((4,), ()), ((), (4,)), ((4, 3), (4,))])
def test_shapes_need_not_be_alike(shapes):
    with tf.Graph().as_default():
        first, then = (tf.ones(shape) for shape in shapes)
        found = permitted().after(first, then)
        assert depends(found, first)
        assert found.shape == then.shape


@pytest.mark.parametrize('shapes', [((4,), (2,)), ((4,), (1,)), ((0,), ()), ((3, 4), (4, 4))])
def test_nothing_waits_for_what_has_another_shape(shapes):
    with tf.Graph().as_default():
        first, then = (tf.ones(shape) for shape in shapes)
        assert permitted().after(first, then) is then


def test_nothing_waits_in_eager_mode_or_where_an_accelerator_is_seen(devices):
    then = tf.ones([2])
    assert permitted().after(then + 1, then) is then
    devices.append(tf.config.PhysicalDevice('/device:GPU:0', 'GPU'))
    with tf.Graph().as_default():
        then = tf.ones([2])
        assert permitted().after(then + 1, then) is then


@pytest.mark.parametrize(
    ('order', 'waits'),
    [
        (permitted(), True),
        (permitted(limit=1), True),
        (permitted(size=101), False),
        (permitted(size=None), False),
        (Order(1), False),
    ],
)
def test_only_small_things_wait_and_only_where_that_is_permitted(order, waits):
    with tf.Graph().as_default():
        first, then = tf.zeros([2]), tf.ones([2])
        assert depends(order.after(first, then), first) == waits


def observed(compute, limit=100):
    """Whether something waits after the order has seen `compute` of a tensor [2, 3]."""
    order = permitted(limit)
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2, 3])
        order.observe(lambda: compute(x), [x])
        return depends(order.after(x, tf.ones([2, 3])), x)


def test_what_is_made_of_the_inputs_counts():
    assert observed(lambda x: x @ tf.zeros([3, 50]))
    assert not observed(lambda x: tf.reduce_sum(x @ tf.zeros([3, 51])))


def test_what_is_made_of_data_alone_does_not_count():
    assert observed(lambda x: x + tf.reduce_sum(tf.zeros([30, 30]) + 1.0))


def test_what_cannot_be_seen_counts_as_large():
    assert not observed(tf.function(lambda x: x + 1))
    assert not observed(lambda x: tf.while_loop(lambda y: y[0, 0] < 1, lambda y: y + 1, [x]))
    assert not observed(lambda x: tf.boolean_mask(x, x > 0))


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


def test_what_is_learned_waits_for_the_figures_of_the_step():
    kernel = tfpa.EntropyAdaptiveHMC(
        lambda x: -tf.reduce_sum(tf.square(x), -1), num_leapfrog_steps=1, momentum_refreshment=0.6
    )
    state = tf.ones([4, 3])
    results = kernel.bootstrap_results(state)
    step = tf.function(kernel.one_step, autograph=False)
    graph = step.get_concrete_function(state, results, tf.zeros([2], tf.int32)).graph
    kinds = {'MatMul': [], 'RealDiv': []}
    for operation in graph.get_operations():
        kinds.setdefault(operation.type, []).append(operation.outputs[0])
    (learned,) = [x for x in kinds['MatMul'] if x.op.get_attr('transpose_a') and x.shape == [3, 3]]
    means = [x for x in kinds['RealDiv'] if x.shape == [7]]
    assert len(means) == 1
    assert depends(learned, means[0])
