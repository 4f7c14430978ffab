"""The best step size of a Gaussian from its scales, and what makes it small: a condition number."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal.numbers import check_accept_prob
from tfp_adaptive.typing import Tensor


def condition_number(scales: Any) -> Tensor:
    """What the cost of HMC grows with: kappa = (sum_n (s_max / s_n)^4)^(1/4).

    Unlike the ratio of the extreme scales it counts how many are small: a thousand scales of 1 and
    one of 10 cost more than one of each.

    Args:
      scales: [..., D] positive standard deviations along the principal axes, as the sampler sees
        them, that is after preconditioning.

    Returns:
      [...], at least 1.

    Raises:
      ValueError: if a scale is known not to be positive.

    Reference: I. Langmore, M. Dikovsky, S. Geraedts, P. Norgaard, R. von Behren. A condition number
    for Hamiltonian Monte Carlo. arXiv:1905.09813.

    Example:
      >>> round(float(tfpa.tuning.condition_number([1.0, 1.0, 2.0])), 3)
      2.397
    """
    scales = _check_scales(scales)
    least, most = tf.reduce_min(scales, axis=-1, keepdims=True), tf.reduce_max(scales, axis=-1)
    # relative to the least, so that no power overflows
    return most / least[..., 0] * tf.reduce_sum((least / scales) ** 4, axis=-1) ** 0.25


def step_size_formula(scales: Any, target_accept_prob: float = 0.65) -> Tensor:
    """The step size at which HMC on a Gaussian accepts as often as wanted.

    A leapfrog step of size eps conserves |v|^2 + x^2 (1 - eps^2 / (4 s^2)) / s^2 along an axis of
    scale s. So the energy error of a trajectory is eps^2 / (8 s^4) times the change of x^2, whose
    variance, averaged over phases, is 2 s^4: the error has variance eps^4 / (32 s^4). Summed over
    many axes it is normal with mean half its variance V, so that

        a = 2 Phi(-sqrt(V) / 2),    eps = (32 V / sum_n s_n^-4)^(1/4) = s_max (32 V)^(1/4) / kappa

    where kappa is `condition_number`. It holds for trajectories of many steps and random, or just
    incommensurate, lengths, in dimensions where no single axis decides.

    Args:
      scales: [..., D] positive standard deviations along the principal axes, as the sampler sees
        them, that is after preconditioning.
      target_accept_prob: a, in (0, 1). Default 0.65.

    Returns:
      [...], in the units of the scales.

    Raises:
      ValueError: if a scale is known not to be positive, or `target_accept_prob` is out of range.

    Reference: Langmore et al., arXiv:1905.09813, for kappa and the law of the energy error; A.
    Beskos et al. Optimal tuning of the hybrid Monte Carlo algorithm. Bernoulli 2013, for the
    acceptance probability.

    Example:
      >>> tall = tfpa.tuning.step_size_formula(tf.ones([100]))
      >>> wide = tfpa.tuning.step_size_formula(tf.ones([1600]))
      >>> round(float(tall / wide), 3)
      2.0
    """
    check_accept_prob(target_accept_prob)
    scales = _check_scales(scales)
    probability = tf.constant(target_accept_prob / 2, scales.dtype)
    variance = 4 * tf.math.ndtri(probability) ** 2
    largest = tf.reduce_max(scales, axis=-1)
    return largest * (32 * variance) ** 0.25 / condition_number(scales)


def _check_scales(scales) -> Tensor:
    scales = tf.convert_to_tensor(scales, name='scales')
    if not scales.dtype.is_floating:
        scales = tf.cast(scales, tf.float32)
    value = tf.get_static_value(scales)
    if scales.shape.rank == 0 or (value is not None and not (np.asarray(value) > 0).all()):
        raise ValueError(f'`scales` must be positive, of shape [..., D]; got {scales}.')
    return scales
