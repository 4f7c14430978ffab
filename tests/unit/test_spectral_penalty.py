"""entropy.spectral_penalty: value, slope, and no jump in either."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tfp_adaptive import entropy

THRESHOLDS = [0.75, 0.95]


@pytest.mark.parametrize('threshold', THRESHOLDS)
def test_value_and_slope(threshold):
    penalty = entropy.spectral_penalty(threshold)
    # away from the two knots, where finite differences are exact to rounding
    radii = np.array([0.0, 0.5, 0.74, 0.97, 1.2, 1.7, 1.97, 3.0, 50.0])
    value, slope = penalty.value(tf.constant(radii)), penalty.slope(tf.constant(radii))
    for i, radius in enumerate(radii):
        np.testing.assert_allclose(value[i], twins.penalty(radius, threshold), atol=1e-14)
        expected = twins.central_difference(lambda x: twins.penalty(x, threshold), radius)
        np.testing.assert_allclose(slope[i], expected, atol=1e-9)


@pytest.mark.parametrize('threshold', THRESHOLDS)
def test_continuous_with_its_slope_at_both_knots(threshold):
    penalty = entropy.spectral_penalty(threshold)
    for knot, value, slope in ((threshold, 0, 0), (threshold + 1, 1, 2)):
        around = tf.constant([knot - 1e-9, knot + 1e-9], tf.float64)
        np.testing.assert_allclose(penalty.value(around), value, atol=1e-8)
        np.testing.assert_allclose(penalty.slope(around), slope, atol=1e-8)


def test_slope_is_the_derivative():
    penalty = entropy.spectral_penalty()
    radii = tf.constant(np.linspace(0, 3, 40))
    with tf.GradientTape() as tape:
        tape.watch(radii)
        total = tf.reduce_sum(penalty.value(radii))
    np.testing.assert_allclose(tape.gradient(total, radii), penalty.slope(radii), atol=1e-14)
