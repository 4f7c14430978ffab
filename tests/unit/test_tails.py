"""sampling.findings.tails: shapes of known tails, and which runs are warned of."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.sampling import SamplingWarning, coordinates
from tfp_adaptive.sampling.findings import tails

NUM_RESULTS, NUM_CHAINS = 1000, 10


def student_score(x, degrees):
    return -(degrees + 1) * x / (degrees + x**2)


def tail_of(draws, score, batch_rank=1):
    """The heaviest tail of one part whose log-density has this derivative."""
    return tails.heaviest_tail([draws], ['x'], batch_rank, lambda parts: [score(*parts)])


@pytest.mark.parametrize(
    ('degrees', 'least', 'most'), [(1, 0.7, 1.5), (2, 0.45, 0.7), (3, 0.27, 0.36), (5, 0.08, 0.15)]
)
def test_shape_of_a_known_tail(degrees, least, most, rng):
    """The true one is one over the degrees of freedom; draws are not so far out that it is met."""
    score = functools.partial(student_score, degrees=degrees)
    found = [
        tail_of(rng.standard_t(degrees, size=[NUM_RESULTS, NUM_CHAINS]), score) for _ in range(20)
    ]
    shapes, errors = np.array([(tail.shape, tail.error) for tail in found]).T
    assert least < np.mean(shapes) < most
    # of the larger of two sides, whose deviation is 0.83 of that of one
    assert np.std(shapes) < 1.5 * np.mean(errors)
    is_told = shapes > tails._MAX_SHAPE + tails._Z * errors
    assert is_told.all() if degrees <= 3 else is_told.mean() < 0.2


def warning_of(states, score):
    run = runs.run_of_draws(states, heaviest_tail=tail_of(states, score))
    return [sentence for sentence in run.warnings if 'power law' in sentence]


def test_heavy_tails_of_one_coordinate_are_told(rng):
    """Among others, in raw units, and where its conditional score varies with the others."""
    size = [NUM_RESULTS, NUM_CHAINS]
    states = rng.normal(size=[*size, 5])
    states[..., 3] = 1000 + 7 * rng.standard_t(3, size=size)
    states[..., 1] += (states[..., 3] - 1000) / 70

    def score(x):
        own = (x[..., 3] - 1000) / 7
        residual = x[..., 1] - own / 10
        scores = -np.array(x)
        scores[..., 1] = -residual
        scores[..., 3] = (student_score(own, 3) + residual / 10) / 7
        return scores

    (sentence,) = warning_of(states, score)
    assert sentence.startswith('The tails of x[3] fall off like a power law of shape 0.')


LIGHT = {
    'normal': lambda x: -x,
    'laplace': lambda x: -np.sign(x),
    'gumbel': lambda x: np.exp(-x) - 1,
    'logistic': lambda x: -np.tanh(x / 2),
}


@pytest.mark.parametrize('name', LIGHT)
@pytest.mark.parametrize('num_results', [200, NUM_RESULTS])
def test_light_tails_are_not(name, num_results, rng, monkeypatch):
    """Forty runs of each, whatever the kurtosis; under two false alarms in a hundred are asked."""
    monkeypatch.setattr(tails, '_KURTOSIS', 0.0)
    draw = getattr(rng, name)
    for _ in range(40):
        assert not warning_of(draw(size=[num_results, NUM_CHAINS, 5]), LIGHT[name])


def test_nor_are_those_of_a_banana(rng):
    """Its second coordinate is the square of a normal, with the noise of its conditional score."""
    told = 0
    for _ in range(40):
        first = rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
        second = rng.normal(size=first.shape) + 1 - first**2

        def score(x):
            residual = x[..., 1] - 1 + x[..., 0] ** 2
            return np.stack([-x[..., 0] - 2 * x[..., 0] * residual, -residual], axis=-1)

        told += bool(warning_of(np.stack([first, second], axis=-1), score))
    assert told == 0


def test_a_light_coordinate_hides_no_heavy_one(rng):
    """The square of a normal has a kurtosis of 15, a Student-t with six degrees one of 6."""
    square = rng.normal(size=[NUM_RESULTS, NUM_CHAINS]) ** 2
    heavy = rng.standard_t(6, size=square.shape)

    def score(x):
        return np.stack([-0.5 / x[..., 0] - 0.5, student_score(x[..., 1], 6)], axis=-1)

    assert tail_of(np.stack([square, heavy], axis=-1), score).name == 'x[1]'


def test_where_scores_do_not_tell(rng):
    heavy = rng.standard_t(2, size=[NUM_RESULTS, NUM_CHAINS])
    assert tail_of(heavy, functools.partial(student_score, degrees=2)) is not None
    assert tail_of(heavy, lambda x: np.full_like(x, np.nan)) is None
    assert tail_of(heavy, np.zeros_like) is None
    assert tail_of(heavy[:50], functools.partial(student_score, degrees=2)) is None
    assert tail_of(np.ones([500, 10, 2]), np.zeros_like) is None


@pytest.mark.parametrize('num_chains', [1, 4, 400])
def test_so_many_gradients_it_takes(num_chains, rng):
    """In calls of all chains: 32 for each half of either tail, or as many as 256 draws need."""
    calls = []

    def score(x):
        calls.append(x.shape)
        return student_score(x, 3)

    tail_of(rng.standard_t(3, size=[40_000 // num_chains, num_chains]), score)
    assert set(calls) == {(num_chains,)}
    assert 1 < len(calls) <= 128


@pytest.mark.parametrize('batch_shape', [(), (3,), (2, 2)])
def test_parts_and_chains_of_any_shape(batch_shape, rng):
    """The derivative is asked for at states of the shape of the chains, and of all parts."""
    size = [2000, *batch_shape]
    parts = [rng.normal(size=[*size, 3]), rng.standard_t(2, size=[*size, 2, 2])]

    def score(states):
        assert [x.shape for x in states] == [(*batch_shape, 3), (*batch_shape, 2, 2)]
        return [-states[0], student_score(states[1], 2)]

    tail = tails.heaviest_tail(parts, ['a', 'b'], len(batch_shape), score)
    assert tail.name.startswith('b[')
    assert tail.shape > 0.2


def test_the_logarithm_of_a_scale_may_go_far_down(rng):
    """Heavy tails of a coordinate of the model count; those that its bijector brings in do not."""
    draws = -np.abs(rng.standard_t(2, size=[NUM_RESULTS, NUM_CHAINS, 2]))
    own = np.stack([np.exp(draws[..., 0]), 2 * draws[..., 1]], axis=-1)

    def score(parts):
        return [student_score(parts[0], 2)]

    assert tails.heaviest_tail([draws[..., :1]], ['x'], 1, score) is not None
    assert tails.heaviest_tail([draws[..., :1]], ['x'], 1, score, [own[..., :1]]) is None
    assert tails.heaviest_tail([draws], ['x'], 1, score, [own]).name == 'x[1]'
    # powers may overflow, of a coordinate that is finite itself
    far = np.where(np.abs(draws) > 5, 1e200, 1.0) * draws
    assert tails.heaviest_tail([draws], ['x'], 1, score, [far]) is not None
    # a part of another shape counts as a whole, without constants
    others = np.stack([own[..., 0], np.ones_like(own[..., 0]), own[..., 1]], axis=-1)
    light, heavy = others[..., [0, 1, 0]], others[..., [1, 2, 2]]
    assert tails.heaviest_tail([draws], ['x'], 1, score, [light]) is None
    assert tails.heaviest_tail([draws], ['x'], 1, score, [heavy]) is not None
    assert tails.heaviest_tail([draws], ['x'], 1, score, [np.ones_like(others)]) is None


def test_a_tail_that_gets_lighter_is_no_power_law(rng):
    """A log-scale that data bound from above, and a normal prior far below: by a grid."""
    x = np.linspace(-9.0, 4.0, 20_001)
    y = 1.5 * np.random.default_rng(1).normal(size=[3, 10])[2]
    variance = 1 + np.exp(2 * x)
    log_density = -(x**2) / 4.5 - 0.5 * np.sum(
        y[:, np.newaxis] ** 2 / variance + np.log(variance), axis=0
    )
    weights = np.exp(log_density - log_density.max())
    slope = np.gradient(log_density, x)
    for _ in range(10):
        draws = rng.choice(x, size=[NUM_RESULTS, NUM_CHAINS], p=weights / weights.sum())
        tail = tail_of(draws, lambda draws: np.interp(draws, x, slope))
        assert tail is None or tail.shape < tails._MAX_SHAPE + tails._Z * tail.error


def test_blocks_change_nothing(rng, monkeypatch):
    draws = rng.standard_t(3, size=[NUM_RESULTS, NUM_CHAINS, 7])
    score = functools.partial(student_score, degrees=3)
    whole = tail_of(draws, score)
    monkeypatch.setattr(coordinates, '_BLOCK_BYTES', 2 * 8 * NUM_RESULTS * NUM_CHAINS)
    assert tail_of(draws, score) == whole


def heavy(x):
    """In one dimension the variance of the log-density does not tell: 1.2, of a Gaussian 0.5."""
    return -2 * tf.math.log1p(x**2 / 3)


def draw(log_prob, num_results=1000, **settings):
    settings |= {'initial_state': tf.linspace(-1.0, 1.0, 10), 'seed': (20260, 1)}
    return tfpa.sample(log_prob, num_results, 200, progress=False, **settings)


def test_sample_tells_heavy_tails():
    with pytest.warns(SamplingWarning, match='The tails of x fall off like a power law'):
        draw(heavy)


def test_bounded_parts_have_no_heavy_tails():
    """Though the tangents of angles, which are free coordinates of correlations, do."""
    target = tfp.distributions.CholeskyLKJ(3, 2.0)
    run = tfpa.sample(target, 4000, 200, seed=1, progress=False)
    assert run.heaviest_tail is None
    free = run.unconstrained_states
    squares = np.square(free - free.mean(axis=(0, 1)))
    assert np.max(np.square(squares).mean(axis=(0, 1)) / squares.mean(axis=(0, 1)) ** 2) > 5
    assert not run.warnings


def test_tails_of_chains_that_have_not_mixed_are_not_judged():
    with pytest.warns(SamplingWarning, match='The effective sample size is below 400'):
        run = draw(heavy, num_results=150, num_steps_between_results=0)
    assert tail_of(run.states, functools.partial(student_score, degrees=3)) is not None
    assert run.heaviest_tail is None


def test_a_density_that_refuses_to_be_taken_far_out_loses_no_draws():
    """XLA leaves assertions out."""

    def log_prob(x):
        with tf.control_dependencies([tf.debugging.assert_less(tf.abs(x), 5.0)]):
            return heavy(tf.identity(x))

    run = draw(log_prob)
    assert np.max(np.abs(run.states)) > 5
    assert run.heaviest_tail is None


def test_a_log_density_that_has_not_mixed(rng):
    good = runs.run_of_draws(rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 2]))
    assert not list(tails.log_density_concerns(good))
    log_prob = rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
    statistics = good.statistics._replace(log_prob=log_prob)
    assert not dataclasses.replace(good, statistics=statistics).warnings
    statistics = good.statistics._replace(log_prob=log_prob + np.arange(NUM_CHAINS) / 5)
    (sentence,) = dataclasses.replace(good, statistics=statistics).warnings
    assert sentence.startswith('The log-density has not mixed (R-hat 1.')


def warnings_of_energy(states, log_prob):
    """With the log-densities [num_results, num_chains] that belong to the draws."""
    run = runs.run_of_draws(states)
    run = dataclasses.replace(run, statistics=run.statistics._replace(log_prob=log_prob))
    return [sentence for sentence in run.warnings if 'E-BFMI' in sentence]


def test_a_funnel_is_told_by_its_log_density(rng):
    """Independent draws of Neal's: a variance of (9 / 2)^2 9 + 9 / 2 + 1 / 2 in ten dimensions."""
    axis = 3 * rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
    others = np.exp(axis / 2)[..., np.newaxis] * rng.normal(size=[*axis.shape, 9])
    terms = (others**2).sum(axis=-1) * np.exp(-axis)
    log_prob = -(axis**2) / 18 - terms / 2 - 9 * axis / 2
    states = np.concatenate([axis[..., np.newaxis], others], axis=-1)
    (sentence,) = warnings_of_energy(states, log_prob)
    variance = float(sentence.split('log-density is ')[1].split(',')[0])
    expected = 81 / 4 * 9 + 9 / 2 + 1 / 2
    # of a variance from so many draws, by the kurtosis of the axis, which is nearly all of it
    assert abs(variance / expected - 1) < 5 * np.sqrt(2 / axis.size)
    assert f'E-BFMI of {10 / (expected + 5):.2f}' in sentence


@pytest.mark.parametrize('num_dims', [1, 10])
def test_log_concave_densities_are_not_funnels(num_dims, rng):
    """Those of the exponential distribution have the largest variance of all: one a dimension."""
    states = rng.exponential(size=[NUM_RESULTS, NUM_CHAINS, num_dims])
    assert not warnings_of_energy(states, -states.sum(axis=-1))


def test_modes_of_unlike_heights_are_not_funnels(rng):
    states = rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 2])
    heights = np.where(np.arange(NUM_CHAINS) < 5, 0.0, 20.0)
    assert not warnings_of_energy(states, heights - (states**2).sum(axis=-1) / 2)


def test_the_noise_of_estimates_is_no_funnel(rng):
    """Where a likelihood is estimated, the log-density varies by more than the target does."""
    noise = 10 * rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
    run = runs.run_of_draws(rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 2]))
    run = dataclasses.replace(run, statistics=run.statistics._replace(log_prob=noise))
    assert list(tails.energy_concerns(run))
    estimator = tfpa.estimators.Estimator(
        1, lambda noise, *parts: tf.zeros_like(noise[..., 0]), num_particles=1
    )
    kernel = tfpa.PseudoMarginal(estimator, lambda x: -tf.reduce_sum(x**2, axis=-1) / 2, 0)
    assert not list(tails.energy_concerns(dataclasses.replace(run, frozen_kernel=kernel)))


def test_chains_on_their_way_are_no_funnel(rng):
    """Their log-densities are not those of the posterior, and another warning says so."""
    log_prob = -rng.exponential(size=[NUM_RESULTS, NUM_CHAINS])
    log_prob[:20] -= 1000
    assert not warnings_of_energy(rng.normal(size=[*log_prob.shape, 2]), log_prob)


@pytest.mark.parametrize(('variance', 'is_told'), [(2.7, False), (2.9, True)])
def test_how_much_a_log_density_may_vary(variance, is_told, rng):
    """2.83 for every dimension: with half of one for the velocities, the E-BFMI is 0.3."""
    states = rng.normal(size=[NUM_RESULTS, NUM_CHAINS, 4])
    log_prob = rng.normal(size=[NUM_RESULTS, NUM_CHAINS])
    log_prob *= np.sqrt(4 * variance) / log_prob.std(axis=0)
    assert bool(warnings_of_energy(states, log_prob)) == is_told
