"""The benchmark's densities once more, for peers that do not speak TensorFlow.

Each is a function of one chain's q [d] written in the few operations that NumPy, JAX and PyTensor
share, equal to the target of `experiments.targets` up to a constant. Like the targets they take
sums and broadcasts as products with constant vectors, and neighbours by a split: under JAX their
gradients then cost what those of the targets cost.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import data as data_sets
from experiments.targets import gaussian as gaussians
from experiments.targets import logistic_regression as regressions
from experiments.targets import stochastic_volatility as volatilities

_BETA_1, _BETA_2, _MU_SCALE = 20.0, 1.5, 2.0


def make(xp: Any, name: str, **arguments: Any) -> tuple[Callable, int]:
    """A log-density in the array library `xp`, and d.

    Args:
      xp: module with the names of NumPy: `numpy`, `jax.numpy` or `pytensor.tensor`.
      name: as for `experiments.targets.make`, and so the others.
      **arguments: of the target.
    """
    makers: dict[str, Callable] = {
        'banana': _banana,
        'gaussian': _gaussian,
        'logistic_regression': _logistic_regression,
        'stochastic_volatility': _stochastic_volatility,
    }
    return makers[name](xp, **arguments)


def _split(xp, x, index):
    """The first `index` entries, and the others."""
    if xp.__name__ == 'pytensor.tensor':  # whose `split` is another
        return x[:index], x[index:]
    return xp.split(x, [index])


def _banana(xp, bend=0.1):
    del xp

    def log_prob(q):
        straight = q[1] + bend * (q[0] ** 2 - 100.0)
        return -(q[0] ** 2 / 100.0 + straight**2) / 2

    return log_prob, 2


def _gaussian(xp, kind='process', num_dims=51, condition_number=100.0):
    whitening, _ = gaussians.whiten(kind, num_dims, condition_number)
    transposed = np.ascontiguousarray(whitening.T)

    def log_prob(q):
        z = xp.dot(q, transposed) if transposed.ndim == 2 else transposed * q
        return -xp.dot(z, z) / 2

    return log_prob, num_dims


def _logistic_regression(xp, data='german'):
    covariates, labels = data_sets.load(data)
    design = regressions.design_matrix(covariates)
    signed_design = np.ascontiguousarray(((2 * labels - 1)[:, np.newaxis] * design).T)
    ones = np.ones(len(labels))

    def log_prob(q):
        logits = xp.dot(q, signed_design)
        size = xp.abs(logits)
        log_likelihood = (logits - size) / 2 - xp.log(1 + xp.exp(-size))
        return xp.dot(log_likelihood, ones) - xp.dot(q, q) / 2

    return log_prob, design.shape[1]


def _stochastic_volatility(xp, num_points=None):
    squared_returns = volatilities.returns(num_points) ** 2
    n = squared_returns.size
    ones = np.ones(n)

    def softplus(x):
        return xp.maximum(x, 0) + xp.log(1 + xp.exp(-xp.abs(x)))

    def log_prob(q):
        h, globals_ = _split(xp, q, n)
        x, mu, s = globals_[0], globals_[1], globals_[2]
        phi, sigma = xp.tanh(x / 2), softplus(s)
        first, later = _split(xp, h, 1)
        earlier, _ = _split(xp, h, n - 1)
        innovation = later - xp.dot(phi[np.newaxis], ones[np.newaxis, 1:]) * earlier
        squares = (1 - phi**2) * first[0] ** 2 + xp.dot(innovation**2, ones[1:])
        log_prior = (
            -(_BETA_1 + 0.5) * softplus(-x)
            - (_BETA_2 + 0.5) * softplus(x)
            - xp.log(1 + (mu / _MU_SCALE) ** 2)
            - xp.log(1 + sigma**2)
            - softplus(-s)
        )
        log_path = -n * xp.log(sigma) - squares / (2 * sigma**2)
        weighted = xp.dot(squared_returns * xp.exp(-h), ones)
        log_data = -(n * mu + xp.dot(h, ones) + xp.exp(-mu) * weighted) / 2
        return log_prior + log_path + log_data

    return log_prob, n + volatilities.NUM_GLOBALS
