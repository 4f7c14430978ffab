"""Stochastic volatility with leverage, against a filter on a grid in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from experiments import programs, pseudo_marginal
from experiments.pmmh_peers import PEERS
from experiments.targets import leverage
from tests.support.statistics import largest_z

THETA = np.array([0.3, 1.2, -0.7, -0.9])
DATA = np.array([0.4, -2.1, 1.3, 0.2, -1.6, 2.4])


@pytest.fixture
def without_xla(monkeypatch):
    """Compiling the filter of TFP would take most of the time."""
    monkeypatch.setattr(programs, 'JIT_COMPILE', False)


def normal(x, loc, scale):
    return np.exp(-(((x - loc) / scale) ** 2) / 2) / (np.sqrt(2 * np.pi) * scale)


def by_grid(theta=THETA):
    """log p(y_0, .., y_{T-1}), by sums over 801 values of the log-variance."""
    mu, phi = theta[0], np.tanh(theta[1])
    sigma, rho = np.exp(theta[2]), np.tanh(theta[3])
    x = np.linspace(mu - 6, mu + 6, 801)
    law = normal(x, mu, sigma / np.sqrt(1 - phi**2)) * (x[1] - x[0])
    total = 0.0
    for y in DATA:
        law = law * normal(y, 0, np.exp(x / 2))
        total += np.log(np.sum(law))
        shock = y / np.exp(x / 2)
        loc = mu + phi * (x - mu) + sigma * rho * shock
        moves = normal(x[:, None], loc, sigma * np.sqrt(1 - rho**2)) * (x[1] - x[0])
        law = moves @ (law / np.sum(law))
    return total


def value_and_score(noise, theta):
    estimator = leverage.leverage(DATA, num_particles=40, lag=len(DATA)).estimator
    with tf.GradientTape() as tape:
        tape.watch(theta)
        value = estimator.log_likelihood(noise, theta)
    return value, tape.gradient(value, theta)


def test_likelihood_and_score_of_the_filter(seed):
    """E[p-hat] = p and E[p-hat times its score] = grad p."""
    num = 10_000
    size = leverage.leverage(DATA, num_particles=40).estimator.noise_size
    noise = tf.random.stateless_normal([num, size], [seed, 0], dtype='float64')
    theta = tf.constant(np.tile(THETA, [num, 1]))
    value, score = tf.function(value_and_score, autograph=False)(noise, theta)
    ratio = np.exp(value - by_grid())
    slopes = [(by_grid(THETA + h) - by_grid(THETA - h)) / 2e-5 for h in 1e-5 * np.eye(4)]
    errors = np.column_stack([ratio - 1, ratio[:, None] * score - slopes])
    z = errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(num))
    assert np.all(np.abs(z) < largest_z(5)), z


def test_the_exact_density_term_by_term(rng):
    path = rng.normal(size=[3, DATA.size])
    theta = THETA + rng.normal(size=[3, 4]) / 4
    expected = leverage.log_prior(tf.constant(theta)).numpy()
    for row, (mu, eta, psi, zeta) in enumerate(theta):
        phi, sigma, rho = np.tanh(eta), np.exp(psi), np.tanh(zeta)
        for t, x in enumerate(path[row]):
            expected[row] += np.log(normal(DATA[t], 0, np.exp(x / 2)))
            loc, scale = mu, sigma / np.sqrt(1 - phi**2)
            if t:
                last = path[row, t - 1]
                loc = mu + phi * (last - mu) + sigma * rho * np.exp(-last / 2) * DATA[t - 1]
                scale = sigma * np.sqrt(1 - rho**2)
            expected[row] += np.log(normal(x, loc, scale))
    q = tf.constant(np.concatenate([path, theta], axis=-1))
    np.testing.assert_allclose(leverage.joint_log_prob(DATA, q), expected, rtol=1e-10)


_FILTERS = [
    pytest.param('TFP', 5000),
    pytest.param('BlackJAX', 5000, marks=pytest.mark.slow),
    pytest.param('particles', 500, marks=pytest.mark.slow),
]


@pytest.mark.usefixtures('without_xla')
@pytest.mark.parametrize(('name', 'size'), _FILTERS)
def test_likelihood_of_the_peers(name, size, seed):
    value = PEERS[name](DATA, 40).log_likelihood(np.tile(THETA, [size, 1]), seed)
    ratio = np.exp(np.float64(value) - by_grid())
    assert abs(ratio.mean() - 1) / (ratio.std() / np.sqrt(ratio.size)) < largest_z(1)


@pytest.mark.usefixtures('without_xla')
@pytest.mark.parametrize(('name', 'size'), _FILTERS)
def test_the_peers_resample(name, size, seed):
    """Their log-estimates are as noisy as ours; without resampling they have nine times the
    variance.
    """
    data, num_particles, size = leverage.simulated(150, seed), 30, min(size, 200)
    theta = np.tile(np.float32(leverage.TRUTH), [size, 1])
    estimator = leverage.leverage(data, num_particles).estimator
    noise = tf.random.stateless_normal([size, estimator.noise_size], [seed, 2])
    own = tf.function(estimator.log_likelihood, autograph=False)(noise, tf.constant(theta))
    peer = PEERS[name](data, num_particles).log_likelihood(theta, seed)
    assert np.var(peer) < 3 * np.var(own)


@pytest.mark.parametrize(('name', 'num_steps'), [('BlackJAX', 2500), ('particles', 800)])
@pytest.mark.slow
def test_random_walks_of_the_peers(name, num_steps, seed):
    """They find the posterior that TFP's does."""
    data, start = leverage.simulated(10, 1), np.tile(leverage.TRUTH, [4, 1])
    factor = np.diag([0.7, 0.3, 0.7, 0.2])
    states = [
        np.float64(PEERS[own](data, 20).random_walk(start, factor, size, seed).states[200:])
        for own, size in (('TFP', 2500), (name, num_steps))
    ]
    assert pseudo_marginal.distance(*states) < largest_z(4)


def test_log_prior():
    """Of the published densities on their own scales, with numerical Jacobians."""

    def own(theta):
        return np.array([theta[0], np.tanh(theta[1]), np.exp(theta[2]), np.tanh(theta[3])])

    def expected(theta):
        mu, phi, sigma, rho = own(theta)
        slopes = (own(theta + 1e-6) - own(theta - 1e-6)) / 2e-6
        return (
            stats.norm(0, 2).logpdf(mu)
            + stats.norm(0.9, 0.05).logpdf(phi)
            + stats.gamma(2, scale=1 / 0.05).logpdf(sigma)
            + stats.norm(-0.5, 0.2).logpdf(rho)
            + np.sum(np.log(slopes))
        )

    other = np.array([-1.0, 1.7, 0.4, 0.3])
    found = leverage.log_prior(tf.constant(np.array([THETA, other])))
    np.testing.assert_allclose(found[1] - found[0], expected(other) - expected(THETA), rtol=1e-7)


def test_simulated_returns_have_leverage():
    """E log y^2 = mu - 1.27, and a fall now goes with larger moves next."""
    data = leverage.simulated(100_000, 1)
    log_squares = np.log(data**2)
    assert np.mean(log_squares) == pytest.approx(leverage.TRUTH[0] - 1.27, abs=0.05)
    now, following = data[:-1] / np.exp(1), log_squares[1:]
    slope = np.cov(now, following)[0, 1] / np.var(now)
    # -0.08 exp(-3 v / 8) with v = 0.84, the variance of x
    assert slope == pytest.approx(-0.058, abs=0.03)
