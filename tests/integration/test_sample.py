"""`sample` as users call it: targets, kernels, seeds, programs that are compiled once."""

import dataclasses
import functools
import gc
import pathlib
import re
import time
import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.contracts.comparisons import assert_identical
from tests.support.statistics import largest_z, moment_z_scores
from tfp_adaptive.sampling.programs import kernel_choice, setups
from tfp_adaptive.sampling.running import arriving, thinning
from tfp_adaptive.tuning import first_metric

tfd, tfmc = tfp.distributions, tfp.mcmc

pytestmark = pytest.mark.filterwarnings('ignore::tfp_adaptive.sampling.SamplingWarning')


def gaussian(q):
    return -tf.reduce_sum(tf.square(q), axis=-1) / 2


def make_hmc(log_prob):
    return tfmc.HamiltonianMonteCarlo(log_prob, step_size=0.3, num_leapfrog_steps=2)


def run(target=gaussian, num_results=30, num_warmup_steps=20, num_chains=None, **settings):
    """A short run, in graph mode: XLA would take seconds to compile what runs for milliseconds."""
    settings = {'seed': 1, 'progress': False, 'jit_compile': False, **settings}
    if not hasattr(target, 'dtype'):
        settings.setdefault('initial_state', tf.zeros([4, 2]))
    return tfpa.sample(target, num_results, num_warmup_steps, num_chains, **settings)


class Counted:
    """A Gaussian that counts how often it is traced, and may change its mind."""

    def __init__(self):
        self.num_traces, self.scale = 0, 1.0

    def __call__(self, q):
        self.num_traces += not tf.executing_eagerly()
        return gaussian(q / self.scale)


# ---- programs are compiled once


@pytest.mark.parametrize(
    'kernel',
    [None, make_hmc, 'lambda'],
    ids=['default', 'function', 'lambda'],
)
def test_second_call_traces_nothing(kernel):
    """Unless there is another number of chains."""
    target = Counted()

    def again(**settings):
        fresh = (lambda p: make_hmc(p)) if kernel == 'lambda' else kernel
        return run(target, kernel=fresh, **settings)

    first = again()
    traced = target.num_traces
    assert traced > 0
    assert_identical(first.states, again().states)
    other = again(num_results=50, seed=2, initial_state=tf.ones([4, 2]))
    assert not np.array_equal(first.states, other.states[:30])
    assert target.num_traces == traced
    if kernel is make_hmc:
        again(initial_state=tf.zeros([5, 2]))
        assert target.num_traces > traced


def test_a_warm_up_of_another_length_traces_nothing():
    """The length is an argument of the program: 20 steps after 40 are those of a fresh target."""
    target = Counted()

    def with_steps(num_warmup_steps, target=target):
        return run(target, num_warmup_steps=num_warmup_steps, kernel=tfpa.GradientAdaptiveMALA)

    longer = with_steps(np.int64(40))
    traced = target.num_traces
    shorter = with_steps(20)
    assert target.num_traces == traced
    other = Counted()
    assert_identical(shorter.states, with_steps(20, other).states)
    assert_identical(longer.states, with_steps(40, other).states)
    assert [each.kernel.num_adaptation_steps for each in (longer, shorter)] == [40, 20]
    assert len(shorter.warmup_trace.accept_prob) == 20
    assert not np.array_equal(longer.states, shorter.states)


def test_counts_of_numpy():
    """Also of a kernel that is told when to stop adapting."""
    count = np.int64(10)
    make = functools.partial(tfpa.AdaptiveMetropolis, num_adaptation_steps=count)
    found = run(num_results=count, num_warmup_steps=2 * count, num_chains=None, kernel=make)
    assert found.states.shape == (10, 4, 2)
    assert found.kernel.num_adaptation_steps == 10


class _OfItsOwn(tfpa.AdaptiveMetropolis):
    """A user's subclass, whose constructor is not its parent's."""

    def __init__(self, log_prob, length):
        super().__init__(log_prob, length)


def test_a_subclass_with_a_constructor_of_its_own():
    found = run(kernel=lambda log_prob: _OfItsOwn(log_prob, 20))
    assert found.kernel.num_adaptation_steps == 20


def test_programs_are_those_of_the_settings():
    target = Counted()
    states = [
        run(
            target,
            kernel=functools.partial(tfmc.RandomWalkMetropolis, new_state_fn=move),
            num_steps_between_results=0,
        ).states
        for move in (tfmc.random_walk_normal_fn(0.01), tfmc.random_walk_normal_fn(0.1), None)
    ]
    step = [np.abs(np.diff(draws, axis=0)).mean() for draws in states]
    assert 5 * step[0] < step[1] < step[2] / 2


def test_a_target_that_has_changed_is_compiled_anew():
    target = Counted()
    settings = {'num_results': 300, 'num_warmup_steps': 0, 'kernel': make_hmc}
    settings |= {'num_steps_between_results': 0}
    narrow = run(target, **settings)
    target.scale = 100.0
    wide = run(target, **settings)
    assert wide.states.std() > 2 * narrow.states.std()


@pytest.mark.parametrize(
    'kernel',
    [
        pytest.param(make_hmc, id='HMC'),
        pytest.param(tfpa.WindowedNUTS, marks=pytest.mark.slow, id='NUTS'),
    ],
)
def test_programs_die_with_their_target(kernel):
    target = Counted()
    run(target, num_warmup_steps=0, kernel=kernel)
    reference = weakref.ref(target)
    del target
    gc.collect()
    assert reference() is None


WALL = 60.0


def within_the_wall(q):
    inside = tf.reduce_all(tf.abs(q) < WALL, axis=-1)
    return tf.where(inside, gaussian(q / 20), -np.inf)


def test_a_wall_far_from_the_start_may_move(monkeypatch):
    """The values near the start are those of before; what the density is made of is not."""
    settings = {'num_results': 200, 'num_warmup_steps': 100, 'kernel': tfpa.AdaptiveMetropolis}
    first = run(within_the_wall, **settings)
    assert np.abs(first.states).max() > 20
    monkeypatch.setitem(globals(), 'WALL', 15.0)
    second = run(within_the_wall, **settings)
    assert np.abs(second.states).max() < 15


@pytest.mark.parametrize(
    'kernel',
    [
        pytest.param(tfpa.WindowedNUTS, marks=pytest.mark.slow, id='NUTS'),
        pytest.param(tfpa.KernelAdaptiveMetropolis, id='kernel adaptive'),
    ],
)
def test_frozen_kernels_share_a_program(kernel, monkeypatch):
    """What they have learned is an argument: draws are those of a fresh target."""
    made = []
    make = setups.make_program
    monkeypatch.setattr(
        setups, 'make_program', lambda *args, **kwargs: made.append(1) or make(*args, **kwargs)
    )
    target = Counted()
    settings = {'kernel': kernel, 'num_steps_between_results': 0}
    run(target, **settings)
    count = len(made)
    other = run(target, seed=2, **settings)
    assert len(made) == count
    assert_identical(other.states, run(Counted(), seed=2, **settings).states)


def test_methods_keep_their_programs():
    class Model:
        num_traces = 0

        def log_prob(self, q):
            self.num_traces += not tf.executing_eagerly()
            return gaussian(q)

    model = Model()
    run(model.log_prob, num_warmup_steps=0, kernel=make_hmc)
    traced = model.num_traces
    run(model.log_prob, num_warmup_steps=0, kernel=make_hmc)
    assert model.num_traces == traced


# ---- draws


def test_draws_do_not_depend_on_the_length_of_the_run():
    target = Counted()
    settings = {'num_warmup_steps': 0, 'kernel': make_hmc}
    long, short = (run(target, num_results=n, **settings) for n in (500, 60))
    assert_identical(long.states[:60], short.states)
    thinned = run(target, num_results=20, num_steps_between_results=2, **settings)
    assert_identical(short.states[2::3], thinned.states)


def test_chains_that_mix_slowly_take_several_steps_a_draw():
    """They go on from the first draws, unless told how many steps to throw away."""
    settings = {
        'kernel': lambda log_prob: tfmc.RandomWalkMetropolis(
            log_prob, tfmc.random_walk_normal_fn(0.2)
        ),
        'num_results': 300,
        'num_warmup_steps': 0,
    }
    target = Counted()
    first = run(target, num_steps_between_results=0, **settings)
    long = run(target, **settings)
    assert first.diagnostics.min_ess < 0.05 * 4 * 300
    assert first.stop_reason == '300 draws per chain, as `num_results` asked.'
    count = int(re.fullmatch(r'300 .* asked, one every (\d+) steps\.', long.stop_reason)[1])
    assert count in (2**power for power in range(1, 7))
    assert long.states.shape == first.states.shape
    assert long.diagnostics.min_ess > 3 * first.diagnostics.min_ess
    assert long.diagnostics.max_rhat < first.diagnostics.max_rhat


def test_steps_that_helped_and_are_not_enough_become_more(monkeypatch):
    """Evaluations of the draws that are thrown away count, too."""
    missing = iter([10.0, 4.0, 1.0])
    monkeypatch.setattr(thinning, 'shortfall', lambda *arguments: next(missing))
    found = run(kernel=tfpa.AdaptiveMetropolis, num_results=20)
    assert 'one every 64 steps' in found.stop_reason
    assert found.diagnostics.num_sampling_evaluations == 20 * (1 + 8 + 64)


def test_steps_that_did_not_help_do_not_become_more(monkeypatch):
    missing = iter([20.0, 12.0, 1.0])
    monkeypatch.setattr(thinning, 'shortfall', lambda *arguments: next(missing))
    found = run(kernel=make_hmc, num_results=20)
    assert 'one every 8 steps' in found.stop_reason


def test_other_moves_are_given_a_second_round(monkeypatch):
    """Draws of moves that were stuck say nothing of those that are tried once more."""
    missing = iter([10.0, 30.0, 20.0])
    monkeypatch.setattr(thinning, 'shortfall', lambda *arguments, **options: next(missing))
    monkeypatch.setattr(thinning, 'are_stuck', lambda *arguments: True)
    found = run(num_results=20, num_warmup_steps=20)
    assert 'one every 64 steps with delayed rejection' in found.stop_reason


@pytest.mark.parametrize(('missing', 'every'), [(10, ', one every 4 steps'), (1.2, '')])
def test_further_draws_take_longer_moves(monkeypatch, missing, every):
    """Half as many, of two or three leapfrog steps instead of one."""
    shortfalls = iter([missing, missing, 1.0, 1.0])
    monkeypatch.setattr(thinning, 'shortfall', lambda *arguments, **options: next(shortfalls))
    monkeypatch.setattr(thinning, 'are_stuck', lambda *arguments: False)
    found = run(num_results=20, num_warmup_steps=20)
    assert found.stop_reason.endswith(f'asked{every}, two or three leapfrog steps a move.')
    assert found.frozen_kernel.parameters['step_size'] == 0.75
    count = 20 * (4 if every else 1)
    gradients = found.diagnostics.num_sampling_gradients - 1 - 20
    assert 2 * count < gradients < 3 * count


def funnel(q):
    """Of nine unknowns whose log-scale is normal with deviation 3."""
    axis, others = q[..., 0], q[..., 1:]
    terms = tf.reduce_sum((others * tf.exp(-axis / 2)[..., tf.newaxis]) ** 2, axis=-1)
    return -(axis**2) / 18 - terms / 2 - others.shape[-1] * axis / 2


def test_chains_that_stay_at_one_point_try_rejected_moves_again(tmp_path, monkeypatch):
    """One step does not suit all places of a funnel; the run can be gone on with, too."""
    monkeypatch.setattr(thinning, 'MAX_DELAYED_STEPS_PER_DRAW', 2)
    settings = {'initial_state': tf.zeros([10]), 'num_chains': 10, 'num_results': 400}
    settings |= {'num_warmup_steps': 99, 'checkpoint': tmp_path / 'run.npz'}
    found = run(funnel, **settings)
    assert found.is_delayed
    assert found.stop_reason.endswith('one every 2 steps with delayed rejection.')
    # three for each step of these draws, and those of the first draws
    assert found.diagnostics.num_sampling_gradients == 3 * 400 * 2 + 400 + 1
    assert any('variance of the log-density' in concern for concern in found.warnings)
    assert not any('too timid' in concern for concern in found.warnings)
    again = run(funnel, **settings)
    assert_identical(again.states, found.states)
    assert again.is_delayed


SIZE = first_metric.MANY_DIMENSIONS


def rotated(size, dtype=tf.float32):
    """A Gaussian whose deviations go from 1 to 1e3 along axes at random, and its covariance."""
    axes, _ = np.linalg.qr(np.random.default_rng(3).normal(size=[size, size]))
    scales = np.geomspace(1, 1e3, size)
    root = tf.constant(axes / scales, dtype)
    return lambda q: gaussian(tf.cast(q, dtype) @ root), axes * scales**2 @ axes.T


one_step = functools.partial(
    tfpa.EntropyAdaptiveHMC, num_leapfrog_steps=1, momentum_refreshment=0.6
)
MANY = {'initial_state': np.ones([10, SIZE], np.float32), 'num_warmup_steps': 500}


def test_many_dimensions_start_from_the_hessian():
    """Five hundred steps of warm-up do not learn a condition number of 1e6."""
    target, covariance = rotated(SIZE)
    found = run(target, num_results=1000, num_steps_between_results=0, **MANY)
    # the arrival takes at most a quarter as many gradients as the warm-up has steps, and four
    # log-densities beside each
    most = 1 + 125 * 5 + 20 + 2 * SIZE // 10 + 2
    assert 500 + 2 * SIZE // 10 < found.diagnostics.num_warmup_gradients <= 500 + most
    ess = found.diagnostics.ess
    assert np.min(ess) > 500
    z, _ = moment_z_scores(found.states, np.zeros(SIZE), np.diag(covariance))
    assert np.abs(z).max() < largest_z(z.size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arriving.first_metric, 'MANY_DIMENSIONS', SIZE + 1)
        before = run(target, num_results=1000, num_steps_between_results=0, **MANY)
    assert np.min(before.diagnostics.ess) < np.min(ess) / 4


@pytest.mark.parametrize('settings', [{}, {'until': tfpa.Until(min_ess=1000, max_steps=3000)}])
def test_longer_moves_where_chains_mix_slowly(tmp_path, settings):
    """As in hundreds of dimensions; the run is gone on with as it began."""
    settings = {**settings, 'checkpoint': tmp_path / 'run.npz', 'num_warmup_steps': 500}
    settings['initial_state'] = np.ones([10, 200], np.float32)
    found = run(num_results=1000, **settings)
    count = len(found.states)
    gradients = found.diagnostics.num_sampling_gradients - 201
    # two or three of every step, at random: five standard deviations
    assert abs(gradients - 2.5 * count) < 5 * np.sqrt(count) / 2
    assert found.has_longer_moves
    np.testing.assert_allclose(found.kernel_results.step_size, 0.75)
    assert found.frozen_kernel.parameters['step_size'] == 0.75
    assert 0.6 < found.diagnostics.accept_prob < 0.9
    z, _ = moment_z_scores(found.states, np.zeros(200), np.ones(200))
    assert np.abs(z).max() < largest_z(z.size)
    again = run(num_results=1000, **settings)
    assert_identical(again.states, found.states)
    assert again.stop_reason == found.stop_reason


def test_a_trial_is_left_out_where_max_steps_have_no_room_for_it():
    settings = {'num_warmup_steps': 500, 'initial_state': np.ones([10, 200], np.float32)}
    until = tfpa.Until(min_ess=1e6, max_steps=1199)
    found = run(num_results=1000, until=until, **settings)
    assert len(found.states) == 1199
    assert found.diagnostics.num_sampling_gradients == 1 + 1199
    assert not found.has_longer_moves


def test_chains_that_mix_fast_go_on_as_they_have_learned():
    """The draws of the trial are the first of the run."""
    found = run(num_results=300, **MANY)
    assert not found.has_longer_moves
    assert found.diagnostics.num_sampling_gradients == 1 + 300


@pytest.mark.parametrize(
    'settings', [{'num_warmup_steps': 499}, {'kernel': one_step}, {'num_results': 199}]
)
def test_no_trial(settings):
    """Of short runs, and of kernels that were asked for."""
    settings = {'num_results': 200, 'num_steps_between_results': 0, **MANY, **settings}
    settings['initial_state'] = np.ones([10, 200], np.float32)
    found = run(**settings)
    assert found.diagnostics.num_sampling_gradients == 1 + settings['num_results']


def test_a_density_without_second_derivatives_has_no_hessian():
    def incomplete_gamma(q):
        return gaussian(q) + tf.reduce_sum(tf.math.igamma(1 + q**2, 1.0), axis=-1)

    found = run(incomplete_gamma, num_results=20, **MANY)
    assert found.diagnostics.num_warmup_gradients < 700
    assert not found.diagnostics.num_divergences


@pytest.mark.parametrize('num_chains', [3, 10])
def test_a_place_without_curvature(num_chains):
    """At the mean of the chains, where the density is the highest, the Hessian is next to zero."""
    settings = {**MANY, 'initial_state': np.ones([num_chains, SIZE], np.float32)}
    found = run(lambda q: -tf.reduce_sum(q**4, axis=-1) / 4, num_results=300, **settings)
    assert found.warmup_trace.accept_prob[100:200].mean() > 0.5
    assert 0.5 < found.diagnostics.accept_prob < 0.95


def test_the_trial_is_among_the_most_steps():
    settings = {**MANY, 'initial_state': np.ones([10, 200], np.float32)}
    until = tfpa.Until(min_ess=1e6, max_steps=700)
    found = run(num_results=200, until=until, **settings)
    assert found.has_longer_moves
    assert len(found.states) == 700 - 200


def test_the_default_kernel():
    settings = kernel_choice.default_kernel()(gaussian, num_adaptation_steps=1).parameters
    assert settings['num_leapfrog_steps'] == 1
    assert settings['momentum_refreshment'] == 0.6


def test_chains_without_a_finite_start_begin_where_others_do():
    """Two of five begin at one of the other starts; each chain goes on from there by itself."""

    def half_line(q):
        return tf.where(q[..., 0] > 0, gaussian(q), -np.inf)

    starts = np.array([[-1.0, 0.0], [1, 0], [2, 0], [-2, 0], [3, 0]], np.float32)
    settings = {'num_warmup_steps': 0, 'num_results': 200, 'kernel': make_hmc}
    with pytest.warns(tfpa.sampling.SamplingWarning, match='2 of 5 chains were given a start'):
        found = run(half_line, initial_state=starts, **settings)
    assert found.diagnostics.num_moved_starts == 2
    assert any('2 of 5 chains were given a start' in text for text in found.warnings)
    assert np.all(found.states[..., 0] > 0)
    # the others start where they did
    first = run(half_line, initial_state=np.abs(starts), **settings)
    assert first.diagnostics.num_moved_starts == 0
    assert_identical(found.states[:, [1, 2, 4]], first.states[:, [1, 2, 4]])
    # and chains that begin together do not stay together
    assert len(np.unique(found.states[-1], axis=0)) == 5


def test_starts_that_rounding_puts_on_a_bound_begin_where_others_do():
    share = tfd.Beta(3.0, 2.0)
    starts = np.array([0.3, 1.0, 0.6], np.float32)
    settings = {'num_warmup_steps': 0, 'num_results': 5, 'kernel': make_hmc}
    with pytest.warns(tfpa.sampling.SamplingWarning, match='1 of 3 chains were given a start'):
        found = run(share, initial_state=starts, **settings)
    assert found.diagnostics.num_moved_starts == 1
    with pytest.raises(ValueError, match='not finite at `initial_state` for 1 of 3'):
        run(gaussian, initial_state=np.array([[0.0], [np.nan], [1]], np.float32), **settings)


def test_starts_that_move_keep_the_parts_of_a_chain_together():
    def density(a, b):
        inside = tf.reduce_all(a > 0, axis=-1) & (b > 0)
        return tf.where(inside, -tf.reduce_sum(a, -1) - b, -np.inf)

    numbers = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    numbers[1, 1] = -5
    state = {'a': np.stack([numbers, 10 * numbers], axis=-1), 'b': 100 * numbers}
    still = functools.partial(tfmc.RandomWalkMetropolis, new_state_fn=lambda parts, seed: parts)
    found = run(density, initial_state=state, kernel=still, num_warmup_steps=0, num_results=1)
    a, b = found.states['a'][0], found.states['b'][0]
    np.testing.assert_array_equal(a[..., 0] * 100, b)
    np.testing.assert_array_equal(a[..., 1] * 10, b)
    assert b.shape == (2, 3)
    assert np.all(b > 0)
    assert np.sum(b != state['b']) == 1


def test_seeds():
    target = Counted()

    def states(seed):
        return run(target, seed=seed, kernel=make_hmc).states

    same = [states(seed) for seed in (7, np.int64(7), (0, 7))]
    assert_identical(same[0], same[1])
    assert_identical(same[0], same[2])
    for other in (8, 7 + 2**32, -7, (1, 7)):
        assert not np.array_equal(same[0], states(other))
    unseeded = [states(None) for _ in range(2)]
    assert not np.array_equal(*unseeded)


def test_warm_up_may_be_left_out():
    start = tf.random.stateless_normal([4, 2], [0, 1])
    short = run(num_warmup_steps=0, kernel=make_hmc, initial_state=start)
    chain = tfmc.HamiltonianMonteCarlo(gaussian, 0.3, 2)
    assert short.states.shape == (30, 4, 2)
    assert_identical(short.final_state, short.states[-1])
    assert chain.bootstrap_results(short.final_state).accepted_results is not None


def test_frozen_kernel_goes_on():
    first = run(num_warmup_steps=99, kernel=tfpa.GradientAdaptiveMALA)
    more = run(
        num_results=300,
        kernel=first.frozen_kernel,
        num_warmup_steps=0,
        initial_state=first.final_state,
        seed=3,
    )
    assert more.frozen_kernel is first.frozen_kernel
    # about what was aimed at, 0.55: what was learned is in use
    assert 0.3 < more.diagnostics.accept_prob < 0.8


# ---- models


def test_draws_come_back_in_the_space_of_the_model():
    """Dirichlet prior, multinomial data: the posterior is Dirichlet(alpha + counts)."""
    counts = np.array([3.0, 1.0, 6.0], np.float32)

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        weights = yield tfd.Dirichlet(tf.ones(3), name='weights')
        rate = yield tfd.Gamma(4.0, 2.0, name='rate')
        yield tfd.Multinomial(counts.sum(), probs=weights, name='counts')
        yield tfd.Poisson(rate, name='events')

    found = run(model.experimental_pin(counts=counts, events=5.0), 1000, 0, 8, kernel=make_hmc)
    assert type(found.states).__name__ == 'StructTuple'
    assert found.names == ('weights', 'rate')
    assert found.states.weights.shape == (1000, 8, 3)
    assert [part.shape for part in found.unconstrained_states] == [(1000, 8, 2), (1000, 8)]
    posterior = tfd.Dirichlet(1 + counts)
    draws = [found.states.weights, found.states.rate[..., None]]
    mean = np.concatenate([posterior.mean(), [9 / 3]])
    variance = np.concatenate([posterior.variance(), [9 / 9]])
    z, ess = moment_z_scores(np.concatenate(draws, axis=-1), mean, variance)
    assert ess > 300
    assert np.abs(z).max() < largest_z(z.size)


def test_trace_fn_sees_the_space_of_the_model():
    model = tfd.JointDistributionNamed({'scale': tfd.LogNormal(0.0, 1.0)})
    settings = {'num_warmup_steps': 0, 'kernel': make_hmc}
    found = run(model, trace_fn=lambda state, results: state['scale'], **settings)
    assert_identical(found.trace, found.states['scale'])
    np.testing.assert_allclose(np.log(found.trace), found.unconstrained_states[0], atol=1e-5)


def test_dict_states():
    found = run(
        lambda mu, sigma: gaussian(mu) - tf.square(sigma),
        num_warmup_steps=0,
        initial_state={'sigma': tf.zeros([4]), 'mu': tf.zeros([4, 2])},
        kernel=make_hmc,
    )
    assert found.names == ('mu', 'sigma')
    assert {name: part.shape for name, part in found.states.items()} == {
        'mu': (30, 4, 2),
        'sigma': (30, 4),
    }


def test_xla_compiles_an_auto_batched_model_once():
    """XLA used to take the seed for a compile-time constant there, and to compile in each call.

    So it could with the length of the warm-up.
    """

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mean = yield tfd.Normal(0.0, 5.0, name='mean')
        scale = yield tfd.HalfNormal(5.0, name='scale')
        effects = yield tfd.Sample(tfd.Normal(mean, scale), 3, name='effects')
        yield tfd.Normal(effects, 1.0, name='y')

    target = model.experimental_pin(y=tf.zeros(3))

    def seconds(seed):
        before = time.perf_counter()
        found = run(
            target, 40, 10 * seed, seed=seed, jit_compile=True, kernel=tfpa.GradientAdaptiveMALA
        )
        return time.perf_counter() - before, found.timings

    first, timings = seconds(1)
    assert timings.sampling < timings.compile / 2
    parts = dataclasses.astuple(timings)
    assert min(parts) > 0
    assert sum(parts) <= first
    second, again = seconds(2)
    assert second < timings.compile / 2
    assert again.start < timings.start  # nothing to trace
    assert again.compile == 0


# ---- kernels


class _Wrapped(NamedTuple):
    inner_results: Any
    momentum: tfd.Distribution


class _WithDistribution(tfmc.TransitionKernel):
    """A walk whose results hold a composite tensor, as those of preconditioned HMC do."""

    def __init__(self, log_prob):
        self._inner = tfmc.RandomWalkMetropolis(log_prob)

    @property
    def is_calibrated(self):
        return True

    @property
    def parameters(self):
        return {'inner_kernel': self._inner}

    def bootstrap_results(self, state):
        return _Wrapped(self._inner.bootstrap_results(state), tfd.Normal([0.0, 0.0], 1.0))

    def one_step(self, state, results, seed=None):
        state, inner = self._inner.one_step(state, results.inner_results, seed=seed)
        return state, _Wrapped(inner, results.momentum)


KERNELS = {
    'random walk': tfmc.RandomWalkMetropolis,
    'nuts': lambda p: tfmc.DualAveragingStepSizeAdaptation(tfmc.NoUTurnSampler(p, 0.5), 15),
    'slice': lambda p: tfmc.SliceSampler(p, step_size=1.0, max_doublings=3),
    'replica exchange': lambda p: tfmc.ReplicaExchangeMC(p, [1.0, 0.5], make_hmc),
    'composite results': _WithDistribution,
    'transformed': lambda p: tfmc.TransformedTransitionKernel(
        make_hmc(p), tfp.bijectors.Scale(2.0)
    ),
    'class': tfpa.AdaptiveMetropolis,
}


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == 'nuts' else [], id=name)
        for name in KERNELS
    ],
)
def test_any_kernel(name):
    target = Counted()
    settings = {'num_results': 50, 'num_steps_between_results': 0, 'kernel': KERNELS[name]}
    found = run(target, **settings)
    assert found.states.shape == (50, 4, 2)
    assert found.states.std() > 0.3
    assert found.statistics.log_prob.shape == (50, 4)
    np.testing.assert_allclose(
        found.statistics.log_prob, gaussian(found.states), rtol=1e-4, atol=1e-5
    )
    traced = target.num_traces
    run(target, **settings)
    assert target.num_traces == traced


def test_kernel_made_by_a_class_adapts_for_the_warm_up():
    found = run(num_warmup_steps=37, kernel=tfpa.GradientAdaptiveMALA)
    assert found.kernel.num_adaptation_steps == 37


def test_trace_fn_may_return_numbers():
    found = run(
        num_warmup_steps=0,
        kernel=make_hmc,
        trace_fn=lambda state, results: {'one': 1.0, 'two': 2, 'accepted': results.is_accepted},
    )
    assert (found.trace['one'] == 1.0).all()
    assert found.trace['two'].dtype == np.int32
    assert found.trace['accepted'].shape == (30, 4)


def test_what_xla_cannot_compile():
    """XLA has no determinant on CPUs: the run goes on without XLA, and the next one at once."""

    def target(q):
        return gaussian(q) - tf.linalg.slogdet(tf.eye(2) * (1 + q[..., :1, None] ** 2))[1]

    with pytest.warns(match=r'XLA cannot compile.*jit_compile=False.*Determinant') as caught:
        found = run(target, jit_compile=True, kernel=make_hmc)
    assert {pathlib.Path(warning.filename).name for warning in caught} == {'test_sample.py'}
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        warnings.simplefilter('ignore', tfpa.sampling.SamplingWarning)
        again = run(target, jit_compile=True, kernel=make_hmc)
    np.testing.assert_array_equal(again.states, found.states)
    plain = run(target, jit_compile=False, kernel=make_hmc)
    np.testing.assert_array_equal(plain.states, found.states)
