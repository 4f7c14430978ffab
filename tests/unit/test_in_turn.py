"""Models that were written for one chain and hold loops: their chains are evaluated in turn."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tfp_adaptive.internal import graphs
from tfp_adaptive.sampling import cholesky
from tfp_adaptive.sampling.targets.density import Density
from tfp_adaptive.sampling.targets.distributions import from_distribution

tfd = tfp.distributions


def hidden_markov():
    """Ten observations of two hidden states; three coordinates in two parts."""

    def model():
        stay = yield tfd.Sample(tfd.Beta(np.float64(2), np.float64(2)), 2, name='stay')
        mean = yield tfd.Normal(np.float64(0), np.float64(1), name='mean')
        yield tfd.HiddenMarkovModel(
            tfd.Categorical(probs=np.array([0.5, 0.5])),
            tfd.Categorical(probs=tf.stack([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])),
            tfd.Normal(tf.stack([mean, mean + 2]), np.float64(1)),
            10,
            name='y',
        )

    y = np.array([0.1, 2.3, 1.9, 2.2, -0.4, 0.6, 2.8, 1.4, 0.0, -0.2])
    return tfd.JointDistributionCoroutineAutoBatched(model).experimental_pin(y=y)


def recursion(dtype=np.float32):
    """Twelve observations of a path that two parameters determine."""

    def model():
        rate = yield tfd.LogNormal(dtype(-1), dtype(0.5), name='rate')
        start = yield tfd.Normal(dtype(0), dtype(1), name='start')
        path = tf.scan(lambda x, _: x + rate * tf.sin(x), tf.range(12), start)
        yield tfd.Independent(tfd.Normal(path, dtype(0.5)), 1, name='y')

    y = np.linspace(0.5, 3, 12).astype(dtype)
    return tfd.JointDistributionCoroutineAutoBatched(model).experimental_pin(y=y)


def value_score_and_product(log_prob, parts, vectors):
    """Squares of log-densities, their gradients, and products of their Hessians with vectors."""
    with tf.GradientTape() as outer:
        outer.watch(parts)
        with tf.GradientTape() as inner:
            inner.watch(parts)
            value = tf.square(log_prob(*parts))
        scores = inner.gradient(value, parts)
    return value, scores, outer.gradient(scores, parts, output_gradients=vectors)


@pytest.mark.parametrize(
    ('target', 'batch'), [(hidden_markov(), [3]), (recursion(np.float64), [2, 2])]
)
def test_derivatives_in_turn_are_those_of_every_chain_without_graphs(target, batch):
    model = from_distribution(target)
    density = Density(model).model.log_prob_fn
    random = np.random.default_rng(1)
    parts, vectors = (
        [tf.constant(random.normal(size=[*batch, *event])) for event in model.event_shapes]
        for _ in range(2)
    )

    @tf.function(autograph=False, jit_compile=True)
    def found(parts, vectors):
        return tf.nest.flatten(value_score_and_product(density, parts, vectors))

    with cholesky.for_xla():
        everything = found(parts, vectors)
    for chain in np.ndindex(*batch):
        of_chain = [[part[chain] for part in kind] for kind in (parts, vectors)]
        expected = tf.nest.flatten(value_score_and_product(model.log_prob_fn, *of_chain))
        for left, right in zip(everything, expected, strict=True):
            np.testing.assert_allclose(left[chain], right, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings('error:XLA cannot compile')
def test_xla_compiles_a_model_with_a_loop_that_was_written_for_one_chain():
    run = tfpa.sample(recursion(), 200, 200, 4, seed=3, progress=False)
    draws = run.states
    # the means by quadrature over both parameters
    rate, start = np.meshgrid(np.linspace(0.02, 2, 600), np.linspace(-3, 3.5, 600), indexing='ij')
    x, y, log_prob = start, np.linspace(0.5, 3, 12), -(start**2) / 2
    log_prob = log_prob - np.log(rate) - (np.log(rate) + 1) ** 2 / 0.5
    for value in y:
        x = x + rate * np.sin(x)
        log_prob = log_prob - (value - x) ** 2 / 0.5
    weights = np.exp(log_prob - log_prob.max())
    for name, grid in (('rate', rate), ('start', start)):
        mean = np.average(grid, weights=weights)
        sd = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
        error = sd / np.sqrt(run.diagnostics.min_ess)
        assert abs(np.mean(getattr(draws, name)) - mean) < 4 * error


def test_lists_of_lists_are_found_where_a_loop_is_mapped():
    mapped = from_distribution(recursion())
    parts = [tf.zeros([3])] * 2
    trace = tf.function(mapped.log_prob_fn, autograph=False).get_concrete_function(*parts)
    assert graphs.holds_nested_lists(trace.graph)
    scan = tf.function(lambda x: tf.scan(lambda a, _: a + x, tf.range(3), tf.zeros([2])))
    assert not graphs.holds_nested_lists(scan.get_concrete_function(tf.zeros([2])).graph)
