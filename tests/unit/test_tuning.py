"""tuning: each record against the published formulas in plain Python."""

import math

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.unit import stan
from tfp_adaptive import tuning
from tfp_adaptive.tuning import moments

LENGTHS = [0, 1, 19, 20, 21, 60, 149, 150, 151, 174, 200, 225, 250, 251, 500, 1000, 1001, 3333]


# --- rules of the step size ----------------------------------------------------------------------


@pytest.mark.parametrize(
    'options', [{}, {'gamma': 0.3, 't0': 2.0, 'kappa': 0.6}], ids=['default', 'other']
)
def test_dual_averaging_is_stans(options, rng):
    accept_probs = rng.uniform(size=200) ** 0.5
    rule = tuning.dual_averaging(0.8, **options)
    state = rule.init(tf.constant(math.log(0.3), tf.float64))
    twin = stan.DualAveraging(0.3, 0.8, **options)
    for accept_prob in accept_probs:
        state = rule.update(state, tf.constant(accept_prob, tf.float64))
        step_size = twin.learn(accept_prob)
        np.testing.assert_allclose(tf.exp(rule.current(state)), step_size, rtol=1e-10)
        np.testing.assert_allclose(tf.exp(rule.learned(state)), twin.complete(), rtol=1e-10)


def test_a_rule_that_has_seen_nothing_keeps_its_step_size():
    start = tf.constant(-1.5, tf.float64)
    for rule in (tuning.dual_averaging(), tuning.robbins_monro()):
        assert (
            float(rule.current(rule.init(start))) == float(rule.learned(rule.init(start))) == -1.5
        )


def test_robbins_monro_is_a_sum_of_gains(rng):
    accept_probs = rng.uniform(size=50)
    rule = tuning.robbins_monro(0.4, rate=2.0, decay=0.7)
    state = rule.init(tf.constant(0.5, tf.float64))
    for accept_prob in accept_probs:
        state = rule.update(state, tf.constant(accept_prob, tf.float64))
    gains = 2 * np.arange(1.0, 51) ** -0.7
    expected = 0.5 + np.sum(gains * (accept_probs - 0.4))
    np.testing.assert_allclose(rule.current(state), expected, rtol=1e-12)


@pytest.mark.parametrize('start', [1e-3, 0.7, 50.0])
def test_search_ends_where_acceptance_crosses_a_half(start):
    """With a curve of acceptance that falls through a half at 1."""

    def accept_prob(step_size):
        return 1 / (1 + step_size**2)

    rule = tuning.initial_step_search(tuning.robbins_monro(0.5, rate=1e-9))
    state, tried = rule.init(tf.constant(math.log(start), tf.float64)), [start]
    while float(state.num_left):
        state = rule.update(state, tf.constant(accept_prob(tried[-1]), tf.float64))
        tried.append(float(tf.exp(rule.current(state))))
    *steps, before_last, last = tried
    ratio = 2.0 if start < 1 else 0.5
    expected = start * ratio ** np.arange(len(steps) + 1)
    np.testing.assert_allclose([*steps, before_last], expected)
    np.testing.assert_allclose(last, before_last)
    # as far as it has come, a search that is cut short has a step size that was accepted
    state = rule.init(tf.constant(math.log(start), tf.float64))
    for step_size in tried[: len(steps)]:
        state = rule.update(state, tf.constant(accept_prob(step_size), tf.float64))
        kept = float(tf.exp(rule.learned(state)))
        assert kept == pytest.approx(step_size if start < 1 else step_size / 2)
    crossed = accept_prob(before_last) - 0.5, accept_prob(before_last / ratio) - 0.5
    assert crossed[0] * crossed[1] < 0


def test_after_the_search_the_rule_is_the_one_it_leads_to(rng):
    rule, follows = tuning.initial_step_search(tuning.dual_averaging()), tuning.dual_averaging()
    state = rule.init(tf.constant(0.0, tf.float64))
    state = rule.update(state, tf.constant(0.1, tf.float64))
    expected = follows.init(tf.constant(-math.log(2), tf.float64))
    for accept_prob in [0.6, *rng.uniform(size=20)]:
        accept_prob = tf.constant(accept_prob, tf.float64)
        state, expected = rule.update(state, accept_prob), follows.update(expected, accept_prob)
        np.testing.assert_allclose(rule.current(state), follows.current(expected), rtol=1e-12)
        np.testing.assert_allclose(rule.learned(state), follows.learned(expected), rtol=1e-12)


def test_search_gives_up_where_every_step_is_accepted():
    rule = tuning.initial_step_search(tuning.robbins_monro(0.5), max_doublings=3)
    state = rule.init(tf.constant(0.0))
    for _ in range(3):
        state = rule.update(state, tf.constant(1.0))
    np.testing.assert_allclose(tf.exp(rule.current(state)), 8.0, rtol=1e-6)
    assert float(state.num_left) == 0


# --- schedules -----------------------------------------------------------------------------------


@pytest.mark.parametrize('num_steps', LENGTHS)
def test_windows_are_stans(num_steps):
    plan = tuning.windows().plan(num_steps)
    collected, ends = stan.window_ends(num_steps)
    assert len(plan.collects) == len(plan.ends_window) == num_steps
    assert np.flatnonzero(plan.collects).tolist() == collected
    assert np.flatnonzero(plan.ends_window).tolist() == ends


@pytest.mark.parametrize('num_steps', [40, 100, 640])
def test_other_windows_follow_the_same_rule(num_steps):
    plan = tuning.windows(10, 5, 20).plan(num_steps)
    _, ends = stan.window_ends(num_steps, 10, 5, 20)
    assert np.flatnonzero(plan.ends_window).tolist() == ends


# --- metrics -------------------------------------------------------------------------------------

ESTIMATORS = {
    'variance': tuning.variance(),
    'covariance': tuning.covariance(),
    'fisher': tuning.fisher(),
    'fisher_dense': tuning.fisher(is_dense=True),
    'low_rank': tuning.low_rank(2),
}


def _inverse_mass(estimator, parameters):
    family = estimator.preconditioner
    prepared = family.prepare(parameters)
    first = tf.nest.flatten(parameters)[0]
    dense = family.forward(prepared, tf.eye(first.shape[0], dtype=first.dtype))
    return np.transpose(dense) @ np.asarray(dense)


def _after(estimator, draws, scores, is_alive=None):
    """State after rows [N, C, D]; those not alive hold anything."""
    state = estimator.init(draws.shape[-1], tf.float64)
    for i, (draw, score) in enumerate(zip(draws, scores, strict=True)):
        alive = tf.ones([len(draw)], tf.bool) if is_alive is None else tf.constant(is_alive[i])
        draw, score = tf.constant(draw), tf.constant(score)
        state = estimator.absorb(state, estimator.collect(state, draw, score, alive))
    return state


@pytest.fixture
def sample(rng):
    """Draws [N, C, D] far from zero, correlated, with their scores and a mask of chains."""
    root = np.tril(rng.normal(size=[4, 4])) + 2 * np.eye(4)
    draws = rng.normal(size=[30, 3, 4]) @ root.T + 100
    scores = -(draws - 100) @ np.linalg.inv(root @ root.T)
    return draws, scores, rng.uniform(size=[30, 3]) < 0.8, root @ root.T


def test_draws_give_stans_estimates(sample):
    draws, scores, is_alive, _ = sample
    expected = stan.regularised_covariance(draws[is_alive])
    broken = np.where(is_alive[..., np.newaxis], draws, np.nan)
    for name, wanted in (('covariance', expected), ('variance', np.diag(np.diag(expected)))):
        estimator = ESTIMATORS[name]
        state = _after(estimator, broken, scores, is_alive)
        found = _inverse_mass(estimator, estimator.factor(state))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def test_fisher_of_a_gaussian_is_its_covariance(sample):
    """From few draws, where their own covariance is still far off."""
    draws, scores, _, covariance = sample
    estimator = ESTIMATORS['fisher_dense']
    found = _inverse_mass(estimator, estimator.factor(_after(estimator, draws[:4], scores[:4])))
    np.testing.assert_allclose(found, covariance, rtol=0.02, atol=0.02)
    plain = stan.regularised_covariance(draws[:4].reshape([-1, 4]))
    assert np.max(np.abs(plain - covariance)) > 0.1


def test_fisher_diagonal_is_a_ratio_of_deviations(sample):
    draws, scores, _, _ = sample
    estimator = ESTIMATORS['fisher']
    found = estimator.factor(_after(estimator, draws, scores)) ** 2
    np.testing.assert_allclose(found, draws.std(axis=(0, 1)) / scores.std(axis=(0, 1)), rtol=1e-9)


@pytest.mark.parametrize('name', ['fisher', 'fisher_dense'])
def test_fisher_follows_a_change_of_units(name, sample):
    estimator, (draws, scores, _, _) = ESTIMATORS[name], sample
    units = np.array([1e6, 1e-6, 1.0, 1e3])
    own = _inverse_mass(estimator, estimator.factor(_after(estimator, draws, scores)))
    found = estimator.factor(_after(estimator, units * draws, scores / units))
    np.testing.assert_allclose(
        _inverse_mass(estimator, found) / np.outer(units, units), own, rtol=1e-6, atol=1e-6
    )


def test_fisher_leaves_coordinates_alone_that_tell_nothing(sample):
    """Where draws, or scores, are all the same."""
    draws, scores, _, _ = (np.copy(x) for x in sample)
    draws[..., 1], scores[..., 2] = 3.0, 0.0
    estimator = ESTIMATORS['fisher']
    found = estimator.factor(_after(estimator, draws, scores))
    assert np.all(found[1:3] == 1)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize('name', ESTIMATORS)
def test_pooled_sums_are_the_sums_of_all_chains(name, sample):
    estimator, (draws, scores, is_alive, _) = ESTIMATORS[name], sample
    state = _after(estimator, draws[:3], scores[:3])
    draw, score, alive = tf.constant(draws[3]), tf.constant(scores[3]), tf.constant(is_alive[3])
    together = estimator.collect(state, draw, score, alive)
    parts = [
        estimator.collect(state, draw[rows], score[rows], alive[rows])
        for rows in (slice(0, 1), slice(1, 3))
    ]
    pooled = tf.nest.map_structure(tf.add, *parts)
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), pooled, together
    )


@pytest.mark.parametrize('name', ESTIMATORS)
def test_a_new_window_forgets_the_last(name, sample):
    estimator, (draws, scores, _, _) = ESTIMATORS[name], sample
    fresh = estimator.factor(_after(estimator, draws[10:], scores[10:]))
    state = estimator.restart(_after(estimator, 3 * draws[:10] + 7, scores[:10]))
    one = tf.ones([3], tf.bool)
    for draw, score in zip(draws[10:], scores[10:], strict=True):
        sums = estimator.collect(state, tf.constant(draw), tf.constant(score), one)
        state = estimator.absorb(state, sums)
    found = _inverse_mass(estimator, estimator.factor(state))
    np.testing.assert_allclose(found, _inverse_mass(estimator, fresh), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_a_window_without_draws_has_the_unit_metric(name):
    estimator = ESTIMATORS[name]
    factor = estimator.factor(estimator.init(4, tf.float64))
    np.testing.assert_allclose(_inverse_mass(estimator, factor), np.eye(4), atol=1e-12)
    for own, unit in zip(
        tf.nest.flatten(factor), tf.nest.flatten(estimator.unit(4, tf.float64)), strict=True
    ):
        np.testing.assert_allclose(own, unit, rtol=1e-12)


def _principal_components(covariance, num_draws, rank):
    """The model of Tipping & Bishop in units of the deviations, from a full decomposition."""
    share = num_draws / (num_draws + 5)
    variance = share * np.diag(covariance) + 5e-3 / (num_draws + 5)
    deviation = np.sqrt(variance)
    values, vectors = np.linalg.eigh(share * covariance / np.outer(deviation, deviation))
    noise = (len(values) - values[-rank:].sum()) / (len(values) - rank)
    loadings = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:] - noise, 0))
    common = loadings @ loadings.T
    np.fill_diagonal(common, 1)
    return common * np.outer(deviation, deviation)


def test_low_rank_is_the_twins_where_the_sketch_is_full(sample):
    draws, scores, is_alive, _ = sample
    estimator, used = ESTIMATORS['low_rank'], draws[is_alive]
    found = _inverse_mass(estimator, estimator.factor(_after(estimator, draws, scores, is_alive)))
    expected = _principal_components(np.cov(used.T), len(used), 2)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_low_rank_finds_common_causes(rng, dtype):
    """Two in 60 dimensions with a sketch of ten columns, and scales of six orders: a condition
    number of hundreds with a diagonal becomes one of a few.

    In the second window, in units of the first: one that had none may see the largest scale alone.
    """
    causes, deviation = 3 * rng.normal(size=[60, 2]), np.geomspace(1e-3, 1e3, 60)
    root = np.hstack([causes, np.eye(60)]) * deviation[:, np.newaxis]
    draws = tf.constant(rng.normal(size=[2, 4000, 62]) @ root.T, dtype)
    estimator, alive = ESTIMATORS['low_rank'], tf.ones([4000], tf.bool)
    state, numbers = estimator.init(60, draws.dtype), []
    for window in draws:
        state = estimator.absorb(state, estimator.collect(state, window, window, alive))
        found = _inverse_mass(estimator, estimator.factor(state)).astype(float)
        white = np.linalg.solve(np.linalg.cholesky(found), root)
        numbers.append(np.linalg.cond(white @ white.T))
        state = estimator.restart(state)
    assert numbers[1] < 10
    diagonal = root / np.sqrt(np.sum(root**2, axis=1, keepdims=True))
    assert np.linalg.cond(diagonal @ diagonal.T) > 300


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_degenerate_draws_have_a_factor(dtype):
    """Perfectly correlated coordinates of scales 1e-4 to 1e4, and fewer draws than coordinates."""
    draws = tf.cast(np.linspace(-1, 1, 5)[:, np.newaxis] * np.geomspace(1e-4, 1e4, 9), dtype)
    for name in ('covariance', 'fisher_dense'):
        estimator = ESTIMATORS[name]
        state = estimator.init(9, dtype)
        sums = estimator.collect(state, draws, 1 / (1 + draws**2), tf.ones([5], tf.bool))
        factor = estimator.factor(estimator.absorb(state, sums))
        assert np.isfinite(factor).all()
        assert np.all(np.diag(factor) > 0)
    estimator = ESTIMATORS['low_rank']
    state = estimator.init(9, dtype)
    sums = estimator.collect(state, draws, draws, tf.ones([5], tf.bool))
    factor = estimator.factor(estimator.absorb(state, sums))
    assert all(np.isfinite(leaf).all() for leaf in factor)
    assert np.all(factor.scale > 0)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_inverse_transpose_undoes_the_transpose(name, sample):
    estimator, (draws, scores, _, _) = ESTIMATORS[name], sample
    factor = estimator.factor(_after(estimator, draws, scores))
    x = tf.constant(draws[0])
    family = estimator.preconditioner
    back = estimator.inverse_transpose(factor, family.transpose(family.prepare(factor), x))
    np.testing.assert_allclose(back, x, rtol=1e-9)


# --- jitter --------------------------------------------------------------------------------------


def test_jitter_scales_the_whole_factor(stateless_seed):
    proposal = tfpa.proposals.leapfrog(1)
    wide = tuning.jittered(proposal, 0.5)
    uniform = tf.function(lambda seed: wide.draw(seed, 2, 3, tf.float64).uniform, autograph=False)
    shares = np.array([1 + 0.5 * (2 * float(uniform(stateless_seed(i))) - 1) for i in range(400)])
    assert 0.5 < shares.min() < 0.52
    assert 1.48 < shares.max() < 1.5
    kernel = tfpa.WindowedHMC(lambda x: -tf.reduce_sum(x**2, -1) / 2, 1, 0, step_size_jitter=0.5)
    state = tf.zeros([2, 3], tf.float64)
    frozen = kernel.frozen(kernel.bootstrap_results(state))
    start = frozen.bootstrap_results(state)._replace(seed=stateless_seed())
    lengths = []
    for i in range(3):
        _, results = frozen.one_step(state, start, seed=stateless_seed(i))
        noise = frozen._sampler.draw(stateless_seed(i), 2, 3, tf.float64)
        scale = float(start.adaptation.preconditioner[0]) * (0.5 + float(noise.move.uniform))
        lengths.append(results.proposed_state / noise.move.move / scale)
    np.testing.assert_allclose(lengths, 1, rtol=1e-12)


def test_no_jitter_is_the_proposal_itself():
    proposal = tfpa.proposals.leapfrog(1)
    assert tuning.jittered(proposal, 0.0) is proposal


# --- formula -------------------------------------------------------------------------------------


def test_condition_number():
    scales = np.array([[1.0, 2.0, 5.0], [3.0, 3.0, 3.0]])
    expected = [(5**4 + 2.5**4 + 1) ** 0.25, 3**0.25]
    np.testing.assert_allclose(tuning.condition_number(tf.constant(scales)), expected, rtol=1e-12)
    # in single precision the fourth power of their ratio overflows
    np.testing.assert_allclose(tuning.condition_number([1e5, 1e-5]), 1e10, rtol=1e-5)


def test_formula_by_simulation(rng):
    """The acceptance of exact leapfrog trajectories of many lengths on a Gaussian."""
    scales = np.geomspace(1, 3, 800)
    for wanted in (0.65, 0.8):
        step_size = float(tuning.step_size_formula(tf.constant(scales), wanted))
        probs = [_mean_acceptance(rng, scales, step_size) for _ in range(150)]
        error = np.std(probs) / np.sqrt(len(probs))
        # how the acceptance falls with the logarithm of the step size
        root = -2 * scipy.stats.norm.ppf(wanted / 2)
        slope = 2 * scipy.stats.norm.pdf(root / 2) * root
        assert abs(np.mean(probs) - wanted) + 3 * error < 0.05 * slope
        bold = np.mean([_mean_acceptance(rng, scales, 1.1 * step_size) for _ in range(50)])
        assert wanted - bold > 0.05 * slope


def _mean_acceptance(rng, scales, step_size):
    """Of 30 trajectories of one random length."""
    x, v = rng.normal(size=[2, 30, len(scales)])
    kick, start = step_size / scales, (x**2 + v**2).sum(axis=1) / 2
    for _ in range(rng.integers(20, 60)):
        v = v - kick / 2 * x
        x = x + kick * v
        v = v - kick / 2 * x
    change = (x**2 + v**2).sum(axis=1) / 2 - start
    return np.mean(np.exp(-np.maximum(change, 0)))


# --- misuse --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('make', 'error', 'name'),
    [
        (lambda: tuning.dual_averaging(1.0), ValueError, 'target_accept_prob'),
        (lambda: tuning.dual_averaging('a'), TypeError, 'target_accept_prob'),
        (lambda: tuning.dual_averaging(gamma=0), ValueError, 'gamma'),
        (lambda: tuning.dual_averaging(t0=-1), ValueError, 't0'),
        (lambda: tuning.dual_averaging(kappa=0.5), ValueError, 'kappa'),
        (lambda: tuning.robbins_monro(rate=0), ValueError, 'rate'),
        (lambda: tuning.robbins_monro(decay=0.5), ValueError, 'decay'),
        (lambda: tuning.initial_step_search(0.1), TypeError, 'rule'),
        (
            lambda: tuning.initial_step_search(tuning.robbins_monro(), max_doublings=0),
            ValueError,
            'max_doublings',
        ),
        (lambda: tuning.windows(first=0), ValueError, 'first'),
        (lambda: tuning.windows(final=1.5), ValueError, 'final'),
        (lambda: tuning.fisher(is_dense='yes'), TypeError, 'is_dense'),
        (lambda: tuning.jittered(3.0), TypeError, 'proposal'),
        (lambda: tuning.jittered(tfpa.proposals.leapfrog(1), 1.0), ValueError, 'width'),
        (lambda: tuning.condition_number([1.0, 0.0]), ValueError, 'scales'),
        (lambda: tuning.step_size_formula([1.0], 0.0), ValueError, 'target_accept_prob'),
    ],
)
def test_misuse_names_the_argument(make, error, name):
    with pytest.raises(error, match=f'`{name}`'):
        make()


@pytest.mark.parametrize(
    'metric',
    [tuning.variance(), tuning.covariance(), tuning.fisher(), tuning.low_rank(1)],
    ids=['variance', 'covariance', 'fisher', 'low_rank'],
)
@pytest.mark.parametrize('initial', [75, 0], ids=['after a start', 'at once'])
def test_a_first_window_far_from_zero(metric, initial, seed):
    """30,000 standard deviations away, in single precision, with a single window."""
    mean = 30_000.0
    kernel = tfpa.WindowedHMC(
        lambda x: -tf.reduce_sum((x - mean) ** 2, axis=-1) / 2,
        *(2, 60, metric),
        schedule=tuning.windows(initial),
    )
    state = mean + tf.random.stateless_normal([10, 3], [seed, 0])

    @tf.function(autograph=False)
    def warm_up():
        sampled = tfp.mcmc.sample_chain(
            *(60, state, None, kernel),
            trace_fn=None,
            return_final_kernel_results=True,
            seed=[seed, 1],
        )
        return sampled.final_kernel_results

    results = warm_up()
    factor = metric.preconditioner.forward(
        metric.preconditioner.prepare(results.adaptation.optimizer.factor), tf.eye(3)
    )
    values = np.linalg.svd(factor, compute_uv=False)
    assert np.all((values > 0.4) & (values < 2.5))


def test_moments_that_hold_rows_do_not_move(rng):
    """A plan may pause within a window."""
    offsets = np.array([0.0, 50.0, 0.0])[:, np.newaxis, np.newaxis]
    rows = tf.constant(rng.normal(size=[3, 10, 2]) + offsets)
    state, everyone = moments.empty(2, tf.float64, is_dense=False), tf.fill([10], True)
    for index in (0, 2):
        state = moments.absorb(state, moments.collect(state, rows[index], everyone))
        paused = moments.absorb(state, moments.collect(state, rows[1], everyone))
        state = moments.moved(state, paused)
    both = np.reshape([rows[0], rows[2]], [20, 2])
    np.testing.assert_allclose(state.mean, both.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(state.squares, 20 * both.var(axis=0), rtol=1e-12)


def test_a_metric_starts_about_the_mean_of_the_chains(seed):
    """Sums about zero would cancel in a window that begins with the first step."""
    state = 30_000.0 + tf.random.stateless_normal([10, 3], [seed, 0])
    kernel = tfpa.WindowedHMC(lambda x: -tf.reduce_sum((x - 3e4) ** 2, axis=-1) / 2, 2, 60)
    start = kernel.bootstrap_results(state).adaptation.optimizer.metric
    np.testing.assert_allclose(start.mean, np.mean(state, axis=0), rtol=1e-6)
    assert start.count == 0


def test_a_metric_without_a_finite_factor_is_not_taken(seed):
    metric = tuning.variance()._replace(factor=lambda state: np.nan * state.mean)
    schedule = tuning.windows(1, 1, 2)
    kernel = tfpa.WindowedHMC(
        lambda x: -tf.reduce_sum(x**2, axis=-1) / 2, 1, 30, metric, schedule=schedule
    )
    state = tf.random.stateless_normal([4, 3], [seed, 0])
    results = kernel.bootstrap_results(state)
    assert np.sum(schedule.plan(30).ends_window) > 1
    for i in range(30):
        state, results = kernel.one_step(state, results, seed=[seed, i])
    np.testing.assert_array_equal(results.adaptation.optimizer.factor, 1)
    assert np.all(np.isfinite(results.adaptation.preconditioner))
