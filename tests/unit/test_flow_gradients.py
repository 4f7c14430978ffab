"""kernels.flow_gradients: moves through a flow, against linear families and brute force."""

import numpy as np
import pytest
import tensorflow as tf

from tests.unit import flows, problems
from tests.unit.flows import ALL, CHAINS, SIZE, STEP_SIZE, WELL
from tfp_adaptive import entropy, objectives, preconditioners, proposals
from tfp_adaptive.kernels import flow_gradients
from tfp_adaptive.kernels.geometry import make_geometry, make_move
from tfp_adaptive.typing import Event, Objective

CURVED = Objective(
    lambda energy, start, end, *_: tf.exp(-0.2 * energy) + tf.norm(end - start, axis=-1)
)
"""Reads the energy and the end point of every chain, and never stops sloping."""


def assert_close(actual, expected, rtol=1e-12, atol=1e-12):
    for a, e in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, e, rtol=rtol, atol=atol)


@pytest.fixture
def setting(rng):
    return flows.setting(rng)


@pytest.fixture
def curved(rng):
    return flows.random_real_nvp(rng)


# --- a linear flow is a linear preconditioner ----------------------------------------------------


def _learned_from_one_step(geometry, parameters, setting, stateless_seed, noise=None):
    """All that the core step asks of a geometry, by name."""
    target, state, velocity = setting

    def learn():
        return geometry.differentiable_move(
            target, parameters, STEP_SIZE, state, velocity if noise is None else noise, ()
        )

    move, slopes = learn()
    roulette = entropy.russian_roulette(2)
    where = (
        *(target, parameters, STEP_SIZE),
        *(move.midpoint, move.midpoint_score, move.curvature),
    )
    estimate = roulette.estimate(
        geometry.residual(*where),
        geometry.probe,
        roulette.draw(stateless_seed(1), CHAINS, SIZE, tf.float64),
        tf.constant(1e2, tf.float64),
        tf.constant(True),
    )
    energy, _ = geometry.gradient(slopes, ALL, where, estimate, 0.0)
    both, _ = geometry.gradient(learn()[1], ALL, where, estimate, 1.0)
    return {
        'energy change': move.energy_change,
        'proposed state': move.proposed,
        'rejected state': move.rejected,
        'midpoint': move.midpoint,
        'midpoint score': move.midpoint_score,
        'energy gradient': energy,
        'entropy gradient': tf.nest.map_structure(tf.subtract, energy, both),
        'log det of I + D': estimate.log_det,
        'spectral radius': estimate.spectral_radius,
        'log det': geometry.log_det(parameters),
        'log det gradient': geometry.log_det_gradient(parameters),
    }


LINEAR = {
    'diagonal': (flows.scaling(), preconditioners.diagonal()),
    'cholesky': (flows.triangle(), preconditioners.cholesky()),
}


def _linear_parameters(family, rng):
    if family == 'diagonal':
        return tf.constant(np.exp(0.3 * rng.normal(size=SIZE)))
    return tf.constant(problems.random_factor(rng, SIZE, scale=1.0))


@pytest.mark.parametrize('family', LINEAR)
@pytest.mark.parametrize('mode', ['fast', 'exact'])
@pytest.mark.parametrize('num_steps', [1, pytest.param(3, marks=pytest.mark.slow), 6])
def test_a_linear_flow_is_a_linear_preconditioner(
    family, mode, num_steps, setting, rng, stateless_seed
):
    parameters = _linear_parameters(family, rng)
    flow, linear = (
        _learned_from_one_step(
            flows.geometry(preconditioner, num_steps, mode), parameters, setting, stateless_seed
        )
        for preconditioner in LINEAR[family]
    )
    for name, expected in linear.items():
        tf.nest.map_structure(
            lambda a, e, name=name: np.testing.assert_allclose(
                a, e, rtol=1e-12, atol=1e-12, err_msg=name
            ),
            flow[name],
            expected,
        )
    assert np.max(np.abs(linear['entropy gradient'])) > 1e-3 or num_steps == 1


@pytest.mark.parametrize('mode', ['fast', 'exact'])
def test_with_a_velocity_that_is_kept_and_a_random_length(mode, setting, rng, stateless_seed):
    target, state, velocity = setting
    state = state._replace(velocity=tf.constant(rng.normal(size=velocity.shape)))
    parameters = _linear_parameters('diagonal', rng)
    proposal = proposals.leapfrog([1, 3], momentum_refreshment=0.3)
    noise = proposal.draw(stateless_seed(2), CHAINS, SIZE, tf.float64)._replace(
        num_steps=tf.constant(3)
    )
    both = [
        _learned_from_one_step(
            make_geometry(Event((SIZE,), (0,)), proposal, family, CURVED, mode),
            parameters,
            (target, state, None),
            stateless_seed,
            noise,
        )
        for family in LINEAR['diagonal']
    ]
    assert_close(*both)
    assert both[0]['rejected state'].velocity.shape == [CHAINS, SIZE]


@pytest.mark.parametrize('family', LINEAR)
def test_a_frozen_linear_flow_makes_the_same_moves(family, setting, rng):
    target, state, velocity = setting
    parameters = _linear_parameters(family, rng)
    flow, linear = (
        make_move(target.event, proposals.leapfrog(3), preconditioner)(
            target, parameters, STEP_SIZE, state, velocity
        )
        for preconditioner in LINEAR[family]
    )
    assert_close(flow.proposed, linear.proposed)
    assert_close(flow.energy_change, linear.energy_change)


# --- a curved flow: the move ---------------------------------------------------------------------


def _frozen_move(curved, setting, num_steps, velocity=None):
    flow, parameters = curved
    target, state, noise = setting
    move = make_move(target.event, proposals.leapfrog(num_steps), flow)
    return move(target, parameters, STEP_SIZE, state, noise if velocity is None else velocity)


@pytest.mark.parametrize('num_steps', [1, 2, 5, 6])
def test_the_move_is_leapfrog_on_the_pulled_back_density(num_steps, curved, setting):
    flow, parameters = curved
    _, state, velocity = setting
    move = _frozen_move(curved, setting, num_steps)
    brute_force = flows.PulledBack(flow, parameters)
    start = flow.inverse(parameters, state.position).numpy()
    for c in range(CHAINS):
        twin = brute_force.trajectory(start[c], velocity[c].numpy(), num_steps)

        def position(z):
            return flow.forward(parameters, tf.constant(z[np.newaxis]))[0][0]

        assert_close(move.proposed.position[c], position(twin.positions[-1]), atol=1e-10)
        middle = position(twin.positions[num_steps // 2])
        assert_close(move.midpoint[c], middle, atol=1e-10)
        assert_close(move.midpoint_score[c], -WELL.gradient(middle.numpy()), atol=1e-9)
        assert_close(move.energy_change[c], twin.energy_change, atol=1e-10)
        assert_close(move.trajectory.end_velocity[c], twin.momentum, atol=1e-10)
        end = flow.forward(parameters, tf.constant(twin.positions[-1][np.newaxis]))
        assert_close(move.log_volume[c], end[1][0], atol=1e-10)


def test_what_is_carried_is_the_density_of_the_target(curved, setting):
    """Not of the pulled-back one, which the next parameters would make wrong."""
    target = setting[0]
    proposed = _frozen_move(curved, setting, 3).proposed
    value, score = target.value_and_score(proposed.position)
    assert_close(proposed.log_prob, value)
    assert_close(proposed.score, score)


@pytest.mark.parametrize('num_steps', [1, 2, 5])
def test_moves_are_reversible(num_steps, curved, setting):
    """From the proposal, with the end velocity turned round, back to the start."""
    there = _frozen_move(curved, setting, num_steps)
    target, state, velocity = setting
    back_setting = target, there.proposed, -there.trajectory.end_velocity
    back = _frozen_move(curved, back_setting, num_steps)
    assert np.min(np.linalg.norm(there.proposed.position - state.position, axis=-1)) > 0.1
    assert_close(back.proposed, state, rtol=1e-9, atol=1e-9)
    assert_close(back.energy_change, -there.energy_change, rtol=1e-9, atol=1e-9)
    assert_close(back.trajectory.end_velocity, -velocity, rtol=1e-9, atol=1e-9)


def test_moves_keep_volume_on_z(curved, setting):
    """|det d(z', v')/d(z, v)| = 1, so that the energy alone decides on acceptance."""
    flow, parameters = curved
    target, state, velocity = setting
    move = make_move(target.event, proposals.leapfrog(3), flow)

    @tf.function(autograph=False)
    def phase_space(x):
        z, v = tf.split(x, 2, axis=-1)
        start = problems.state_at(target, flow.forward(parameters, z)[0])
        moved = move(target, parameters, STEP_SIZE, start, v)
        end = flow.inverse(parameters, moved.proposed.position)
        return tf.concat([end, moved.trajectory.end_velocity], axis=-1)

    start = tf.concat([flow.inverse(parameters, state.position), velocity], axis=-1)
    steps = 1e-5 * tf.eye(2 * SIZE, dtype=tf.float64)[:, tf.newaxis]
    columns = [(phase_space(start + step) - phase_space(start - step)) / 2e-5 for step in steps]
    jacobian = np.stack(columns, axis=-1)
    assert_close(np.linalg.det(jacobian), np.ones(CHAINS), rtol=1e-7)
    assert np.max(np.abs(jacobian - np.eye(2 * SIZE))) > 0.1


# --- a curved flow: what is learned --------------------------------------------------------------


def test_residual_is_the_hessian_of_the_pulled_back_density(curved, setting, rng):
    flow, parameters = curved
    target, state, _ = setting
    x = tf.constant(rng.normal(size=[CHAINS, SIZE]))
    curvature = tf.constant(-1.5, tf.float64)
    apply = flows.geometry(flow, 3).residual(
        target, parameters, STEP_SIZE, state.position, state.score, curvature
    )
    z = flow.inverse(parameters, state.position)
    hessian = flows.PulledBack(flow, parameters).hessian(z)
    expected = -curvature * STEP_SIZE**2 * tf.linalg.matvec(hessian, x)
    assert_close(apply(x), expected, atol=1e-11)


@pytest.mark.parametrize(
    ('num_steps', 'objective'),
    [
        (3, CURVED),
        (2, objectives.generalized_speed()),
        pytest.param(1, CURVED, marks=pytest.mark.slow),
        pytest.param(5, objectives.generalized_speed(), marks=pytest.mark.slow),
    ],
)
def test_exact_is_the_derivative_of_the_whole_move(num_steps, objective, curved, setting, rng):
    """Against finite differences of moves with other parameters, of loss and log volume."""
    flow, parameters = curved
    target, state, velocity = setting
    geometry = flows.geometry(flow, num_steps, 'exact', objective)
    make = make_move(target.event, proposals.leapfrog(num_steps), flow)
    _, gradients = geometry.differentiable_move(target, parameters, STEP_SIZE, state, velocity, ())

    @tf.function(autograph=False)
    def values(parameters):
        move = make(target, parameters, STEP_SIZE, state, velocity)
        loss = objective.loss(move.energy_change, state.position, move.proposed.position, ())
        volume = move.log_volume - geometry.log_det(parameters)
        return tf.reduce_sum(loss), tf.reduce_sum(volume)

    _check_derivatives(flow, parameters, gradients(ALL), values, rng)


def _check_derivatives(flow, parameters, gradients, values, rng):
    """Every gradient along a random direction of every leaf, against finite differences."""
    for direction in flows.random_directions(rng, parameters):
        expected = flows.along(flow, parameters, direction, values)
        actual = [flows.inner(gradient, direction) for gradient in gradients]
        assert_close(actual, list(expected), rtol=1e-6, atol=1e-7)


class _HeldMove:
    """The move with what a fast gradient holds held: every z inside a slope, every gradient of U.

    Built from plain steps; what is held is taken from a trajectory with the parameters themselves,
    and derivatives are finite differences of a move with other parameters.
    """

    def __init__(self, flow, parameters, setting, num_steps):
        self._flow, self._setting, self._num_steps = flow, setting, num_steps
        _, state, velocity = setting
        brute_force = flows.PulledBack(flow, parameters)
        start = flow.inverse(parameters, state.position).numpy()
        paths = [
            brute_force.trajectory(start[c], velocity[c].numpy(), num_steps).positions
            for c in range(CHAINS)
        ]
        self._held_z = tf.unstack(tf.constant(np.array(paths)), axis=1)
        self._held_q = [flow.forward(parameters, z)[0] for z in self._held_z]
        self._held_score = [
            tf.constant([-WELL.gradient(q) for q in held.numpy()]) for held in self._held_q
        ]

    def _slope(self, parameters, step):
        """J^T grad log pi + grad log|det J|, of other parameters at the z held."""
        z, score = self._held_z[step], self._held_score[step]
        with tf.GradientTape() as tape:
            tape.watch(z)
            q, log_det = self._flow.forward(parameters, z)
            value = tf.reduce_sum(score * q, axis=-1) + log_det
        return tape.gradient(value, z)

    def __call__(self, parameters):
        """(energy change up to a constant, end point, log volume)."""
        _, state, velocity = self._setting
        h, v = STEP_SIZE, velocity
        first = z = self._flow.inverse(parameters, state.position)
        for step in range(self._num_steps):
            v = v + h / 2 * self._slope(parameters, step)
            z = z + h * v
            v = v + h / 2 * self._slope(parameters, step + 1)
        q, log_det = self._flow.forward(parameters, z)
        log_prob = tf.reduce_sum(self._held_score[-1] * (q - self._held_q[-1]), axis=-1)
        kinetic = (tf.reduce_sum(v**2, -1) - tf.reduce_sum(velocity**2, -1)) / 2
        return self._flow.forward(parameters, first)[1] - log_prob - log_det + kinetic, q, log_det


@pytest.mark.parametrize('num_steps', [1, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_fast_is_the_derivative_with_scores_and_their_places_held(num_steps, curved, setting, rng):
    flow, parameters = curved
    target, state, velocity = setting
    geometry = flows.geometry(flow, num_steps, 'fast', CURVED)
    move, gradients = geometry.differentiable_move(
        target, parameters, STEP_SIZE, state, velocity, ()
    )
    held = _HeldMove(flow, parameters, setting, num_steps)
    # the score of the end was held at its value: its part of the energy change is a constant
    constant = move.energy_change - held(parameters)[0]

    @tf.function(autograph=False)
    def values(parameters):
        energy_change, end, log_det = held(parameters)
        loss = CURVED.loss(constant + energy_change, state.position, end)
        return tf.reduce_sum(loss), tf.reduce_sum(log_det - geometry.log_det(parameters))

    _check_derivatives(flow, parameters, gradients(ALL), values, rng)


def test_fast_and_exact_make_the_same_move_and_differ_in_what_they_learn(curved, setting):
    flow, parameters = curved
    target, state, velocity = setting
    moves, learned = [], []
    for mode in ('fast', 'exact'):
        move, gradients = flows.geometry(flow, 3, mode, CURVED).differentiable_move(
            target, parameters, STEP_SIZE, state, velocity, ()
        )
        moves.append(move)
        learned.append(gradients(ALL)[0])
    assert_close(*moves)
    assert_close(moves[0].proposed, _frozen_move(curved, setting, 3).proposed)
    with pytest.raises(AssertionError):
        assert_close(*learned, rtol=1e-2)


def test_log_det_is_what_log_volume_leaves_out(curved, setting, rng):
    """A flow has no log|det| of its own; the one at z = 0 stands for it."""
    flow, parameters = curved
    geometry = flows.geometry(flow, 2)
    origin = tf.zeros([1, SIZE], tf.float64)
    expected = flow.forward(parameters, origin)[1][0]
    assert_close(geometry.log_det(parameters), expected)
    target, state, velocity = setting
    move, _ = geometry.differentiable_move(target, parameters, STEP_SIZE, state, velocity, ())
    frozen = _frozen_move(curved, setting, 2)
    assert_close(move.log_volume + expected, frozen.log_volume)
    gradient = geometry.log_det_gradient(parameters)
    _check_derivatives(flow, parameters, [gradient], lambda p: [geometry.log_det(p)], rng)


# --- entropy -------------------------------------------------------------------------------------


def _dense_residual(flow, parameters, q, curvature):
    """D = kappa h^2 Hessian of U~ at the z that the parameters give q, [C, D, D]."""
    hessian = flows.PulledBack(flow, parameters).hessian(flow.inverse(parameters, q))
    return -curvature * STEP_SIZE**2 * hessian


def test_entropy_gradient_is_the_derivative_of_its_forms(curved, setting, rng):
    """sum left^T D right for forms that are given, over chains and both forms of each."""
    flow, parameters = curved
    target, state, _ = setting
    q, curvature = state.position, tf.constant(-1.5, tf.float64)
    forms = rng.normal(size=[2, 2, CHAINS, SIZE])
    roulette = entropy.russian_roulette()
    noise = roulette.draw([1, 2], CHAINS, SIZE, tf.float64)
    geometry = flows.geometry(flow, 3)
    where = (target, parameters, STEP_SIZE, q, state.score, curvature)
    estimate = roulette.estimate(
        geometry.residual(*where), geometry.probe, noise, tf.constant(0.0, tf.float64), True
    )
    stacked = tf.reshape(tf.constant(forms), [2, 2 * CHAINS, SIZE])
    estimate = estimate._replace(forms=type(estimate.forms)(*tf.unstack(stacked)))
    gradient, num_products = flow_gradients.entropy_gradient(flow, where, estimate)
    assert int(num_products) == 4

    @tf.function(autograph=False)
    def value(parameters):
        dense = _dense_residual(flow, parameters, q, curvature)
        return [tf.einsum('fci,cij,fcj->', forms[0], dense, forms[1])]

    _check_derivatives(flow, parameters, [gradient], value, rng)


def test_entropy_gradient_is_unbiased(curved, setting, rng, stateless_seed):
    """Mean over probes and truncations against the dense d log det(I + D), in standard errors."""
    flow, parameters = curved
    _, state, _ = setting
    copies, num_draws = 50, 30
    one = tf.ones([], tf.float64)
    dense = _dense_residual(flow, parameters, state.position, one)
    # neither trivial nor of infinite variance
    curvature = -0.5 * one / np.max(np.abs(np.linalg.eigvalsh(dense)))
    q = tf.repeat(state.position, copies, axis=0)
    geometry = flows.geometry(flow, 3)
    target = problems.packed(WELL.log_prob, q)
    score = target.value_and_score(q)[1]
    where = (target, parameters, STEP_SIZE, q, score, curvature)
    roulette = entropy.russian_roulette(num_exact_terms=1)
    directions = list(flows.random_directions(rng, parameters))

    @tf.function(autograph=False)
    def slopes(seed):
        """Along every direction, from one draw of the truncation."""
        noise = roulette.draw(seed, CHAINS * copies, SIZE, tf.float64)
        no_penalty = tf.constant(0.0, tf.float64)
        estimate = roulette.estimate(
            geometry.residual(*where), geometry.probe, noise, no_penalty, True
        )
        leaves = tf.nest.flatten(flow_gradients.entropy_gradient(flow, where, estimate)[0])
        return [
            tf.add_n(
                [tf.reduce_sum(a * b) for a, b in zip(leaves, tf.nest.flatten(d), strict=True)]
            )
            for d in directions
        ]

    draws = np.array([slopes(stateless_seed(i)) for i in range(num_draws)]) / copies

    @tf.function(autograph=False)
    def log_det(parameters):
        dense = _dense_residual(flow, parameters, state.position, curvature)
        return tf.reduce_sum(tf.linalg.logdet(tf.eye(SIZE, dtype=tf.float64) + dense))

    expected = [flows.along(flow, parameters, direction, log_det) for direction in directions]
    error = draws.std(axis=0, ddof=1) / np.sqrt(num_draws)
    assert np.max(np.abs(draws.mean(axis=0) - expected) / error) < 4
    assert np.max(np.abs(expected) / error) > 10, 'the test could not tell it from zero'


# --- accidents -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('accident', 'speed', 'mode'),
    [
        ('leaves the support', 1e3, 'fast'),
        ('overflows', 1e308, 'exact'),
        pytest.param('leaves the support', 1e3, 'exact', marks=pytest.mark.slow),
        pytest.param('overflows', 1e308, 'fast', marks=pytest.mark.slow),
    ],
)
def test_a_lost_chain_leaves_the_others_their_gradient(mode, accident, speed, curved, setting, rng):
    del accident
    flow, parameters = curved
    _, state, noise = setting
    lost = 1
    others = tf.constant([c != lost for c in range(CHAINS)])

    def inside_a_ball(q):
        return WELL.log_prob(q) + 0.1 * tf.math.log(1e4 - tf.reduce_sum(q**2, axis=-1))

    target = problems.packed(inside_a_ball, state.position)
    state = problems.state_at(target, state.position)
    geometry = flows.geometry(flow, 3, mode, CURVED)

    def move_with(velocity_of_lost_chain):
        velocity = noise.numpy()
        velocity[lost] = velocity_of_lost_chain
        move, gradients = geometry.differentiable_move(
            target, parameters, STEP_SIZE, state, tf.constant(velocity), ()
        )
        return move, gradients(others)

    move, learned = move_with(speed)
    assert not np.isfinite(move.energy_change[lost])
    _, expected = move_with(0)
    assert_close(learned, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize('mode', ['fast', 'exact'])
def test_only_the_chains_in_use_count(mode, curved, setting):
    flow, parameters = curved
    target, state, velocity = setting
    _, gradients = flows.geometry(flow, 2, mode, CURVED).differentiable_move(
        target, parameters, STEP_SIZE, state, velocity, ()
    )
    whole = gradients(ALL)
    masks = [True, False, True, False], [False, True, False, True]
    first, second = (gradients(tf.constant(mask)) for mask in masks)
    assert_close(whole, tf.nest.map_structure(tf.add, first, second))
    with pytest.raises(AssertionError):
        assert_close(first, second, rtol=1e-2)
