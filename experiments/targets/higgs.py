"""Logistic regression on many rows, as in Dahlin, Wills & Ninness (2018): HIGGS, or its like.

    P(y_i = 1) = 1 / (1 + exp(-x_i . beta)),   beta ~ N(0, I)

with x_i an intercept and the 21 low-level features of a collision.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from experiments import data
from experiments.targets.logistic_regression import make_log_prob

NUM_FEATURES = 21
_PUBLISHED = np.array(
    [
        *(-0.1259617, -0.36108665, -0.00668518, -0.00197801, -0.38769742, -0.00151412),
        *(0.30569725, -0.00671408, -0.00120516, -0.12841105, -0.04335106, 0.01007512),
        *(-0.00070083, -0.17339557, -0.04404842, 0.00269722, 0.00543087, -0.11826687),
        *(0.04320192, -0.00406945, 0.00722225, -0.06106104),
    ]
)
"""The authors' estimate of beta on the real data, which the labels of the stand-in come from."""


class ManyRows(NamedTuple):
    """A data set and what samplers need to know of its model."""

    rows: tuple[tf.Tensor, tf.Tensor]
    """Design [N, 22] and labels [N] in {-1, 1}, float32."""
    by_row: Callable
    """(rows [*batch, n, ...], beta [*batch, 22]) -> log-likelihood of each row, [*batch, n]."""
    log_prior: Callable
    """beta -> [*batch]."""
    log_prob: Callable
    """beta -> [*batch], of all rows and the prior."""
    mode: np.ndarray
    """Of the posterior, [22]."""
    precision: np.ndarray
    """Minus the Hessian of `log_prob` at the mode, [22, 22]."""


def many_rows(source: str, num_rows: int, seed: int) -> ManyRows:
    """The model of HIGGS, or of a stand-in of the same shape that needs no file.

    Args:
      source: higgs, or stand-in.
      num_rows: N; of HIGGS the first.
      seed: of the stand-in.

    Raises:
      experiments.data.DataError: if HIGGS cannot be had.
    """
    features, labels = data.higgs(num_rows) if source == 'higgs' else stand_in(num_rows, seed)
    design = np.column_stack([np.ones(num_rows), features])
    signs = 2 * labels - 1
    mode, precision = _by_newton(design, signs)
    rows = tf.constant(design, tf.float32), tf.constant(signs, tf.float32)
    return ManyRows(rows, _by_row, _log_prior, make_log_prob(design, labels), mode, precision)


def stand_in(num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, 21] of the kinds that HIGGS has, and labels [n] of the published estimate.

    A lepton, missing energy and four jets: momenta are positive with mean 1, rapidities normal,
    angles uniform, and the tag of a jet has three levels.
    """
    rng = np.random.default_rng(seed)

    def momentum():
        return rng.lognormal(-0.125, 0.5, num_rows)

    def rapidity():
        return rng.standard_normal(num_rows)

    def angle():
        return rng.uniform(-np.sqrt(3), np.sqrt(3), num_rows)

    def tag():
        return rng.choice([0.0, 1.1, 2.2], num_rows, p=[0.5, 0.2, 0.3])

    columns = [momentum(), rapidity(), angle(), momentum(), angle()]
    for _ in range(4):
        columns += [momentum(), rapidity(), angle(), tag()]
    features = np.column_stack(columns)
    logits = _PUBLISHED[0] + features @ _PUBLISHED[1:]
    return features, (rng.uniform(size=num_rows) < 1 / (1 + np.exp(-logits))).astype(np.float64)


def _by_row(rows, beta):
    design, signs = rows
    return tf.math.log_sigmoid(signs * tf.reduce_sum(design * beta[..., tf.newaxis, :], axis=-1))


def _log_prior(beta):
    return -tf.reduce_sum(beta**2, axis=-1) / 2


def _by_newton(design, signs):
    """(mode, precision) of the posterior."""
    beta = np.zeros(design.shape[1])
    for _ in range(20):
        chance = 1 / (1 + np.exp(signs * (design @ beta)))
        gradient = design.T @ (signs * chance) - beta
        precision = (design.T * (chance * (1 - chance))) @ design + np.eye(len(beta))
        beta = beta + np.linalg.solve(precision, gradient)
    return beta, precision
