"""The benchmark's densities once more, for peers that do not speak TensorFlow.

Each is a function of one chain's q [d] written in the few operations that NumPy, JAX and PyTensor
share, equal to the target of `experiments.targets` up to a constant.
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
        'gaussian': _gaussian,
        'logistic_regression': _logistic_regression,
        'stochastic_volatility': _stochastic_volatility,
    }
    return makers[name](xp, **arguments)


def _gaussian(xp, kind='process', num_dims=51, condition_number=100.0):
    whitening, _ = gaussians.whiten(kind, num_dims, condition_number)

    def log_prob(q):
        z = xp.dot(whitening, q) if whitening.ndim == 2 else whitening * q
        return -xp.dot(z, z) / 2

    return log_prob, num_dims


def _logistic_regression(xp, data='german'):
    covariates, labels = data_sets.load(data)
    design = regressions.design_matrix(covariates)
    signed_design = (2 * labels - 1)[:, np.newaxis] * design

    def log_prob(q):
        logits = xp.dot(signed_design, q)
        size = xp.abs(logits)
        log_likelihood = (logits - size) / 2 - xp.log(1 + xp.exp(-size))
        return xp.sum(log_likelihood) - xp.dot(q, q) / 2

    return log_prob, design.shape[1]


def _stochastic_volatility(xp, num_points=None):
    squared_returns = volatilities.returns(num_points) ** 2
    n = squared_returns.size

    def softplus(x):
        return xp.maximum(x, 0) + xp.log(1 + xp.exp(-xp.abs(x)))

    def log_prob(q):
        h, x, mu, s = q[:n], q[n], q[n + 1], q[n + 2]
        phi, sigma = xp.tanh(x / 2), softplus(s)
        innovation = h[1:] - phi * h[:-1]
        squares = (1 - phi**2) * h[0] ** 2 + xp.dot(innovation, innovation)
        log_prior = (
            -(_BETA_1 + 0.5) * softplus(-x)
            - (_BETA_2 + 0.5) * softplus(x)
            - xp.log(1 + (mu / _MU_SCALE) ** 2)
            - xp.log(1 + sigma**2)
            - softplus(-s)
        )
        log_path = -n * xp.log(sigma) - squares / (2 * sigma**2)
        weighted = xp.dot(squared_returns, xp.exp(-h))
        log_data = -(n * mu + xp.sum(h) + xp.exp(-mu) * weighted) / 2
        return log_prior + log_path + log_data

    return log_prob, n + volatilities.NUM_GLOBALS
