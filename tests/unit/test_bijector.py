"""preconditioners.bijector: bijectors of TFP as flows."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.contracts.comparisons import all_finite
from tests.unit import flows
from tests.unit.flows import ALL, CHAINS, SIZE, STEP_SIZE, WELL
from tfp_adaptive import proposals
from tfp_adaptive.kernels.geometry import make_move

tfb = tfp.bijectors


def _shift_and_scale(parameters):
    return tfb.Chain([tfb.Shift(parameters['shift']), tfb.Scale(log_scale=parameters['log_scale'])])


def _start_of_shift_and_scale(event_size, dtype, scale):
    return {
        'shift': tf.zeros([event_size], dtype),
        'log_scale': tf.fill([event_size], tf.math.log(scale)),
    }


SHIFT_AND_SCALE = tfpa.preconditioners.bijector(_shift_and_scale, _start_of_shift_and_scale)


def _network(weights):
    """A pure function: shift and log scale from the coordinates that a coupling leaves alone."""

    def shift_and_log_scale(x, output_units, **kwargs):
        del kwargs
        hidden = tf.tanh(x @ weights['in'])
        return tf.split(hidden @ weights['out'], [output_units, output_units], axis=-1)

    return shift_and_log_scale


def _coupling(parameters):
    return tfb.RealNVP(num_masked=1, shift_and_log_scale_fn=_network(parameters))


def _coupling_flow(rng, dtype=tf.float64):
    weights = {'in': rng.normal(size=[1, 5]), 'out': 0.3 * rng.normal(size=[5, 2 * (SIZE - 1)])}
    return tfpa.preconditioners.bijector(_coupling, weights), tf.nest.map_structure(
        lambda x: tf.constant(x, dtype), weights
    )


def test_shift_and_scale_is_a_diagonal_preconditioner(rng):
    """A translation changes no move and has no gradient; a log scale is a relative coordinate."""
    target, state, velocity = flows.setting(rng)
    scale = np.exp(0.3 * rng.normal(size=SIZE))
    parameters = {
        'shift': tf.constant(rng.normal(size=SIZE)),
        'log_scale': tf.constant(np.log(scale)),
    }
    learned = []
    for preconditioner, of in (
        (SHIFT_AND_SCALE, parameters),
        (tfpa.preconditioners.diagonal(), tf.constant(scale)),
    ):
        geometry = flows.geometry(preconditioner, 3)
        move, slopes = geometry.differentiable_move(target, of, STEP_SIZE, state, velocity, ())
        learned.append((move, slopes(ALL), geometry.log_det(of)))
    (move, (gradient, _), log_det), (expected, expected_gradient, expected_log_det) = learned
    np.testing.assert_allclose(move.energy_change, expected.energy_change, rtol=1e-11)
    np.testing.assert_allclose(move.proposed.position, expected.proposed.position, rtol=1e-11)
    np.testing.assert_allclose(gradient['log_scale'], expected_gradient, atol=1e-11)
    np.testing.assert_allclose(gradient['shift'], np.zeros(SIZE), atol=1e-12)
    np.testing.assert_allclose(log_det, expected_log_det, rtol=1e-11)


def test_start_may_depend_on_the_target():
    start = SHIFT_AND_SCALE.init(SIZE, tf.float64, tf.constant(0.5, tf.float64))
    np.testing.assert_allclose(start['log_scale'], np.full([SIZE], np.log(0.5)))


def test_arrays_are_cast_to_the_dtype_of_the_state(rng):
    flow, _ = _coupling_flow(rng)
    start = flow.init(SIZE, tf.float32, tf.constant(0.5))
    assert {leaf.dtype for leaf in tf.nest.flatten(start)} == {tf.float32}


@pytest.mark.parametrize(
    ('unit', 'expected'),
    [(0.5, {'a': 1.5, 'b': 2.5}), ({'a': 0.1, 'b': 10.0}, {'a': 1.1, 'b': 12.0})],
    ids=['scalar', 'nest'],
)
def test_unit_is_what_a_step_of_one_is_worth(unit, expected):
    flow = tfpa.preconditioners.bijector(_shift_and_scale, {}, unit)
    start, one = {'a': tf.constant(1.0), 'b': tf.constant(2.0)}, {'a': 1.0, 'b': 1.0}
    moved = flow.retract(start, tf.nest.map_structure(tf.constant, one))
    tf.nest.map_structure(np.testing.assert_allclose, moved, expected)


def test_a_coupling_of_tfp_maps_there_and_back(rng):
    flow, parameters = _coupling_flow(rng)
    z = tf.constant(rng.normal(size=[CHAINS, SIZE]))
    q, log_det = flow.forward(parameters, z)
    np.testing.assert_allclose(flow.inverse(parameters, q), z, atol=1e-12)
    jacobian = flows.jacobian(lambda z: flow.forward(parameters, z)[0], z)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(jacobian)[1], atol=1e-12)


def test_a_value_from_the_bijector_itself_keeps_its_gradient(rng):
    """Bijectors remember what they mapped; the way back must not come from that memory."""
    bijector = tfb.Softplus()
    flow = tfpa.preconditioners.bijector(lambda scale: bijector, tf.ones([]))
    z = tf.constant(rng.normal(size=[CHAINS, SIZE]))
    q = bijector.forward(z)
    with tf.GradientTape() as tape:
        tape.watch(q)
        back = flow.inverse(tf.ones([]), q)
    gradient = tape.gradient(back, q)
    np.testing.assert_allclose(gradient, 1 / (1 - np.exp(-q)), rtol=1e-10)


@pytest.mark.parametrize('num_steps', [1, 2, 5])
def test_moves_through_a_coupling_of_tfp_are_leapfrog_on_z(num_steps, rng):
    flow, parameters = _coupling_flow(rng)
    target, state, velocity = flows.setting(rng)
    make = make_move(target.event, proposals.leapfrog(num_steps), flow)
    move = make(target, parameters, STEP_SIZE, state, velocity)
    brute_force = flows.PulledBack(flow, parameters)
    start = flow.inverse(parameters, state.position).numpy()
    for c in range(CHAINS):
        twin = brute_force.trajectory(start[c], velocity[c].numpy(), num_steps)
        end, _ = flow.forward(parameters, tf.constant(twin.positions[-1][np.newaxis]))
        np.testing.assert_allclose(move.proposed.position[c], end[0], atol=1e-10)
        np.testing.assert_allclose(move.energy_change[c], twin.energy_change, atol=1e-10)


def _kernel(flow, num_leapfrog_steps):
    return tfpa.EntropyAdaptiveHMC(
        WELL.log_prob, num_leapfrog_steps, 10, preconditioner=flow, step_size=0.3
    )


def _state(num_chains=CHAINS):
    return tf.random.stateless_normal([num_chains, SIZE], [1, 2], dtype=tf.float64)


@pytest.mark.parametrize(
    ('num_leapfrog_steps', 'jit_compile'),
    [pytest.param(1, True, marks=pytest.mark.slow), (2, False)],
)
def test_a_kernel_learns_a_coupling_of_tfp(num_leapfrog_steps, jit_compile, rng):
    flow, _ = _coupling_flow(rng)
    kernel = _kernel(flow, num_leapfrog_steps)
    step = tf.function(kernel.one_step, jit_compile=jit_compile, autograph=False)
    state, start = _state(), kernel.bootstrap_results(_state())
    results = start
    for i in range(5):
        state, results = step(state, results, seed=tf.constant([3, i]))
    assert all_finite(results)
    for before, after in zip(
        tf.nest.flatten(start.adaptation.preconditioner),
        tf.nest.flatten(results.adaptation.preconditioner),
        strict=True,
    ):
        assert np.max(np.abs(after - before)) > 1e-3


@pytest.mark.slow
def test_two_couplings_of_tfp_and_two_steps_are_too_much_for_xla(rng):
    """The limit that the documentation states; when this fails, TensorFlow has lifted it.

    TensorFlow keeps the derivatives it once traced by shape, so the shape is no other test's.
    """
    weights = [_coupling_flow(rng)[1] for _ in range(2)]
    flow = tfpa.preconditioners.bijector(
        lambda p: tfb.Chain([_coupling(p[0]), tfb.Permute([2, 1, 0]), _coupling(p[1])]), weights
    )
    state = _state(num_chains=7)
    for num_leapfrog_steps in (1, 2):
        kernel = _kernel(flow, num_leapfrog_steps)
        step = tf.function(kernel.one_step, jit_compile=True, autograph=False)
        arguments = state, kernel.bootstrap_results(state), tf.constant([1, 2])
        if num_leapfrog_steps == 1:
            step.get_concrete_function(*arguments)
            continue
        with pytest.raises(Exception, match='no entry for: XlaDynamicUpdateSlice'):
            step.get_concrete_function(*arguments)
