"""Sums and means over chains, against loops in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.kernels import totals

ALIVE = np.array([True, True, False, True, False, True])
FINITE = np.array([True, False, False, True, False, True])
USED = np.array([True, False, False, True, False, False])


def figures(rng):
    found = {
        'num_used': USED,
        'num_lost': ALIVE & ~FINITE,
        'num_alive': ALIVE,
        'accept_prob': np.where(FINITE, rng.uniform(size=6), 0),
        'acceptance_signal': np.where(ALIVE, rng.uniform(size=6), 0),
        'objective': np.where(USED, rng.normal(size=6), 0),
        'penalty': np.where(USED, rng.uniform(size=6), 0),
        'log_det': np.where(USED, rng.normal(size=6), 0),
    }
    return {name: tf.constant(figure) for name, figure in found.items()}


def test_sums_and_means(rng):
    given = figures(rng)
    sums = totals.over_chains(tf.float64, **given)
    assert sums.num_chains == 6
    for name, figure in given.items():
        np.testing.assert_allclose(getattr(sums, name), np.sum(figure), rtol=1e-14)
    assert sums.num_nonfinite == np.sum(~FINITE) == 3
    means = totals.means(sums)
    assert means.per_used == 1 / 2
    assert means.lost == 1 / 4
    over = {'accept_prob': 6, 'acceptance_signal': 4, 'objective': 2, 'penalty': 2, 'log_det': 6}
    assert set(over) | {'per_used', 'lost'} == set(means._fields)
    for name, count in over.items():
        np.testing.assert_allclose(getattr(means, name), np.sum(given[name]) / count, rtol=1e-14)


@pytest.mark.parametrize('name', totals.Means._fields)
def test_no_chain_left(name, rng):
    """Nothing is divided by zero where all chains are lost, or none ever had a density."""
    nothing = {name: tf.zeros([6], tf.float64) for name in figures(rng)}
    value = getattr(totals.means(totals.over_chains(tf.float64, **nothing)), name)
    assert value == (name == 'per_used')
