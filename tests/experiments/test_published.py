"""The published setting: its kernels, the reference figures and the distance between samples."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from experiments import programs, published


def _log_prob(q):
    return -tf.reduce_sum(q**2, axis=-1) / 2


@pytest.mark.parametrize('method', published.GRADIENT_ADAPTIVE)
def test_one_step_moves_as_the_authors_wrote(method, rng):
    """RMSProp's first step divides by 1 + |G|; beta moves by 2 % of the surplus acceptance."""
    kernel = published.make_kernel(method, _log_prob, 4, 100)
    state = tf.constant(rng.normal(size=[1, 4]), tf.float32)
    before = kernel.bootstrap_results(state)
    np.testing.assert_allclose(before.adaptation.preconditioner, 0.05 * np.eye(4), rtol=1e-6)
    _, after = kernel.one_step(state, before, seed=(0, 1))
    change = np.abs(after.adaptation.preconditioner - before.adaptation.preconditioner)
    rate = 5e-5 if method == 'random_walk' else 1.5e-4
    # the entropy term alone is 1 / 0.05 on the diagonal, so |G| / (1 + |G|) is nearly 1
    diagonal = np.diag(change) / rate
    assert np.all((diagonal > 0.9) & (diagonal < 1))
    target = 0.25 if method == 'random_walk' else 0.55
    accepted = float(after.is_accepted[0])
    np.testing.assert_allclose(
        after.adaptation.entropy_weight, 1 + 0.02 * (accepted - target), rtol=1e-6
    )


def test_reference_has_ten_runs_of_neal_and_german():
    for target in ('neal', 'german'):
        sample = published.reference(target, 'fast')
        assert sample.num_runs == 10
        assert 0.5 < sample.mean[0] < 0.6
        assert sample.mean[1] < sample.mean[2] < sample.mean[3] < 20_000
        assert (sample.sd > 0).all()
    assert published.reference('heart', 'exact') is None


def test_t_statistics(rng):
    first, second = rng.normal(size=[3, 5]), rng.normal(size=[10, 5])
    t, degrees = published.t_statistics(published.collect(first), published.collect(second))
    expected = scipy.stats.ttest_ind(first, second)
    np.testing.assert_allclose(t, expected.statistic)
    assert degrees == expected.df[0]


def test_t_statistics_of_a_single_run(rng):
    second = rng.normal(size=[10, 5])
    found, expected = published.collect(second[:1] + 1), published.collect(second)
    t, degrees = published.t_statistics(found, expected)
    error = expected.sd * np.sqrt(1.1)
    np.testing.assert_allclose(t, (found.mean - expected.mean) / error)
    assert degrees == 9


def test_measure_takes_the_only_chain(rng):
    states = rng.normal(size=[1000, 1, 3])
    run = programs.Run(states, 0.4, 0.2, 1, 2, 3)
    acceptance, ess_min, ess_median, ess_max, entropy_weight = published.measure(run)
    assert (acceptance, entropy_weight) == (0.4, 0.2)
    assert ess_min <= ess_median <= ess_max <= 1000
    assert run.num_evaluations_in_all == 1 + 2 * 2 + 3


@pytest.mark.parametrize('method', published.GRADIENT_ADAPTIVE)
def test_a_rejected_move_teaches_as_well(method):
    """The authors' point against the classical adaptive methods: a start far too bold recovers."""
    kernel = published.make_kernel(method, lambda q: 1e6 * _log_prob(q), 4, 100)
    # near the mode, where every bold move leads away
    state = tf.fill([1, 4], 1e-3)
    before = kernel.bootstrap_results(state)
    _, after = kernel.one_step(state, before, seed=(0, 1))
    assert not after.is_accepted[0]
    change = after.adaptation.preconditioner - before.adaptation.preconditioner
    assert np.all(np.diag(change) != 0)
    assert np.trace(change) < 0
