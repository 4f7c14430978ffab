"""The pseudo-marginal kernel as a TFP kernel and inside `sample`."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.contracts.comparisons import assert_close, assert_identical, assert_same_signature

tfd = tfp.distributions
PROPOSALS = {
    'random_walk': tfpa.proposals.random_walk(),
    'langevin': tfpa.proposals.langevin(),
    'newton': tfpa.proposals.newton(),
    'bfgs': tfpa.proposals.quasi_newton('bfgs', 4),
    'sr1': tfpa.proposals.quasi_newton('sr1', 4),
    'ls': tfpa.proposals.quasi_newton('ls', 4),
}
every_proposal = pytest.mark.parametrize('name', PROPOSALS)


def log_likelihood(noise, x, y):
    """No argument is used more than twice: a graph adds three gradients or more in any order."""
    difference = y - x[..., 0]
    wave = tf.cos(difference)
    exact = -tf.reduce_sum(tf.square(x), axis=-1) / 2 - tf.square(difference) / 2
    return exact + 0.5 * noise[..., 0] * wave - 0.125 * wave**2


def log_prior(x, y):
    del x
    return -tf.square(y) / 8


def make(name, num_adaptation_steps=6, **settings):
    estimator = tfpa.estimators.Estimator(2, log_likelihood, 1)
    return tfpa.PseudoMarginal(
        estimator, log_prior, num_adaptation_steps, PROPOSALS[name], **settings
    )


def start(batch_shape, dtype='float64'):
    x = tf.random.stateless_normal([*batch_shape, 2], (0, 1), dtype=dtype)
    return [x, x[..., 1] / 2]


@functools.cache
def five_chains(name):
    """A kernel, its step in a graph and what six steps of learning lead to."""
    kernel, state = make(name), start([5])
    step = tf.function(kernel.one_step, autograph=False)
    return kernel, step, *run(step, state, kernel.bootstrap_results(state), range(6))


def run(step, state, results, steps):
    for i in steps:
        state, results = step(state, results, seed=tf.constant([3, i]))
    return state, results


@every_proposal
@pytest.mark.parametrize(('batch', 'dtype'), [((), 'float64'), ((2, 3), 'float32')])
def test_structure_shapes_and_dtypes(name, batch, dtype):
    kernel, state = make(name), start(batch, dtype)
    results = kernel.bootstrap_results(state)
    new, after = kernel.one_step(state, results, seed=(0, 1))
    assert_same_signature(new, state)
    assert_same_signature(after, results)
    frozen = kernel.frozen(after)
    again, frozen_results = frozen.one_step(new, frozen.bootstrap_results(new), seed=(0, 1))
    assert_same_signature(again, state)
    assert_same_signature(frozen_results.memory, results.memory)


@every_proposal
def test_what_is_carried_is_the_estimate_at_the_state(name):
    """The results, the lane and a fresh evaluation with the lane's noise agree."""
    kernel, step, state, results = five_chains(name)
    state, results = run(step, state, results, [6])
    frozen = kernel.frozen(results)
    fresh = frozen.bootstrap_results(state)
    assert_close(fresh.target_log_prob, results.target_log_prob, rtol=1e-12)
    assert_close(fresh.grads_target_log_prob, results.grads_target_log_prob, rtol=1e-12)
    assert_identical(fresh.memory, results.memory)


@every_proposal
def test_adaptation_ends_and_what_is_saved_goes_on(name):
    _, step, first, results = five_chains(name)
    end, last = run(step, first, results, range(6, 12))
    assert_identical(last.adaptation, results.adaptation)
    copied = tf.nest.map_structure(lambda x: tf.constant(x.numpy()), (first, results))
    assert_identical(run(step, *copied, range(6, 12)), (end, last))


@pytest.mark.parametrize(
    'name', ['random_walk', 'newton', 'bfgs', pytest.param('ls', marks=pytest.mark.slow)]
)
def test_xla_takes_the_same_steps(name):
    kernel, state = make(name), start([5])
    results = kernel.bootstrap_results(state)
    eager = kernel.one_step(state, results, seed=(0, 1))
    compiled = tf.function(kernel.one_step, jit_compile=True, autograph=False)(
        state, results, seed=(0, 1)
    )
    assert_close(compiled, eager, rtol=1e-8)


@every_proposal
def test_a_step_size_for_every_chain(name):
    """Each chain moves as it would if its step size were that of all."""
    state = start([4])
    kernel = make(name)
    learned = kernel.bootstrap_results(state)
    sizes = [0.5, 1.0, 1.0, 2.0]

    def moved(step_size):
        results = learned._replace(step_size=tf.constant(step_size, tf.float64))
        return kernel.one_step(state, results, seed=(0, 1))[0]

    together, each = moved(sizes), {size: moved(size) for size in set(sizes)}
    for chain, size in enumerate(sizes):
        for part, alone in zip(together, each[size], strict=True):
            np.testing.assert_allclose(part[chain], alone[chain], rtol=1e-10)
    assert any(np.any(np.not_equal(*pair)) for pair in zip(together, state, strict=True))


@every_proposal
def test_chains_are_independent_but_for_what_they_learn(name):
    kernel, state = make(name, 0), start([4])
    frozen = kernel.frozen(kernel.bootstrap_results(state))
    results = frozen.bootstrap_results(state)
    new, _ = frozen.one_step(state, results, seed=(0, 1))
    other = [tf.concat([x[:1], x[1:] + 1], axis=0) for x in state]
    moved, _ = frozen.one_step(other, frozen.bootstrap_results(other), (0, 1))
    assert_close([x[0] for x in moved], [x[0] for x in new], rtol=1e-12)


@every_proposal
def test_chains_that_are_put_elsewhere_have_no_past_there(name):
    """Of a frozen kernel two chains start anew, three go on, and each is what it would be alone."""
    kernel, _, state, results = five_chains(name)
    frozen = kernel.frozen(results)
    other = [tf.concat([x[:2] + 1, x[2:]], axis=0) for x in state]
    mixed = frozen.bootstrap_results(other).memory
    anew = frozen.copy(memory=None).bootstrap_results(other).memory
    old = results.memory
    for got, new, kept in zip(*map(tf.nest.flatten, (mixed, anew, old)), strict=True):
        np.testing.assert_array_equal(got[2:], kept[2:])
        if got.dtype == tf.int32:
            np.testing.assert_array_equal(got[:2], new[:2])
    position = np.concatenate([other[0], other[1][:, None]], axis=1)
    for lane in range(mixed.lanes.position.shape[1]):
        np.testing.assert_array_equal(mixed.lanes.position[:2, lane], position[:2])


def test_a_region_without_estimate_is_never_entered():
    estimator = tfpa.estimators.Estimator(
        1, lambda u, x: tf.where(x > 0, -x, float('nan')) + 0 * u[..., 0], 1
    )
    kernel = tfpa.PseudoMarginal(estimator, tf.zeros_like, 50)

    @tf.function(autograph=False)
    def draw():
        return tfp.mcmc.sample_chain(100, tf.ones([20]), kernel=kernel, trace_fn=None, seed=(0, 1))

    draws = draw()
    assert np.all(draws > 0)
    assert np.all(np.any(draws[1:] != draws[:-1], axis=0))


def test_the_noise_of_a_chain_moves_as_asked():
    """With a flat likelihood the noise is an autoregression of correlation rho."""
    estimator = tfpa.estimators.Estimator(4000, lambda u, x: -tf.square(x) * 0, 1)
    kernel = tfpa.PseudoMarginal(estimator, lambda x: 0 * x, 0, auxiliary_correlation=0.7)
    results = kernel.bootstrap_results(tf.zeros([1]))
    _, after = kernel.one_step(tf.zeros([1]), results, seed=(0, 1))
    before, after = (np.ravel(r.memory.lanes.noise) for r in (results, after))
    assert abs(np.corrcoef(before, after)[0, 1] - 0.7) < 4 * (1 - 0.49) / np.sqrt(4000)
    assert abs(after.var() - 1) < 4 * np.sqrt(2 / 4000)


@pytest.mark.parametrize(
    ('settings', 'error', 'words'),
    [
        ({'auxiliary_correlation': 1.0}, ValueError, '`auxiliary_correlation`'),
        ({'mode': 'fast'}, ValueError, '`mode`'),
        ({'mode': 'as_published'}, ValueError, '`mode`'),
        ({'proposal': tfpa.proposals.leapfrog(2)}, TypeError, '`proposal`'),
        ({'estimator': log_likelihood}, TypeError, '`estimator`'),
        ({'prior_log_prob_fn': 3}, TypeError, '`prior_log_prob_fn`'),
        ({'num_adaptation_steps': tf.constant(3)}, ValueError, '`num_adaptation_steps`'),
    ],
)
def test_misuse(settings, error, words):
    good = {
        'estimator': tfpa.estimators.Estimator(2, log_likelihood, 1),
        'prior_log_prob_fn': log_prior,
    }
    with pytest.raises(error, match=words):
        tfpa.PseudoMarginal(**{**good, **settings})


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ({'method': 'dfp'}, '`method`'),
        ({'memory': 2}, '`memory`'),
        ({'penalty': 0}, '`penalty`'),
        ({'memory': 20, 'min_pairs': 19}, '`min_pairs`'),
        ({'method': 'bfgs', 'penalty': 0.1}, '`penalty`'),
        ({'method': 'sr1', 'relative_penalty': True}, '`relative_penalty`'),
    ],
)
def test_misuse_of_quasi_newton(arguments, words):
    with pytest.raises(ValueError, match=words):
        tfpa.proposals.quasi_newton(**arguments)


def test_the_shortest_memory_has_a_pair():
    """Three lanes leave one pair, which is enough for the default."""
    s, y = np.array([[[0.3, -0.2]]]), np.array([[[0.1, -0.4]]])
    positions = tf.constant(np.concatenate([0 * s, s], axis=1))
    scores = tf.constant(np.concatenate([0 * y, -y], axis=1))
    log_probs = tf.constant([[0.0, 1.0]], tf.float64)
    made = tfpa.proposals.quasi_newton('ls', 3).matrix(
        positions, scores, log_probs, tf.eye(2, dtype=tf.float64)
    )
    assert made.num_pairs.numpy().tolist() == [1]
    assert np.max(np.abs(made.value - np.eye(2))) > 0.01


def test_misuse_of_newton():
    with pytest.raises(ValueError, match='`max_share`'):
        tfpa.proposals.newton(max_share=0.0)


def test_newton_is_the_inverse_of_the_hessian(rng):
    """Against numpy, one chain at a time; eigenvalues are made positive and limited."""
    factor = np.linalg.cholesky([[2.0, 0.5], [0.5, 1.0]])
    sigma = factor @ factor.T
    hessian = rng.standard_normal([4, 2, 2])
    hessian += np.swapaxes(hessian, 1, 2)
    found = tfpa.proposals.newton(max_share=3.0).local_matrix(*map(tf.constant, (hessian, sigma)))
    for h, value in zip(hessian, found.value, strict=True):
        values, vectors = np.linalg.eigh(-factor.T @ h @ factor)
        inner = vectors @ np.diag(1 / np.maximum(np.abs(values), 1 / 3)) @ vectors.T
        np.testing.assert_allclose(value, factor @ inner @ factor.T, rtol=1e-10)
    convex = -np.linalg.inv(sigma)[None]
    exact = tfpa.proposals.newton().local_matrix(tf.constant(convex), tf.constant(sigma))
    np.testing.assert_allclose(exact.value[0], sigma, rtol=1e-10)
    assert not exact.is_corrected[0]


def test_newton_has_a_factor_where_the_hessian_is_extreme():
    """In single precision along an oblique axis; and Sigma itself where there is no Hessian."""
    turn = np.float32([[0.6, -0.8], [0.8, 0.6]])
    steep = -(turn * np.float32([0.2, 1e9])) @ turn.T
    sigma = tf.eye(2)
    make_matrix = tfpa.proposals.newton().local_matrix
    found = make_matrix(tf.constant(steep[np.newaxis]), sigma)
    assert np.isfinite(tf.linalg.cholesky(found.value)).all()
    assert found.is_corrected[0]
    nothing = make_matrix(tf.fill([1, 2, 2], np.float32(np.nan)), 3 * sigma)
    np.testing.assert_allclose(nothing.value[0], 3 * sigma, rtol=1e-6)
    assert nothing.is_corrected[0]


def test_a_run_exports_its_draws_and_log_densities(seed):
    """ArviZ gets the state that `sample` returned, and the log-estimate that was accepted."""
    found = tfpa.sample(
        log_prior,
        12,
        8,
        initial_state=start([3], 'float32'),
        kernel=make('random_walk'),
        num_steps_between_results=0,
        seed=(seed, 1),
        progress=False,
        jit_compile=False,
    )
    data = found.to_arviz()
    for part, name in zip(found.states, data['posterior'].data_vars, strict=True):
        draws = data['posterior'][name].transpose('draw', 'chain', ...)
        np.testing.assert_array_equal(draws, part)
    log_prob = data['sample_stats']['lp'].transpose('draw', 'chain').values
    np.testing.assert_array_equal(log_prob, found.statistics.log_prob)
    # the estimate is kept where the chain stays, and is another one where it moves
    moved = np.diff(found.states[1], axis=0) != 0
    np.testing.assert_array_equal(np.diff(log_prob, axis=0) != 0, moved)
    assert 0 < moved.mean() < 1
