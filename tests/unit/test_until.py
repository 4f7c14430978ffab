"""`Until`: where it looks, what it says, and what it refuses."""

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tfp_adaptive.sampling.figures import diagnose
from tfp_adaptive.sampling.running.until import check_until, goals, judge


def verdict(until, states, parts=None, *, is_last=False):
    parts = [states] if parts is None else parts
    return judge(until, diagnose(states, 1), parts, batch_rank=1, is_last=is_last)


@pytest.fixture
def independent(rng):
    """Draws of four chains, as good as can be: an ESS of about 2,000."""
    return rng.normal(size=[500, 4, 3])


def test_goals():
    assert list(goals(None, 100, 1)) == [100]
    assert list(goals(tfpa.Until(max_steps=100), 100, 1)) == [100]
    assert list(goals(tfpa.Until(max_steps=1000), 100, 1)) == [100, 200, 300, 450, 675, 1000]
    assert list(goals(tfpa.Until(max_steps=1000), 100, 3)) == [100, 200, 300, 333]
    assert list(goals(tfpa.Until(), 10, 1))[-1] == 200


def test_met(independent):
    found = verdict(tfpa.Until(max_rhat=1.1, min_ess=500), independent)
    assert found.is_over
    assert found.is_met
    assert found.reason.startswith('`until` was met after 500 draws per chain: R-hat 1.0')
    assert '(at least 500 asked)' in found.reason


@pytest.mark.parametrize(
    'until', [tfpa.Until(max_rhat=1.0001, min_ess=None), tfpa.Until(max_rhat=None, min_ess=1e5)]
)
def test_not_met(independent, until):
    assert verdict(until, independent) == (False, False, verdict(until, independent).reason)
    last = verdict(until, independent, is_last=True)
    assert last.is_over
    assert not last.is_met
    assert last.reason.startswith('`max_steps` was reached before `until` was met, after 500 draws')


def test_without_bounds(independent):
    assert verdict(None, independent) == (
        True,
        None,
        '500 draws per chain, as `num_results` asked.',
    )


def test_squares_count(independent, rng):
    """Signs that are independent leave the mean well known and the scale not."""
    slow = np.exp(np.cumsum(independent, axis=0) / 30)
    states = slow * rng.choice([-1.0, 1.0], size=slow.shape)
    ess, ess_of_squares, _ = diagnose(states, 1)
    assert ess_of_squares.min() < 100 < ess.min()
    assert not verdict(tfpa.Until(max_rhat=None, min_ess=100), states).is_met


def test_constants_count_for_nothing_but_chains_that_stand_still_do(independent):
    until = tfpa.Until(max_rhat=1.1, min_ess=500)
    with_constant = np.concatenate([independent, np.ones([500, 4, 1])], axis=-1)
    assert verdict(until, with_constant, [independent]).is_met
    assert not verdict(until, with_constant).is_met
    assert not verdict(until, np.ones([500, 4, 3])).is_met


def test_draws_that_are_not_finite_are_never_met(independent):
    until = tfpa.Until(max_rhat=1.1, min_ess=500)
    for value in (np.nan, np.inf):
        overflown = independent.copy()
        overflown[7, 2, 1] = value
        assert verdict(until, independent, [independent]).is_met
        assert not verdict(until, overflown, [independent]).is_met


def test_sample_stops_when_it_may():
    def gaussian(q):
        return -tf.reduce_sum(tf.square(q), axis=-1) / 2

    def run(**settings):
        return tfpa.sample(
            gaussian,
            50,
            50,
            initial_state=tf.zeros([4, 2]),
            kernel=tfpa.GradientAdaptiveMALA,
            num_steps_between_results=1,
            seed=1,
            progress=False,
            jit_compile=False,
            **settings,
        )

    found = run(until=tfpa.Until(max_rhat=1.05, min_ess=300, max_steps=4000))
    num_draws = len(found.states)
    assert found.is_converged
    assert 50 < num_draws < 2000
    assert found.diagnostics.max_rhat <= 1.05
    assert found.diagnostics.min_ess >= 300
    assert f'met after {num_draws} draws' in found.stop_reason
    assert found.diagnostics.num_sampling_gradients >= 2 * num_draws
    with pytest.warns(tfpa.sampling.SamplingWarning, match=r'`max_steps` was reached before'):
        short = run(until=tfpa.Until(max_rhat=1.0001, min_ess=None, max_steps=110))
    assert short.states.shape == (55, 4, 2)
    assert not short.is_converged
    np.testing.assert_array_equal(short.states, found.states[:55])


MISUSES = {
    'R-hat': ({'max_rhat': 1.0}, '`max_rhat` must be above 1.*got 1.0'),
    'R-hat of nothing': ({'max_rhat': 'low'}, "`max_rhat`.*'low'"),
    'R-hat not a number': ({'max_rhat': np.nan}, '`max_rhat`.*nan'),
    'ESS': ({'min_ess': 0}, '`min_ess` must be a positive number; got 0'),
    'no bound': ({'max_rhat': None, 'min_ess': None}, 'must not both be None'),
    'steps': ({'max_steps': 0}, '`max_steps` must be an int of at least 1; got 0'),
    'half a step': ({'max_steps': 0.5}, '`max_steps`.*0.5'),
}


@pytest.mark.parametrize('case', MISUSES)
def test_bounds_out_of_range(case):
    settings, message = MISUSES[case]
    with pytest.raises(ValueError, match=message):
        tfpa.Until(**settings)


def test_bounds_that_do_not_fit_the_call():
    with pytest.raises(ValueError, match=r'max_steps=100, fewer than the 200 steps'):
        check_until(tfpa.Until(max_steps=100), 100, 2)
    with pytest.raises(TypeError, match=r'`until` must be a tfp_adaptive.Until'):
        check_until({'max_rhat': 1.01}, 100, 1)
