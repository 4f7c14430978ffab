"""Every warning: silent on a good run, said on a bad one, with the chain or coordinate it means."""

import dataclasses
import itertools
import re
import types
import warnings

import numpy as np
import pytest
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.sampling import coordinates
from tfp_adaptive.sampling.findings import convergence, settling

NUM_RESULTS, NUM_CHAINS, EVENT_SIZE = 600, 4, 3


@pytest.fixture(name='draws')
def fixture_draws(rng):
    return rng.standard_normal([NUM_RESULTS, NUM_CHAINS, EVENT_SIZE])


def only_warning(run):
    assert len(run.warnings) == 1, run.warnings
    return run.warnings[0]


def test_a_good_run_has_none(draws):
    assert runs.run_of_draws(draws).warnings == ()
    assert runs.run_of_draws(list(np.moveaxis(draws, -1, 0))).warnings == ()


def test_chains_that_disagree(draws):
    draws[:, 0, 1] += 0.5
    sentence = next(s for s in runs.run_of_draws(draws).warnings if 'R-hat' in s)
    assert sentence.startswith('R-hat exceeds 1.01 for 1 of 3 coordinates, most for x[1] (1.0')
    assert '`num_results`' in sentence


def test_too_few_effective_draws(draws):
    run = runs.run_of_draws({'mu': draws[:80], 'tau': draws[:80, :, 0] ** 2})
    sentence = next(s for s in run.warnings if 'effective' in s)
    assert 'is below 400 for 4 of 4 coordinates' in sentence
    least = min(
        *run.diagnostics.ess['mu'],
        *run.diagnostics.ess_of_squares['mu'],
        run.diagnostics.ess['tau'],
        run.diagnostics.ess_of_squares['tau'],
    )
    assert f'({least:.0f})' in sentence


def test_coordinates_that_are_constant_by_design_are_not_judged(draws):
    """Such as the diagonal of a correlation matrix, where all that is free has moved."""
    free = draws.copy()
    draws[..., 1] = 1.0
    run = dataclasses.replace(runs.run_of_draws(draws), unconstrained_states=free)
    assert convergence.find_concerns(run) == ()


@pytest.mark.parametrize('is_same', [True, False], ids=['one place', 'a place for each chain'])
def test_a_coordinate_that_never_moves_is_named(draws, is_same):
    draws[..., 1] = 1.0 if is_same else np.arange(NUM_CHAINS)
    sentence = runs.run_of_draws(draws).warnings[0]
    assert sentence.startswith('1 of 3 coordinates never moved (x[1]): rounding')
    assert 'float64 (`dtype`)' in sentence
    # an entry that moved once is none of these
    draws[-1, 0, 1] += 1
    assert not any('never moved' in each for each in runs.run_of_draws(draws).warnings)


def test_three_draws_are_too_few():
    run = runs.run_of_draws(np.random.default_rng(0).normal(size=[3, NUM_CHAINS, 1]))
    assert only_warning(run).startswith('There are too few draws')


def test_a_stuck_chain_is_named(draws):
    draws[100:, 2] = draws[99, 2]
    sentence = runs.run_of_draws(draws).warnings[0]
    assert sentence.startswith('1 of 4 chains (2) stayed at one point for up to 501 of 600 draws')
    assert '`initial_state`' in sentence


def test_a_short_run_has_chains_that_stay_by_chance(rng):
    """Of a thousand chains that accept two thirds of their moves twelve stay for five draws."""
    draws = rng.normal(size=[5, 1000, 1])
    for before, after in itertools.pairwise(draws):
        stays = rng.uniform(size=[1000, 1]) < 1 / 3
        after[stays] = before[stays]
    assert np.sum(np.all(draws == draws[0], axis=(0, 2))) > 3
    assert not any('stayed' in sentence for sentence in runs.run_of_draws(draws).warnings)
    # one of ten for thirty draws is no chance
    many = rng.normal(size=[30, 10, 1])
    many[:, 4] = 0.0
    assert runs.run_of_draws(many).warnings[0].startswith('1 of 10 chains (4) stayed')


def test_chains_that_never_move_are_stuck_even_if_all_are():
    draws = np.broadcast_to(np.arange(8.0)[:, np.newaxis], [30, 8, 1])
    sentence = runs.run_of_draws(draws).warnings[0]
    assert sentence.startswith('8 of 8 chains (0, 1, 2, 3, 4, ...) stayed')


def test_blocks_change_nothing_for_stuck_chains(draws, monkeypatch):
    draws[100:, 2] = draws[99, 2]
    expected = runs.run_of_draws(draws).warnings
    monkeypatch.setattr(coordinates, '_BLOCK_BYTES', 1)
    assert runs.run_of_draws(draws).warnings == expected


@pytest.mark.parametrize('acceptance', [0.1, 0.234, 0.67])
def test_ordinary_rejections_are_not_stuck_chains(rng, acceptance):
    """Independent rejections: a false alarm has a probability of about one in a million."""
    draws = rng.standard_normal([5000, NUM_CHAINS, 2])
    is_accepted = rng.random([5000, NUM_CHAINS]) < acceptance
    last = np.maximum.accumulate(np.where(is_accepted, np.arange(5000)[:, np.newaxis], 0), axis=0)
    held = np.take_along_axis(draws, last[..., np.newaxis], axis=0)
    assert not any('stayed' in sentence for sentence in runs.run_of_draws(held).warnings)


def test_a_move_of_any_part_is_a_move(draws):
    """A kernel may move one part at a time."""
    is_first = np.arange(NUM_RESULTS) % 2 == 0
    first, second = np.copy(draws[..., 0]), np.copy(draws[..., 1])
    for part, moves in ((first, is_first), (second, ~is_first)):
        last = np.maximum.accumulate(np.where(moves, np.arange(NUM_RESULTS), 0))
        part[:] = part[last]
    run = runs.run_of_draws({'a': first, 'b': second})
    assert not any('stayed' in sentence for sentence in run.warnings)


def test_draws_that_are_not_finite(draws):
    draws[5, 1, 0] = np.nan
    draws[9, 3, 2] = np.inf
    sentence = runs.run_of_draws(draws).warnings[0]
    assert sentence.startswith('2 of 4 chains (1, 3) hold draws that are not finite')


def run_with_log_density(draws, log_prob):
    run = runs.run_of_draws(draws)
    statistics = run.statistics._replace(log_prob=log_prob)
    return dataclasses.replace(run, statistics=statistics)


@pytest.mark.parametrize('sign', [-1, 1])
def test_a_chain_that_arrives_late_is_named(draws, sign):
    """From below, as from far away, or from above, as from a mode in many dimensions."""
    log_prob = -np.square(draws).sum(axis=-1) / 2
    late = log_prob.copy()
    late[:20, 2] += sign * np.linspace(200, 100, 20)
    sentence = run_with_log_density(draws, late).warnings[0]
    assert sentence.startswith(
        '1 of 4 chains (2) had not arrived when sampling began: up to draw 19'
    )
    # as far off later on, it belongs to the posterior
    late[300, 0] = late[0, 2]
    assert not any('arrived' in each for each in run_with_log_density(draws, late).warnings)


@pytest.mark.parametrize('correlation', [0.0, 0.99])
@pytest.mark.parametrize('num_dims', [1, 10])
def test_chains_of_the_posterior_hardly_ever_arrive_late(num_dims, correlation, rng):
    """No more than 1 % of short runs, independent or slowly mixing, are warned of."""

    def is_warned():
        draws = rng.standard_normal([100, 4, num_dims])
        for i in range(1, 100):
            draws[i] = correlation * draws[i - 1] + (1 - correlation**2) ** 0.5 * draws[i]
        log_prob = -np.square(draws).sum(axis=-1) / 2
        run = types.SimpleNamespace(statistics=types.SimpleNamespace(log_prob=log_prob))
        return bool(list(convergence._late_chains(run)))

    # a binomial of 1 % reaches it in one of 4,900 such tests
    assert sum(is_warned() for _ in range(500)) < 15


def test_divergences(draws):
    sentence = only_warning(runs.run_of_draws(draws, num_divergences=3))
    assert sentence.startswith('3 steps diverged')
    assert runs.run_of_draws(draws, num_divergences=None).warnings == ()


@pytest.mark.parametrize(
    ('accept_prob', 'verdict'),
    [(0.3, 'too bold'), (0.35, None), (0.8, None), (0.85, 'too timid'), (None, None)],
)
def test_acceptance_far_from_its_target(draws, accept_prob, verdict):
    """Half as many acceptances, or rejections, as a target of 0.67 asks for."""
    run = runs.run_of_draws(draws[:80])
    run = dataclasses.replace(
        run, diagnostics=dataclasses.replace(run.diagnostics, accept_prob=accept_prob)
    )
    if verdict is None:
        assert not any('acceptance' in sentence for sentence in run.warnings)
    else:
        sentence = run.warnings[0]
        assert f'{accept_prob:.2f} where 0.67 was asked for: the proposal is {verdict}' in sentence
        assert '`num_warmup_steps`' in sentence


def test_small_steps_are_no_harm_where_chains_mix(draws):
    assert runs.run_of_draws(draws, accept_prob=0.95).warnings == ()
    assert 'too bold' in only_warning(runs.run_of_draws(draws, accept_prob=0.1))


def test_an_entropy_weight_at_its_bound_is_named(draws):
    info = runs.warmup_info(np.zeros(300), entropy_weight=np.full(300, 100.0))
    run = runs.run_of_draws(draws[:80], accept_prob=0.95, warmup_trace=info)
    assert 'at its bound of 100' in run.warnings[0]
    # one entry alone does not say that it stayed there
    info = runs.warmup_info(np.zeros(4), entropy_weight=np.full(4, 3.0))
    run = runs.run_of_draws(draws[:80], accept_prob=0.95, warmup_trace=info)
    assert not any('at its bound' in sentence for sentence in run.warnings)


def target_acceptance_cases():
    def log_prob(x):
        return -x * x

    def hmc(**kwargs):
        return tfpa.EntropyAdaptiveHMC(log_prob, **kwargs)

    nuts = tfp.mcmc.NoUTurnSampler(log_prob, 0.1)
    adapted = tfp.mcmc.DualAveragingStepSizeAdaptation(nuts, 10, target_accept_prob=0.8)
    transformed = tfp.mcmc.TransformedTransitionKernel(
        hmc(target_accept_prob=0.7), tfp.bijectors.Exp()
    )
    return [
        (hmc(), 0.67),
        (hmc(target_accept_prob=0.9), 0.9),
        (hmc(entropy_weight=tfpa.optimizers.fixed_weight(1.0)), None),
        (hmc(objective=tfpa.objectives.expected_squared_jump_distance()), None),
        (adapted, 0.8),
        (transformed, 0.7),
        (nuts, None),
        (tfp.mcmc.RandomWalkMetropolis(log_prob), None),
    ]


@pytest.mark.parametrize(('kernel', 'expected'), target_acceptance_cases())
def test_target_acceptance(kernel, expected):
    assert settling.target_acceptance(kernel) == pytest.approx(expected)


def settling_entropy(rng, drift, noise=1.0, num_steps=runs.NUM_WARMUP_STEPS):
    """Entropy that grows by `drift` nats a coordinate over its last quarter."""
    time = np.arange(num_steps) / num_steps
    return EVENT_SIZE * drift * 4 * time + noise * rng.standard_normal(num_steps)


@pytest.mark.parametrize(
    ('drift', 'noise', 'num_draws', 'change'),
    [
        (0.2, 0.05, 80, 'grew'),
        (-0.2, 0.05, 80, 'shrank'),
        (0.02, 0.05, 80, None),
        (0.0, 3.0, 80, None),
        # where chains mix, less of it is a concern
        (0.2, 0.05, NUM_RESULTS, None),
        (0.4, 0.05, NUM_RESULTS, 'grew'),
    ],
)
def test_adaptation_that_has_not_settled(rng, draws, drift, noise, num_draws, change):
    info = runs.warmup_info(settling_entropy(rng, drift, noise))
    run = runs.run_of_draws(draws[:num_draws], warmup_trace=info)
    found = [sentence for sentence in run.warnings if 'had not settled' in sentence]
    assert len(found) == (change is not None)
    for sentence in found:
        assert f'over the last quarter of it the proposal still {change} by' in sentence
        percentage = float(re.search(r'by (\d+)%', sentence)[1]) / 100
        assert percentage == pytest.approx(abs(np.expm1(drift)), abs=0.05)
        assert '`num_warmup_steps`' in sentence


def test_steps_after_the_end_of_adaptation_do_not_count(rng, draws):
    """The warm-up may go on after the kernel has stopped to adapt."""
    drifting = settling_entropy(rng, 0.4, 0.05)
    info = runs.warmup_info(np.concatenate([drifting, np.full(900, drifting[-1])]))
    assert 'not settled' in only_warning(runs.run_of_draws(draws, warmup_trace=info))


def test_short_and_absent_adaptations_are_not_judged(draws):
    for length in (0, 1, 79):
        info = runs.warmup_info(np.linspace(0, 100, length))
        assert runs.run_of_draws(draws, warmup_trace=info).warnings == ()


def test_emitted_warnings_point_at_the_caller():
    with pytest.warns(convergence.SamplingWarning) as caught:
        convergence.emit(('first.', 'second.'))
    assert [str(warning.message) for warning in caught] == ['first.', 'second.']
    assert {warning.filename for warning in caught} == {__file__}
    assert issubclass(convergence.SamplingWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        convergence.emit(())
