"""Misuse of a public factory is an exception that names the argument and shows what was seen."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tfp_adaptive.kernels import FrozenKernel


def log_prob(q):
    return -tf.reduce_sum(q**2, axis=-1) / 2


def init(preconditioner, event_size=3):
    return preconditioner.init(event_size, tf.float32, tf.constant(1.0))


def two_parts(families):
    """A kernel with `by_part(families)` on a state of two parts at positions 0 and 1."""
    state = [tf.zeros([4, 3]), tf.zeros([4, 2])]
    return bootstrap(
        state, lambda a, b: log_prob(a) + log_prob(b), preconditioner=P.by_part(families)
    )


def bootstrap(state=None, target_log_prob_fn=log_prob, **kwargs):
    kernel = tfpa.EntropyAdaptiveHMC(target_log_prob_fn, 1, **kwargs)
    return kernel.bootstrap_results(tf.zeros([4, 3]) if state is None else state)


tfb = tfp.bijectors
P, E, OPT = tfpa.preconditioners, tfpa.entropy, tfpa.optimizers

# what is wrong, the argument that the message must name, and a part of what was seen
VALUE_ERRORS = [
    (lambda: P.diagonal(coordinates='polar'), 'coordinates', 'polar'),
    (lambda: P.cholesky(coordinates='polar'), 'coordinates', 'polar'),
    (lambda: P.banded(coordinates='polar'), 'coordinates', 'polar'),
    (lambda: init(P.diagonal(-1.0)), 'initial_scale', '-1.0'),
    (lambda: init(P.cholesky(0.0)), 'initial_scale', '0.0'),
    (lambda: init(P.cholesky(float('nan'))), 'initial_scale', 'nan'),
    (lambda: init(P.cholesky([1.0, -2.0, 1.0])), 'initial_scale', '-2.0'),
    (lambda: init(P.cholesky([1.0, 2.0])), 'initial_scale', r'\(2,\)'),
    (lambda: init(P.diagonal([[1.0, 2.0, 3.0]])), 'initial_scale', r'\(1, 3\)'),
    (lambda: init(P.banded(initial_scale=[1.0, 2.0])), 'initial_scale', r'\(2,\)'),
    (lambda: P.banded(bandwidth=0), 'bandwidth', '0'),
    (lambda: P.banded(border_size=-1), 'border_size', '-1'),
    (lambda: init(P.banded(bandwidth=3)), 'bandwidth', 'the state has 3'),
    (lambda: init(P.banded(border_size=2)), 'border_size', 'the state has 3'),
    (lambda: P.block_diagonal(0), 'block_size', '0'),
    (lambda: P.block_diagonal(2.0), 'block_size', '2.0'),
    (lambda: P.block_diagonal(True), 'block_size', 'True'),
    (lambda: P.block_diagonal([]), 'block_size', r'\[\]'),
    (lambda: P.block_diagonal([2, -1]), 'block_size', '-1'),
    (lambda: P.block_diagonal(1, coordinates='polar'), 'coordinates', 'polar'),
    (lambda: init(P.block_diagonal(2)), 'block_size', '3 coordinates'),
    (lambda: init(P.block_diagonal([1, 1])), 'block_size', 'sums to 2'),
    (lambda: init(P.block_diagonal([2, 1], [1.0, 2.0])), 'initial_scale', r'\(2,\)'),
    (lambda: init(P.block_diagonal([2, 1], -1.0)), 'initial_scale', '-1.0'),
    (lambda: P.low_rank(0), 'rank', '0'),
    (lambda: P.low_rank(2.0), 'rank', '2.0'),
    (lambda: P.low_rank(True), 'rank', 'True'),
    (lambda: init(P.low_rank(3)), 'rank', 'the 3 coordinates'),
    (lambda: init(P.low_rank(1, [1.0, 2.0])), 'initial_scale', r'\(2,\)'),
    (lambda: P.real_nvp([]), 'hidden_sizes', r'\[\]'),
    (lambda: P.real_nvp([8, 0]), 'hidden_sizes', '0'),
    (lambda: P.real_nvp(8.0), 'hidden_sizes', '8.0'),
    (lambda: init(P.real_nvp(), 1), 'real_nvp', 'the state has 1'),
    (lambda: init(P.real_nvp(initial_scale=0.0)), 'initial_scale', '0.0'),
    (lambda: two_parts({0: P.cholesky(), 'b': P.diagonal()}), 'families', r"unknown: \['b'\]"),
    (lambda: two_parts({(0, 2): P.cholesky(), 1: P.diagonal()}), 'families', r'unknown: \[2\]'),
    (lambda: two_parts({0: P.cholesky()}), 'families', r'left out: \[1\]'),
    (lambda: two_parts({(0, 1): P.cholesky(), 1: P.diagonal()}), 'families', r'twice: \[1\]'),
    (lambda: two_parts({(0, 1, 0): P.cholesky()}), 'families', r'twice: \[0\]'),
    (lambda: two_parts({0: P.low_rank(3), 1: P.diagonal()}), 'rank', 'the 3 coordinates'),
    (
        lambda: init(P.bijector(lambda p: tfb.Scale(p['a']), {'a': 1.0}, unit={'b': 1.0})),
        'unit',
        "'b'",
    ),
    (
        lambda: bootstrap(preconditioner=P.bijector(lambda p: tfb.SoftmaxCentered(), 1.0)),
        'bijector_fn',
        'from 3 to 4 coordinates',
    ),
    (lambda: tfpa.proposals.leapfrog(0), 'num_leapfrog_steps', '0'),
    (lambda: tfpa.proposals.leapfrog(2.0), 'num_leapfrog_steps', '2.0'),
    (lambda: tfpa.proposals.leapfrog(True), 'num_leapfrog_steps', 'True'),
    (lambda: tfpa.proposals.leapfrog([]), 'num_leapfrog_steps', r'\[\]'),
    (lambda: tfpa.proposals.leapfrog([2, 0]), 'num_leapfrog_steps', r'\[2, 0\]'),
    (lambda: tfpa.proposals.leapfrog(2, 0.0), 'momentum_refreshment', '0.0'),
    (lambda: tfpa.proposals.leapfrog(2, 1.5), 'momentum_refreshment', '1.5'),
    (lambda: tfpa.proposals.leapfrog(tf.constant(2)), 'num_leapfrog_steps', 'Tensor'),
    (lambda: E.russian_roulette(num_exact_terms=-1), 'num_exact_terms', '-1'),
    (lambda: E.russian_roulette('two'), 'num_exact_terms', 'two'),
    (lambda: E.spectral_penalty(threshold=0.0), 'threshold', '0.0'),
    (lambda: E.spectral_penalty(threshold=1.0), 'threshold', '1.0'),
    (lambda: OPT.adam(learning_rate=0.0), 'learning_rate', '0.0'),
    (lambda: OPT.adam(beta_1=1.0), 'beta_1', '1.0'),
    (lambda: OPT.adam(math.nan), 'learning_rate', 'nan'),
    (lambda: OPT.adam(OPT.constant(math.nan)), 'rate', 'nan'),
    (lambda: OPT.adam(epsilon=math.nan), 'epsilon', 'nan'),
    (lambda: OPT.adam(beta_2=-0.1), 'beta_2', '-0.1'),
    (lambda: OPT.adam(epsilon=0.0), 'epsilon', '0.0'),
    (lambda: OPT.acceptance_controller(0.0), 'target_accept_prob', '0.0'),
    (lambda: OPT.acceptance_controller(1.5), 'target_accept_prob', '1.5'),
    (lambda: OPT.acceptance_controller(rate=-1.0), 'rate', '-1.0'),
    (lambda: OPT.acceptance_controller(initial=1e3), 'initial', '1000.0'),
    (lambda: OPT.acceptance_controller(bounds=(-1.0, 2.0)), 'bounds', '-1.0'),
    (lambda: OPT.acceptance_controller(signal='coin'), 'signal', 'coin'),
    (lambda: OPT.penalty_controller(rate=-1.0), 'rate', '-1.0'),
    (lambda: OPT.penalty_controller(initial=1.0), 'initial', '1.0'),
    (lambda: OPT.penalty_controller(bounds=(1e5, 1e3)), 'bounds', '100000.0'),
    (lambda: tfpa.EntropyAdaptiveHMC(log_prob, 0), 'num_leapfrog_steps', '0'),
    (lambda: tfpa.EntropyAdaptiveHMC(log_prob, 1, -1), 'num_adaptation_steps', '-1'),
    (lambda: tfpa.EntropyAdaptiveHMC(log_prob, energy_gradient='slow'), 'energy_gradient', 'slow'),
    (lambda: P.cholesky(min_diagonal=0.1), 'min_diagonal', 'relative'),
    (lambda: P.diagonal(coordinates='euclidean', min_diagonal=0.0), 'min_diagonal', '0.0'),
    (lambda: OPT.rmsprop(0.0), 'learning_rate', '0.0'),
    (lambda: OPT.rmsprop(0.1, decay=1.0), 'decay', '1.0'),
    (lambda: OPT.rmsprop(0.1, offset=0.0), 'offset', '0.0'),
    (lambda: OPT.fixed_weight(-1.0), 'weight', '-1.0'),
    (lambda: OPT.fixed_weight(math.nan), 'weight', 'nan'),
    (lambda: OPT.acceptance_controller(rate=math.nan), 'rate', 'nan'),
    (lambda: OPT.rmsprop(math.nan), 'learning_rate', 'nan'),
    (lambda: tfpa.objectives.l2hmc(decay=1.0), 'decay', '1.0'),
    (lambda: tfpa.GradientAdaptiveMALA(log_prob, score='slow'), 'score', 'slow'),
    (lambda: tfpa.GradientAdaptiveMALA(log_prob, -1), 'num_adaptation_steps', '-1'),
    (lambda: tfpa.GradientAdaptiveMALA(log_prob, target_accept_prob=0), 'target_accept_prob', '0'),
    (lambda: tfpa.GradientAdaptiveRandomWalk(log_prob, -1), 'num_adaptation_steps', '-1'),
    (lambda: tfpa.EntropyAdaptiveHMC(log_prob, target_accept_prob=2.0), 'target_accept_prob', '2'),
    (
        lambda: bootstrap(target_log_prob_fn=lambda q: tf.reduce_sum(-(q**2), axis=0)),
        'target_log_prob_fn',
        r'\(3,\)',
    ),
    (
        lambda: bootstrap(target_log_prob_fn=lambda q: log_prob(tf.stop_gradient(q))),
        'target_log_prob_fn',
        'part 0',
    ),
]

TYPE_ERRORS = [
    (lambda: E.russian_roulette(1, 0.9), 'penalty', '0.9'),
    (lambda: OPT.acceptance_controller(bounds=2.0), 'bounds', '2.0'),
    (lambda: OPT.acceptance_controller(bounds=('low', 'high')), 'bounds', 'low'),
    (lambda: OPT.penalty_controller(rate='fast'), 'rate', 'fast'),
    (lambda: tfpa.EntropyAdaptiveHMC(log_prob, 1, pool_fn='sum'), 'pool_fn', 'str'),
    (lambda: tfpa.AdaptiveMetropolis(log_prob, pool_fn=3), 'pool_fn', 'int'),
    (lambda: tfpa.GradientAdaptiveMALA(3.0), 'target_log_prob_fn', 'float'),
    (lambda: tfpa.GradientAdaptiveRandomWalk(3.0), 'target_log_prob_fn', 'float'),
    (lambda: tfpa.EntropyAdaptiveHMC(3.0), 'target_log_prob_fn', 'float'),
    (
        lambda: FrozenKernel(None, tfpa.proposals.leapfrog(1), P.diagonal(), tf.ones([3])),
        'target_log_prob_fn',
        'NoneType',
    ),
    (lambda: P.by_part({}), 'families', '{}'),
    (lambda: P.by_part([P.cholesky()]), 'families', 'Preconditioner'),
    (lambda: P.by_part({0: P.cholesky}), 'families', 'function cholesky'),
    (lambda: P.by_part({0: 'cholesky'}), 'families', "'cholesky'"),
    (lambda: P.by_part({0: P.real_nvp()}), 'families', 'Flow'),
    (lambda: P.by_part({0: P.by_part({0: P.diagonal()})}), 'families', 'EventPreconditioner'),
    (lambda: P.bijector(tfb.Exp(), 1.0), 'bijector_fn', 'Exp'),
    (lambda: P.bijector(3.0, 1.0), 'bijector_fn', 'float'),
    (
        lambda: bootstrap(preconditioner=P.bijector(lambda p: tf.exp, 1.0)),
        'bijector_fn',
        'function',
    ),
    *(
        (lambda make=make, wrong=wrong: make(wrong), 'preconditioner', seen)
        for make in (
            lambda wrong: tfpa.EntropyAdaptiveHMC(log_prob, preconditioner=wrong),
            lambda wrong: tfpa.GradientAdaptiveMALA(log_prob, preconditioner=wrong),
            lambda wrong: tfpa.GradientAdaptiveRandomWalk(log_prob, preconditioner=wrong),
            lambda wrong: FrozenKernel(log_prob, tfpa.proposals.leapfrog(1), wrong, ()),
        )
        for wrong, seen in ((P.diagonal, 'function diagonal'), ('diagonal', "'diagonal'"))
    ),
    *(
        (lambda make=make: make(P.real_nvp()), 'preconditioner', 'non-linear')
        for make in (
            lambda flow: tfpa.GradientAdaptiveRandomWalk(log_prob, preconditioner=flow),
            lambda flow: FrozenKernel(log_prob, tfpa.proposals.random_walk(), flow, ()),
        )
    ),
    (lambda: bootstrap({'a': tf.zeros([4, 3])}), 'current_state', 'dict'),
    (lambda: bootstrap(tf.zeros([4, 3], tf.int32)), 'current_state', 'int32'),
    (
        lambda: bootstrap(target_log_prob_fn=lambda q: tf.cast(log_prob(q), tf.float64)),
        'target_log_prob_fn',
        'float64',
    ),
]


@pytest.mark.parametrize(
    ('error', 'misuse', 'argument', 'seen'),
    [(ValueError, *row) for row in VALUE_ERRORS] + [(TypeError, *row) for row in TYPE_ERRORS],
)
def test_message_names_the_argument_and_what_was_seen(error, misuse, argument, seen):
    with pytest.raises(error, match=f'`{argument}`(.|\n)*{seen}|{seen}(.|\n)*`{argument}`'):
        misuse()


@pytest.mark.parametrize(
    'use',
    [
        lambda: tfpa.EntropyAdaptiveHMC(log_prob, 1, 0),
        lambda: tfpa.EntropyAdaptiveHMC(log_prob, 1, tf.constant(5)),
        lambda: OPT.adam(beta_1=0.0),
        lambda: OPT.acceptance_controller(initial=1e2),
        lambda: E.russian_roulette(num_exact_terms=0),
        lambda: init(P.banded(bandwidth=2)),
        lambda: init(P.cholesky(tf.constant([1.0, 2.0, 3.0]))),
        lambda: init(P.block_diagonal(3)),
        lambda: init(P.block_diagonal((1, 2), [1.0, 2.0, 3.0])),
        lambda: init(P.low_rank(2)),
        lambda: init(P.real_nvp(np.array([4])[0]), 2),
        lambda: two_parts({(1, 0): P.cholesky()}),
    ],
)
def test_the_edge_of_the_range_is_in_it(use):
    use()


@pytest.mark.parametrize('make', [tfpa.AdaptiveMetropolis, tfpa.KernelAdaptiveMetropolis])
def test_a_density_of_another_dtype_is_named_without_gradients_too(make):
    kernel = make(lambda x: -tf.reduce_sum(tf.cast(x, tf.float64) ** 2, axis=-1))
    with pytest.raises(TypeError, match='must return the dtype of the state; got float64'):
        kernel.bootstrap_results(tf.zeros([4, 3]))


def test_a_gain_may_be_a_number_of_python():
    kernel = tfpa.AdaptiveMetropolis(log_prob, 10, gain=lambda t: 0.1)
    state = tf.ones([4, 3], tf.float64)
    state, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=(0, 1))
    assert np.isfinite(results.adaptation.preconditioner).all()


def test_the_noise_of_an_estimate_that_may_be_zero_is_infinite():
    estimator = tfpa.estimators.Estimator(
        1, lambda noise, x: tf.where(noise[..., 0] > -0.5, -tf.square(x) / 2, -np.inf), 1
    )
    kernel = tfpa.PseudoMarginal(estimator, lambda x: -tf.square(x) / 8, 10)
    assert float(kernel.log_estimate_variance(tf.zeros([10]), (0, 1))) == np.inf
