"""Statistical evidence: p-values and z-scores whose false-alarm rate is known.

Every check comes down to one number that is compared with a bound on its false-alarm rate, so no
tolerance is guessed. Each family of tests also proves that a wrong sampler crosses the bound.
"""

import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support.targets import Target, to_packed

FALSE_ALARM = 1e-4
"""A right kernel fails a test with at most this probability, a whole run with about 1 %."""

DETECTION = 1e-5
"""A wrong kernel must be rejected with a p-value below this."""


def take_steps(kernel, state, num_steps, seed, step=None):
    """(state, mean acceptance probability) after a few steps in graph mode, all chains at once."""
    step = tf.function(kernel.one_step, autograph=False) if step is None else step
    results = kernel.bootstrap_results(state)
    accept_prob = []
    for i in range(num_steps):
        state, results = step(state, results, seed=tf.constant([seed, i]))
        accept_prob.append(np.mean(np.exp(np.minimum(results.log_accept_ratio, 0))))
    return state, np.mean(accept_prob)


def projections(target: Target, state, seed, num_directions=6):
    """[C, M] one-dimensional functions of each chain: the log-density sees most of what can go
    wrong with an energy, random directions and a product of two coordinates what it cannot see.
    """
    x = to_packed(state).astype(np.float64)
    directions = np.random.default_rng([seed, 1]).standard_normal([x.shape[1], num_directions])
    log_prob = np.reshape(target.log_prob_of(state), [-1, 1])
    return np.concatenate([log_prob, x @ directions, x[:, :1] * x[:, -1:], x[:, :2]], axis=1)


def same_law_p_value(first, second):
    """Two-sample Kolmogorov-Smirnov over the columns of [n, M] samples, Bonferroni-corrected."""
    p_values = [
        scipy.stats.ks_2samp(a, b, method='asymp').pvalue
        for a, b in zip(first.T, second.T, strict=True)
    ]
    return min(1.0, len(p_values) * min(p_values))


def no_drift_p_value(before, after):
    """Whether the means of paired samples [n, M] moved, Bonferroni-corrected over the columns.

    Far sharper than two independent samples, since a step moves each chain only a little.
    """
    change = after - before
    z = np.mean(change, axis=0) / (np.std(change, axis=0) / np.sqrt(len(change)))
    return min(1.0, 2 * z.size * scipy.stats.norm.sf(np.max(np.abs(z))))


def invariance_p_value(
    kernel, target: Target, seed, batch_shape=(50_000,), num_steps=10, step=None
):
    """(p-value, mean acceptance): do a few steps from exact draws leave exact draws?

    The p-value holds for two tests together: the law after the steps against fresh draws, and the
    drift of the same functions and their squares along the chains. `step` is the kernel's if it has
    been traced already.
    """
    start = target.draw([seed, 0], batch_shape)
    end, accept_prob = take_steps(kernel, start, num_steps, seed, step)
    before, after, fresh = (
        projections(target, state, seed)
        for state in (start, end, target.draw([seed, 1], batch_shape))
    )
    drift = no_drift_p_value(
        np.concatenate([before, before**2], axis=1), np.concatenate([after, after**2], axis=1)
    )
    return min(1.0, 2 * min(same_law_p_value(after, fresh), drift)), accept_prob


def mean_and_error(draws):
    """Means of [n, C, M] draws, their Monte Carlo standard errors and effective sample sizes."""
    ess = tfp.mcmc.effective_sample_size(
        tf.constant(draws), filter_beyond_positive_pairs=True, cross_chain_dims=1
    ).numpy()
    return np.mean(draws, axis=(0, 1)), np.std(draws, axis=(0, 1)) / np.sqrt(ess), ess


def moment_z_scores(draws, mean, variance, mean_error=0.0, variance_error=0.0):
    """z-scores of the first two moments of [n, C, D] draws, and the smallest effective size.

    Args:
      draws: [n, C, D].
      mean: [D] known means.
      variance: [D] known variances.
      mean_error: [D] standard errors of the known means, for a reference that was itself sampled.
      variance_error: [D] standard errors of the known variances.

    Returns:
      z: [2 D], standard normal for a right sampler.
      ess: the smallest effective sample size of all 2 D means.
    """
    draws = np.asarray(draws, np.float64)
    average, error, ess = mean_and_error(draws)
    square, square_error, square_ess = mean_and_error((draws - mean) ** 2)
    z = [
        (average - mean) / np.hypot(error, mean_error),
        (square - variance) / np.hypot(square_error, variance_error),
    ]
    return np.concatenate(z), min(ess.min(), square_ess.min())


def largest_z(num_scores, false_alarm=FALSE_ALARM):
    """The bound that the largest of `num_scores` |z| exceeds with probability `false_alarm`."""
    return scipy.stats.norm.isf(false_alarm / (2 * num_scores))
