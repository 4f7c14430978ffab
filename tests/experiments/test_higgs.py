"""The regression on many rows: its mode, and that its three densities agree."""

import numpy as np
import pytest
import tensorflow as tf

from experiments.targets import higgs
from tests.support.statistics import largest_z


@pytest.fixture(scope='module')
def model():
    return higgs.many_rows('stand-in', 3000, 4)


def test_the_mode_has_no_slope_and_the_precision_is_that_of_the_density(model):
    mode = tf.constant(model.mode)

    def slope_at(beta):
        with tf.GradientTape() as tape:
            tape.watch(beta)
            value = model.log_prob(beta)
        return tape.gradient(value, beta).numpy()

    np.testing.assert_allclose(slope_at(mode), np.zeros(22), atol=1e-9)
    step = 1e-5 * np.eye(22)[[0, 7]]
    columns = [(slope_at(mode - s) - slope_at(mode + s)) / 2e-5 for s in step]
    np.testing.assert_allclose(columns, model.precision[[0, 7]], rtol=1e-6, atol=1e-4)


def test_rows_and_prior_make_up_the_posterior(model, rng):
    beta = tf.constant(rng.normal(size=[2, 22]) / 10, tf.float32)
    whole = tf.reduce_sum(model.by_row(model.rows, beta), axis=-1) + model.log_prior(beta)
    np.testing.assert_allclose(whole, model.log_prob(beta), rtol=1e-5)


def test_the_stand_in_is_what_it_says(model):
    """Means and standard deviations of the kinds of features, and the published coefficients."""
    design = model.rows[0].numpy()
    assert design.shape == (3000, 1 + higgs.NUM_FEATURES)
    for column, mean, sd in ((0, 1, 0), (1, 1, 0.533), (2, 0, 1), (3, 0, 1), (9, 0.88, 0.968)):
        assert abs(design[:, column].mean() - mean) <= 4 * sd / np.sqrt(3000)
    z = (model.mode - higgs._PUBLISHED) / np.sqrt(np.diag(np.linalg.inv(model.precision)))
    assert np.max(np.abs(z)) < largest_z(22)
