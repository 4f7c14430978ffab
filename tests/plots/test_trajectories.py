"""Trajectories are the moves of the frozen kernel, and the contours its target's."""

import dataclasses

import matplotlib as mpl
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.internal import random
from tfp_adaptive.kernels import FrozenKernel
from tfp_adaptive.kernels.geometry import make_move
from tfp_adaptive.plots import motion, packed
from tfp_adaptive.typing import ChainState

NUM_PATHS = 4


def with_kernel(proposal, preconditioner=None, parameters=None, **fields):
    """The Gaussian run as if this kernel had made it."""
    kernel = FrozenKernel(
        runs.gaussian_log_prob,
        proposal,
        preconditioner or tfpa.preconditioners.diagonal(),
        tf.constant([0.4, 0.7]) if parameters is None else parameters,
    )
    return dataclasses.replace(runs.gaussian_run(), frozen_kernel=kernel, **fields)


def starting_points(run, num_paths):
    index = np.linspace(0, runs.NUM_RESULTS * runs.NUM_CHAINS - 1, num_paths).astype(int)
    return run.states.reshape([-1, 2])[index]


def real_nvp():
    flow = tfpa.preconditioners.real_nvp(hidden_sizes=(8,))
    return flow, flow.init(2, tf.float32, tf.constant(0.5))


def proposed(run, proposal, nodes, noise, velocity=()):
    """The move from the first node with this noise, and with the velocity of an earlier move."""
    settings = run.frozen_kernel.parameters
    target, position = motion.make_target(run, 1), tf.constant(nodes[:1])
    state = ChainState(position, *target.value_and_score(position), velocity)
    make = make_move(run.layout.event, proposal, settings['preconditioner'])
    parameters = settings['parameters_of_preconditioner']
    return make(target, parameters, tf.constant(1.0), state, noise)


def seeds_of(index, num_paths, seed=5):
    """Seeds of the first velocity, of the noise and of the coin of a path of one move."""
    return random.split(random.split(tf.constant([seed, 0]), num_paths)[index], 3)


@pytest.mark.parametrize('family', ['diagonal', 'real_nvp'])
def test_a_path_is_a_move(family):
    """Its nodes are the ends of 1, ..., L leapfrog steps, its probability that of the whole."""
    num_steps, num_paths = (3, NUM_PATHS) if family == 'diagonal' else (2, 2)
    flow = real_nvp() if family == 'real_nvp' else ()
    run = with_kernel(tfpa.proposals.leapfrog(num_steps), *flow)
    found = motion.make_paths(run, num_paths, seed=5)
    np.testing.assert_array_equal(
        [path.nodes[0] for path in found], starting_points(run, num_paths)
    )
    for index, path in enumerate(found):
        velocity = random.normal([1, 2], seeds_of(index, num_paths)[1], tf.float32)
        for length in range(1, num_steps + 1):
            move = proposed(run, tfpa.proposals.leapfrog(length), path.nodes, velocity)
            np.testing.assert_allclose(
                path.nodes[length], move.proposed.position[0], rtol=1e-4, atol=1e-5
            )
        probability = np.exp(np.minimum(-move.energy_change, 0))
        np.testing.assert_allclose(path.accept_probs, probability, rtol=1e-3)
        assert path.nodes.shape == (num_steps + 1, 2)
        assert path.curve.shape == (10 * num_steps + 1, 2)
        assert list(path.ends) == [num_steps]


@pytest.mark.parametrize('is_jittered', [False, True])
@pytest.mark.parametrize('name', ['mala', 'hmc', 'random_length', 'momentum', 'walk', 'flow'])
def test_a_path_ends_where_the_move_does(name, is_jittered):
    proposal = {
        'mala': lambda: tfpa.proposals.leapfrog(1),
        'hmc': lambda: tfpa.proposals.leapfrog(3),
        'random_length': lambda: tfpa.proposals.leapfrog([2, 5]),
        'momentum': lambda: tfpa.proposals.leapfrog(3, momentum_refreshment=0.5),
        'walk': tfpa.proposals.random_walk,
        'flow': lambda: tfpa.proposals.leapfrog(1),
    }[name]()
    if is_jittered:
        proposal = tfpa.tuning.jittered(tfpa.tuning.jittered(proposal, 0.9), 0.5)
    run = with_kernel(proposal, *(real_nvp() if name == 'flow' else ()))
    for index, path in enumerate(motion.make_paths(run, 2, seed=5)):
        velocity_seed, noise_seed, _ = seeds_of(index, 2)
        kept = random.normal([1, 2], velocity_seed, tf.float32) if proposal.uses_velocity else ()
        noise = proposal.draw(noise_seed, 1, 2, tf.float32)
        move = proposed(run, proposal, path.nodes, noise, kept)
        end = move.proposed.position[0]
        np.testing.assert_allclose(path.nodes[-1], end, rtol=1e-4, atol=1e-5)
        # steps ten times finer go the same way
        drift = np.linalg.norm(path.curve[-1] - end)
        assert drift < 0.5 * np.linalg.norm(end - path.nodes[0])


def test_the_curve_is_the_hamiltonian_flow():
    """Steps that are small already are hardly changed by smaller ones."""
    run = with_kernel(tfpa.proposals.leapfrog(2), parameters=tf.constant([0.01, 0.02]))
    for path in motion.make_paths(run, NUM_PATHS, seed=0):
        np.testing.assert_allclose(path.curve[::10], path.nodes, atol=1e-4)
        assert path.accept_probs[0] > 0.99
        assert path.is_accepted


def test_lengths_are_those_of_the_proposal():
    run = with_kernel(tfpa.proposals.leapfrog([2, 5]))
    assert {path.ends[0] for path in motion.make_paths(run, 6, seed=0)} == {2, 5}


def test_a_kept_velocity_joins_moves():
    """With hardly any refreshment the moves follow one long path of the flow."""
    proposal = tfpa.proposals.leapfrog(1, momentum_refreshment=1e-6)
    run = with_kernel(proposal, parameters=tf.constant([0.1, 0.2]))
    for path in motion.make_paths(run, NUM_PATHS, seed=0, num_moves=6):
        assert list(path.ends) == list(range(1, len(path.ends) + 1))
        assert path.curve.shape == (12 * len(path.ends) - 1, 2)
        assert np.isnan(path.curve[11::12]).all()
        if len(path.ends) < 3:
            continue
        steps = np.diff(path.nodes, axis=0)
        turns = steps[1:] - steps[:-1]
        assert np.linalg.norm(turns, axis=1).max() < 0.5 * np.linalg.norm(steps, axis=1).max()


def test_a_path_ends_at_its_first_rejection():
    bold = with_kernel(tfpa.proposals.leapfrog(1, 0.5), parameters=tf.constant([1.0, 2.0]))
    found = motion.make_paths(bold, 20, seed=0, num_moves=5)
    assert {len(path.ends) for path in found} > {1, 2}
    assert not any(path.is_accepted for path in found if len(path.ends) < 5)
    # as many as the probabilities foretell
    expected = [p for path in found for p in path.accept_probs]
    accepted = sum(len(path.ends) - 1 + path.is_accepted for path in found)
    error = np.sqrt(np.sum(np.multiply(expected, 1 - np.array(expected))))
    assert abs(accepted - np.sum(expected)) < 4 * error


def test_a_random_walk_moves_in_straight_lines():
    run = with_kernel(tfpa.proposals.random_walk())
    for path in motion.make_paths(run, NUM_PATHS, seed=0):
        np.testing.assert_array_equal(path.nodes, path.curve)
        assert path.nodes.shape == (2, 2)
        log_prob = runs.gaussian_log_prob(tf.constant(path.nodes)).numpy()
        expected = np.exp(min(log_prob[1] - log_prob[0], 0))
        assert path.accept_probs[0] == pytest.approx(expected, rel=1e-3)


def test_a_seed_is_a_picture():
    run = runs.gaussian_run()
    first, again, other = (motion.make_paths(run, 2, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[0].nodes, again[0].nodes)
    assert not np.array_equal(first[0].nodes, other[0].nodes)


def test_it_draws_every_path_and_the_density():
    run = runs.gaussian_run()
    figure = tfpa.plots.trajectories(run, num_trajectories=NUM_PATHS)
    (ax,) = figure.axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ('x[0]', 'x[1]')
    drawn = [line.get_xydata() for line in ax.lines]
    for path in motion.make_paths(run, NUM_PATHS, seed=0):
        assert any(np.array_equal(path.nodes, points) for points in drawn)
        assert any(np.array_equal(path.curve, points) for points in drawn)
    filled, contours = ax.collections
    levels = np.quantile(run.statistics.log_prob, [0.01, 0.1, 0.3, 0.5, 0.7, 0.9])
    np.testing.assert_allclose(contours.levels, levels, rtol=1e-5)
    # the edge of the region that holds 90 % of a Gaussian is where -2 log p is 4.6
    edge = np.concatenate([path.vertices for path in contours.get_paths()[1:2]])
    np.testing.assert_allclose(
        runs.gaussian_log_prob(tf.constant(edge)), levels[1], atol=0.05 * abs(levels[1])
    )
    assert len(filled.levels) == len(levels) + 1


def test_coordinates_can_be_swapped():
    run = runs.gaussian_run()
    straight = tfpa.plots.trajectories(run, num_trajectories=2).axes[0]
    swapped = tfpa.plots.trajectories(run, ('x[1]', 'x[0]'), num_trajectories=2).axes[0]
    assert swapped.get_xlabel() == 'x[1]'
    np.testing.assert_array_equal(
        straight.lines[0].get_xydata(), swapped.lines[0].get_xydata()[:, ::-1]
    )
    edges = [ax.collections[1].get_paths()[0].vertices for ax in (straight, swapped)]
    np.testing.assert_allclose(edges[0].max(axis=0), edges[1].max(axis=0)[::-1], rtol=0.05)


def test_more_dimensions_are_projected():
    def log_prob(x, y):
        return runs.gaussian_log_prob(x) - y**2 / 2

    run = tfpa.sample(
        log_prob,
        30,
        0,
        initial_state=[tf.zeros([3, 2]), tf.zeros([3])],
        kernel=tfpa.GradientAdaptiveMALA,
        seed=(0, 1),
        progress=False,
        jit_compile=False,
    )
    ax = tfpa.plots.trajectories(run, ('x1', 'x0[1]'), num_trajectories=2).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ('x1', 'x0[1]')
    path = motion.make_paths(run, 2, seed=0)[0]
    assert path.nodes.shape == (2, 3)
    assert any(np.array_equal(path.nodes[:, [2, 1]], line.get_xydata()) for line in ax.lines)
    (cloud,) = ax.collections
    assert cloud.get_array().sum() == run.states[1].size
    np.testing.assert_array_equal(
        packed.columns(run, [2, 1]), [run.states[1], run.states[0][..., 1]]
    )


def test_a_density_of_one_chain_alone():
    """One that sums over all it is given, as a run without chain dimensions allows."""
    run = tfpa.sample(
        lambda x: -tf.reduce_sum(x**2) / 2,
        20,
        0,
        initial_state=tf.zeros([2]),
        kernel=tfpa.GradientAdaptiveMALA,
        seed=(0, 1),
        progress=False,
        jit_compile=False,
    )
    values = motion.make_target(run, 3).value(tf.constant([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]))
    np.testing.assert_allclose(values, [0, -0.5, -2.5])
    assert tfpa.plots.trajectories(run, num_trajectories=2).axes


def test_free_coordinates_of_a_bounded_model_say_so():
    run = runs.gaussian_run()
    bounded = dataclasses.replace(run, states=np.exp(run.states), unconstrained_states=run.states)
    ax = tfpa.plots.trajectories(bounded, num_trajectories=2).axes[0]
    assert ax.get_xlabel() == 'x[0] (unconstrained)'
    same = dataclasses.replace(run, unconstrained_states=run.states)
    assert tfpa.plots.trajectories(same, num_trajectories=2).axes[0].get_xlabel() == 'x[0]'


def test_it_draws_into_given_axes():
    figure, (left, right) = mpl.pyplot.subplots(1, 2)
    assert tfpa.plots.trajectories(runs.gaussian_run(), num_trajectories=2, ax=right) is figure
    assert right.has_data()
    assert not left.has_data()


def test_misuse():
    run = runs.gaussian_run()
    with pytest.raises(ValueError, match=r"such as 'x\[0\]'; got \['x\[7\]'\]"):
        tfpa.plots.trajectories(run, ('x[0]', 'x[7]'))
    for one in (('x[0]',), 'x[0]'):
        with pytest.raises(ValueError, match=r"`coordinates` must be two labels; got \['x\[0\]'\]"):
            tfpa.plots.trajectories(run, one)
    foreign = dataclasses.replace(
        run, frozen_kernel=tfp.mcmc.RandomWalkMetropolis(runs.gaussian_log_prob)
    )
    with pytest.raises(ValueError, match='`run` has no trajectories to show'):
        tfpa.plots.trajectories(foreign)
    for name in ('num_trajectories', 'num_moves'):
        with pytest.raises(ValueError, match=f'`{name}` must be at least 1; got 0'):
            tfpa.plots.trajectories(run, **{name: 0})


@pytest.mark.parametrize('width', [0, 0.5])
def test_moves_with_a_delayed_rejection_are_refused(width):
    run = with_kernel(tfpa.tuning.jittered(tfpa.proposals.delayed_rejection(2), width))
    with pytest.raises(ValueError, match='no single trajectory'):
        tfpa.plots.trajectories(run)


def test_a_kernel_without_parameters_is_refused():
    run = dataclasses.replace(runs.gaussian_run(), frozen_kernel=object())
    with pytest.raises(ValueError, match='can be drawn'):
        tfpa.plots.trajectories(run)
