"""Unbiased gradients of log det(I + D) by a randomly truncated Neumann series.

Notation: D = kappa F^T H F, symmetric [D, D], known only through products; eps a random
probe with E[eps eps^T] = I; N the random truncation level.

    d log det(I + D) = tr((I + D)^{-1} dD) = E[ y^T dD eps ],
    y = sum_{k=0}^{N} (-1)^k / P(N >= k) eta_k,   eta_0 = eps,   eta_k = D eta_{k-1}

In relative coordinates d(y^T D eps) = (D eps)^T A y + (D y)^T A eps: two outer products, and D y
is the same sum over D eta_k, so N + 1 products with D are all that is needed; the last of them
also gives the Rayleigh quotient mu of the power iterate eta_N / |eta_N|.

Reference: Hirt, Titsias & Dellaportas (2021), section 3.2 and Appendix A. The k = 0 term, which
their Algorithm 1 drops, belongs in the sum (their Appendix A.1).
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.entropy.spectral_penalty import SpectralPenalty, spectral_penalty
from tfp_adaptive.internal import arguments, chains, random
from tfp_adaptive.typing import Entropy, EntropyEstimate, Pairs, Tensor


class RouletteNoise(NamedTuple):
    """The estimator's own noise; independent of the move's."""

    signs: Tensor
    """[C, D] of -1 and 1."""
    coin: Tensor
    """[C] of 0 and 1; with the signs it makes the probe."""
    num_extra_terms: Tensor
    """Scalar int32, geometric: P(j or more) = 2^-j; shared by the chains."""


class _Series(NamedTuple):
    """The running sums of the series, each [C, D] but for the last."""

    term: Tensor
    image: Tensor
    neumann: Tensor
    neumann_image: Tensor
    probe_image: Tensor
    log_det: Tensor
    """sum_{k >= 1} (-1)^{k+1} / (k P(N >= k)) eta_k, whose product with the probe is log det."""
    squared_length: Tensor
    """[C], of `term`."""


_CONTRACTION = 0.99
_MAX_EXTRA_TERMS = 24


def russian_roulette(num_exact_terms: int = 1, penalty: SpectralPenalty | None = None) -> Entropy:
    """Russian-roulette estimator of the entropy of an L-step leapfrog proposal, L > 1.

    Terms k <= `num_exact_terms` are always taken; each further one with probability 1/2 given the
    one before, and reweighted by 1 / P(N >= k). Where D is not a contraction the series is
    shortened to one (eta_k = D eta_{k-1} min(1, 0.99 |eta_{k-1}| / |D eta_{k-1}|)), which biases it
    just where the penalty acts.

    Args:
      num_exact_terms: sure terms of the Neumann series after the zeroth. Costs
        `num_exact_terms` + 2 Hessian-vector products a step on average.
      penalty: `SpectralPenalty` on |mu|. Default `None`: `spectral_penalty()`.

    Returns:
      An `Entropy`.

    Raises:
      TypeError: if `penalty` is no `SpectralPenalty`.
      ValueError: if `num_exact_terms` is no int, or negative.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=3, num_adaptation_steps=500,
      ...     entropy=tfpa.entropy.russian_roulette(num_exact_terms=3))
    """
    num_exact_terms = arguments.count('num_exact_terms', num_exact_terms, least=0)
    penalty = spectral_penalty() if penalty is None else penalty
    if not isinstance(penalty, SpectralPenalty):
        raise TypeError(
            '`penalty` must be made by tfp_adaptive.entropy.spectral_penalty(); got '
            f'{arguments.shown(penalty)}.'
        )

    def draw(seed, num_chains, event_size, dtype):
        sign_seed, coin_seed, level_seed = random.split(seed, 3)
        signs = random.bits([num_chains, event_size], sign_seed, dtype)
        coin = random.bits([num_chains], coin_seed, dtype)
        uniform = random.uniform([], level_seed, tf.float32)
        level = tf.cast(tf.floor(-tf.math.log(uniform) / tf.math.log(2.0)), tf.int32)
        return RouletteNoise(2 * signs - 1, coin, level)

    def estimate(residual, probe_fn, noise, penalty_weight, is_adapting):
        probe = probe_fn(noise.signs, noise.coin)
        num_products = tf.where(is_adapting, num_exact_terms + noise.num_extra_terms + 1, 0)
        series = _neumann_series(residual, probe, num_exact_terms, num_products)
        return _summarise(series, probe, penalty, penalty_weight, num_products)

    return Entropy(draw, estimate)


def _neumann_series(residual, probe, num_exact_terms, num_products):
    """Sums the first `num_products` terms; one product with D a term."""
    max_products = num_exact_terms + _MAX_EXTRA_TERMS + 1
    weights, log_det_weights = (
        tf.constant(each, probe.dtype) for each in _weights(num_exact_terms, max_products)
    )

    def body(k, series):
        is_first = tf.equal(k, 0)

        def later(x):
            """Nothing before the first term, so that the sums need no zeros to start from."""
            return tf.where(is_first, tf.zeros_like(x), x)

        term, squared_length = _contract(is_first, series.squared_length, series.image)
        image = residual(term)
        return k + 1, _Series(
            term=term,
            image=image,
            neumann=later(series.neumann) + weights[k] * term,
            neumann_image=later(series.neumann_image) + weights[k] * image,
            probe_image=tf.where(is_first, image, series.probe_image),
            log_det=later(series.log_det) + log_det_weights[k] * term,
            squared_length=squared_length,
        )

    # whatever they hold, the first term takes their place
    start = _Series(probe, probe, probe, probe, probe, probe, tf.square(probe[:, 0]))
    _, series = tf.while_loop(
        lambda k, _: k < num_products, body, (0, start), maximum_iterations=max_products
    )
    return series


def _weights(num_exact_terms, num_terms):
    """(-1)^k / P(N >= k), and the same over -k but for 0 at k = 0."""
    k = np.arange(num_terms)
    weights = (-1.0) ** k * 2.0 ** np.maximum(k - num_exact_terms, 0)
    return weights, np.where(k == 0, 0, -weights / np.maximum(k, 1))


def _contract(is_first, squared_length_of_term, image):
    """The next term D eta, shortened to 0.99 |eta| where D stretches, and its squared length.

    The first is the probe as it stands. A length that overflows is no number.
    """
    infinity = tf.constant(float('inf'), image.dtype)
    limit = tf.where(is_first, infinity, _CONTRACTION**2 * squared_length_of_term)
    squared_length = chains.squared_norm(image)
    factor = tf.where(squared_length > limit, tf.sqrt(limit / squared_length), 1)
    factor = tf.where(tf.math.is_finite(squared_length), factor, np.nan)
    return factor[:, tf.newaxis] * image, tf.minimum(squared_length, limit)


def _summarise(series, probe, penalty, penalty_weight, num_products):
    """Pairs of d(log det - penalty_weight * pen(|mu|)); figures are 0 if no term was asked for."""
    to_unit = tf.math.reciprocal_no_nan(tf.sqrt(series.squared_length))
    eigenvalue = chains.sum_of_row(series.term * series.image) * to_unit * to_unit
    radius = tf.abs(eigenvalue)
    log_det = chains.sum_of_row(probe * series.log_det)
    slope = -penalty_weight * penalty.slope(radius) * tf.sign(eigenvalue)
    to_unit, slope = to_unit[:, tf.newaxis], slope[:, tf.newaxis]
    direction = to_unit * series.term
    penalty_image = 2 * slope * to_unit * series.image
    # every image is in the sum, and a term is not finite where the image before is not
    finite = chains.all_finite(series.neumann_image + penalty_image)
    finite &= tf.math.is_finite(eigenvalue + log_det)
    has_terms = num_products > 0

    def known(figure):
        return tf.where(has_terms, figure, tf.zeros_like(figure))

    return EntropyEstimate(
        log_det=known(log_det),
        pairs=Pairs(
            left=(series.probe_image, series.neumann_image, penalty_image),
            right=(series.neumann, probe, direction),
        ),
        forms=Pairs((series.neumann, slope * direction), (probe, direction)),
        is_finite=finite,
        spectral_radius=known(radius),
        penalty=known(penalty.value(radius)),
        num_hessian_vector_products=num_products,
    )
