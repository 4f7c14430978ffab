"""Chains walk into a funnel from anywhere, each with a step size of its own."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.problems import packed
from tfp_adaptive.internal import random
from tfp_adaptive.tuning.donors import choose, typical_depth
from tfp_adaptive.tuning.walk import walk

NUM_CHAINS = 16


def funnel(x):
    """Nine unknowns whose log-scale is normal with deviation 3."""
    axis, others = x[..., 0], x[..., 1:]
    terms = tf.reduce_sum((others * tf.exp(-axis / 2)[..., tf.newaxis]) ** 2, axis=-1)
    return -(axis**2) / 18 - terms / 2 - others.shape[-1] * axis / 2


@functools.cache
def program(log_prob_fn, jit_compile):
    @tf.function(autograph=False, jit_compile=jit_compile)
    def run(position, seed, num_steps):
        target = packed(log_prob_fn, tf.zeros_like(position))
        return walk(target, position, seed, num_steps)

    return run


def run(log_prob_fn, position, seed, num_steps, jit_compile=True):
    walked = program(log_prob_fn, jit_compile)
    return walked(position, tf.constant([seed, 0]), tf.constant(num_steps))


def slow_walk(position, seed, num_steps):
    """The same, one chain after the other, of the funnel in double precision."""
    walk_seed, _ = random.split(tf.constant([seed, 0]), 2)
    position, log_step = position.copy(), None

    def value_and_score(q):
        q = tf.constant(q)
        with tf.GradientTape() as tape:
            tape.watch(q)
            value = funnel(q)
        return float(value), tape.gradient(value, q).numpy()

    for index in range(1, num_steps):
        move_seed, accept_seed = random.split(random.fold_in(walk_seed, tf.constant(index)), 2)
        velocities = random.normal(position.shape, move_seed, tf.float64).numpy()
        uniforms = random.uniform([len(position)], accept_seed, tf.float64).numpy()
        if log_step is None:
            slopes = [np.linalg.norm(value_and_score(q)[1]) for q in position]
            log_step = np.log([min(np.sqrt(0.2 / slope), 1.0) for slope in slopes])
        for c, (q, v) in enumerate(zip(position.copy(), velocities, strict=True)):
            h = np.exp(log_step[c])
            value, score = value_and_score(q)
            half = v + h / 2 * score
            new = q + h * half
            new_value, new_score = value_and_score(new)
            end = half + h / 2 * new_score
            accept_prob = np.exp(min(0.0, new_value - value + (v @ v - end @ end) / 2))
            if uniforms[c] < accept_prob:
                position[c] = new
            log_step[c] += 0.5 * (accept_prob - 0.6)
    return position


def test_the_slow_walk(rng, seed):
    position = rng.uniform(-2, 2, size=[3, 5])
    walked = run(funnel, tf.constant(position), seed, 12, jit_compile=False)
    np.testing.assert_allclose(walked.position, slow_walk(position, seed, 12), rtol=1e-8)
    assert not np.any(walked.is_restarted)


@pytest.mark.parametrize('radius', [6.0, 10.0])
def test_it_goes_where_the_volume_is(radius, rng, seed):
    """Starts lie up to 1e6 nats below draws, and their slopes differ as much."""
    position = tf.constant(rng.uniform(-radius, radius, size=[NUM_CHAINS, 10]), tf.float32)
    walked = run(funnel, position, seed, 250)
    # of a draw the nine terms and the square of the axis have means 9 and 1
    axis, others = walked.position[:, 0], walked.position[:, 1:]
    terms = tf.reduce_sum((others * tf.exp(-axis / 2)[:, tf.newaxis]) ** 2, axis=-1)
    assert np.all(np.abs(axis) < 5 * 3)
    assert np.median(terms) < 9 + 4 * 18**0.5
    assert np.sum(walked.is_restarted) <= 1


def test_lost_chains_start_where_others_are(rng, seed):
    """In float32, a log-density of -1e19 does not tell where it grows."""
    position = rng.uniform(-2, 2, size=[NUM_CHAINS, 10])
    position[3] = [-30, *[1000] * 9]
    position = tf.constant(position, tf.float32)
    assert funnel(position)[3] < -1e18
    walked = run(funnel, position, seed, 100)
    np.testing.assert_array_equal(walked.is_restarted, np.arange(NUM_CHAINS) == 3)
    others = np.delete(walked.position.numpy(), 3, axis=0)
    assert np.any(np.all(others == walked.position[3].numpy(), axis=-1))


def test_slopes_whose_squares_overflow(seed):
    """In float32 the square of a slope of 5e19 is infinite."""

    def narrow(x):
        return -tf.reduce_sum(tf.square(x * 1e10), axis=-1) / 2

    walked = run(narrow, tf.fill([NUM_CHAINS, 2], 0.5), seed, 300)
    assert np.all(narrow(walked.position) > -20)


def test_the_first_step_only_looks(rng, seed):
    position = tf.constant(rng.uniform(-2, 2, size=[NUM_CHAINS, 10]), tf.float32)
    walked = run(funnel, position, seed, 1)
    np.testing.assert_array_equal(walked.position, position)


def test_one_gradient_a_step(rng, seed):
    position, calls = tf.constant(rng.uniform(-2, 2, size=[4, 4])), []

    def counted(x):
        calls.append(x)
        return funnel(x)

    walk(packed(counted, position), position, tf.constant([seed, 0]), tf.constant(7))
    assert len(calls) == 7


def test_donors(seed):
    can_give, is_lost = (
        tf.constant([True, False, True, False]),
        tf.constant([False, False, False, True]),
    )
    found = set()
    for i in range(30):
        donor, is_restarted = choose(can_give, is_lost, tf.constant([seed, i]))
        np.testing.assert_array_equal(donor[:3], [0, 1, 2])
        np.testing.assert_array_equal(is_restarted, is_lost)
        found.add(int(donor[3]))
    assert found == {0, 2}
    donor, is_restarted = choose(tf.fill([4], False), is_lost, tf.constant([seed, 0]))
    np.testing.assert_array_equal(donor, range(4))
    assert not np.any(is_restarted)


def test_typical_depth(rng):
    """Of draws of a Gaussian, one in thousands lies deeper."""
    for num_dims in (1, 10, 300):
        depth = np.sum(rng.normal(size=[2000, num_dims]) ** 2, axis=-1) / 2
        assert np.mean(depth > typical_depth(num_dims)) < 0.003
        assert np.max(depth) > typical_depth(num_dims) / 3
