"""Loops over functions that users write leave TensorFlow as it was where these raise."""

import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.unit.problems import packed
from tfp_adaptive.internal import loops
from tfp_adaptive.sampling.targets import in_turn
from tfp_adaptive.tuning import first_metric


class UserError(Exception):
    """What a user's function raises."""


def fails(*args, **kwargs):
    raise UserError


def map_rows():
    with loops.errors_leave_no_trace():
        tf.map_fn(fails, tf.zeros([3]))


def filter_particles():
    estimator = tfpa.estimators.particle_filter(
        lambda noise, q: noise, fails, lambda y, x, q: -((y - x[..., 0]) ** 2), tf.zeros([4]), 8
    )
    estimator.log_likelihood(tf.zeros([2, estimator.noise_size]), tf.zeros([2]))


def take_chains_in_turn():
    in_turn.log_density(fails, [tf.zeros([3, 2])], 1)


def without_second_derivatives(q):
    return tf.reduce_sum(tf.math.igamma(1 + q**2, 1.0), axis=-1)


def find_the_hessian():
    position = tf.zeros([3, 5])
    target = packed(without_second_derivatives, position)
    first_metric.measure(target, position, tf.ones([5]))


def propose_by_newton():
    estimator = tfpa.estimators.Estimator(1, lambda noise, q: without_second_derivatives(q), 1)
    kernel = tfpa.PseudoMarginal(
        estimator, lambda q: tf.zeros_like(q[..., 0]), 10, proposal=tfpa.proposals.newton()
    )
    kernel.bootstrap_results(tf.zeros([3, 5]))


@pytest.mark.parametrize(
    ('function', 'error'),
    [
        (map_rows, UserError),
        (filter_particles, UserError),
        (take_chains_in_turn, UserError),
        (find_the_hessian, LookupError),
        (propose_by_newton, LookupError),
    ],
)
def test_tfps_chains_run_after_an_error(function, error):
    with pytest.raises(error):
        tf.function(function, autograph=False)()
    kernel = tfp.mcmc.RandomWalkMetropolis(lambda q: -(q**2) / 2)
    draws = tfp.mcmc.sample_chain(2, 0.0, kernel=kernel, trace_fn=None, seed=1)
    assert draws.shape == [2]
