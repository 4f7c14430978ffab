"""Random effects by pseudo-marginal kernels against quadrature (the paper's first experiment)."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support.statistics import largest_z, moment_z_scores

tfd = tfp.distributions
DATA = 1.0 + np.sqrt(1.04) * np.random.default_rng(5).standard_normal(40)
PROPOSALS = {
    'random_walk': tfpa.proposals.random_walk(),
    'langevin': tfpa.proposals.langevin(),
    'newton': tfpa.proposals.newton(),
    'bfgs': tfpa.proposals.quasi_newton('bfgs', 8),
    'ls': tfpa.proposals.quasi_newton('ls', 8),
}


def log_prior(theta):
    """mu ~ N(0, 1) and sigma half Cauchy, with the Jacobian of log sigma."""
    mu, psi = theta[..., 0], theta[..., 1]
    return -tf.square(mu) / 2 - tf.math.softplus(2 * psi) + psi


def joint(x, theta):
    mu, psi = theta[..., 0, None, None], theta[..., 1, None, None]
    data = tf.constant(DATA[:, None], x.dtype)
    return tfd.Normal(mu, tf.exp(psi)).log_prob(x) + tfd.Normal(x, 1.0).log_prob(data)


def instrument(theta):
    return theta[..., 0, None], tf.exp(theta[..., 1, None])


def quadrature():
    """Means and variances of the posterior on a grid."""
    mu, psi = np.meshgrid(np.linspace(-0.5, 2.5, 601), np.linspace(-12, 2, 1401), indexing='ij')
    variance = 1 + np.exp(2 * psi)
    squares = np.sum(DATA**2) - 2 * mu * np.sum(DATA) + DATA.size * mu**2
    log_density = -DATA.size * np.log(variance) / 2 - squares / (2 * variance)
    log_density += -(mu**2) / 2 - np.log1p(np.exp(2 * psi)) + psi
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    means = [np.sum(weights * grid) for grid in (mu, psi)]
    spreads = [
        np.sum(weights * (grid - mean) ** 2) for grid, mean in zip((mu, psi), means, strict=True)
    ]
    return np.array(means), np.array(spreads)


def sample(proposal, num_particles=20, num_results=3000, **settings):
    estimator = tfpa.estimators.importance_sampling(joint, instrument, DATA.size, num_particles)
    kernel = tfpa.PseudoMarginal(estimator, log_prior, 600, proposal, **settings)
    start = tf.constant([1.0, -1.0], tf.float64)
    return tfpa.sample(
        log_prior, num_results, 800, 20, initial_state=start, kernel=kernel, seed=1, progress=False
    )


@pytest.mark.slow
@pytest.mark.parametrize('name', PROPOSALS)
@pytest.mark.filterwarnings('ignore::tfp_adaptive.sampling.SamplingWarning')
def test_the_posterior_is_that_of_quadrature(name):
    run = sample(PROPOSALS[name])
    # lanes are chains of their own: next to one another they would look independent
    num_lanes = getattr(PROPOSALS[name], 'num_lanes', 1)
    draws = np.reshape(run.states, [3000 // num_lanes, num_lanes * 20, 2])
    z, ess = moment_z_scores(draws, *quadrature())
    assert ess > 200
    assert np.max(np.abs(z)) < largest_z(z.size)
    estimates = {'random_walk': 1, 'langevin': 1, 'newton': 5}.get(name, 2)
    assert run.diagnostics.num_sampling_gradients == 1 + 3000 * estimates


@pytest.mark.parametrize(('scale', 'is_noisy'), [(2.5, True), (1.0, False)])
def test_a_noisy_likelihood_is_reported(scale, is_noisy):
    """The log-estimate of a Gaussian posterior with noise of a known variance."""
    estimator = tfpa.estimators.Estimator(
        1, lambda u, x: -tf.square(x) / 2 + scale * u[..., 0] - scale**2 / 2, 1
    )
    kernel = tfpa.PseudoMarginal(estimator, tf.zeros_like, 100, auxiliary_correlation=0.0)
    variance = kernel.log_estimate_variance(tf.zeros([50]), seed=2)
    assert abs(variance - scale**2) < 5 * scale**2 * np.sqrt(2 / (32 * 50))
    with pytest.warns(tfpa.sampling.SamplingWarning) as warned:
        tfpa.sample(
            tf.zeros_like,
            *(20, 100, 4),
            initial_state=tf.zeros([]),
            kernel=kernel,
            seed=1,
            progress=False,
            jit_compile=False,
        )
    assert any('log-estimate' in str(one.message) for one in warned) == is_noisy
