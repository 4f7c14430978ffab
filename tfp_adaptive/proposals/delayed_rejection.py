"""Leapfrog moves that are tried once more, with a shorter step, where they are rejected.

Notation: z = (q, v); F_h(z) = L leapfrog steps of size h and the velocity turned round, a map that
is its own inverse; H(z) = U(q) + |v|^2 / 2; a(z, y) = min(1, exp(H(z) - H(y))).

    y1 = F_h(z), accepted with probability a1 = a(z, y1); if rejected
    y2 = F_{h/k}(z), accepted with probability
        min(1, exp(H(z) - H(y2)) (1 - a(y2, F_h(y2))) / (1 - a1))

so that each stage is in detailed balance by itself. F_h(y2) is the first move that a chain at y2
would have been offered.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains, random
from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.proposals.leapfrog import leapfrog, move_from, refreshed
from tfp_adaptive.typing import LinearMap, Proposal, Tensor

_NEVER = 500.0
"""An energy that is rejected: no logarithm of a uniform number is as low."""


class DelayedNoise(NamedTuple):
    """Noise of both stages."""

    velocity: Tensor
    """[C, D] standard normal."""
    log_uniform: Tensor
    """[C], of the first stage; the kernel draws that of the second."""


def delayed_rejection(
    num_leapfrog_steps: int = 1, momentum_refreshment: float = 0.1, ratio: float = 8.0
) -> Proposal:
    """Leapfrog moves, tried once more with a step `ratio` times as short where they are rejected.

    For targets whose curvature varies from place to place, such as funnels: the first step suits
    the wide places and the second one the narrow ones, and the chain is exact with both. Only for
    kernels that do not learn: `frozen.copy(proposal=...)`.

    Args:
      num_leapfrog_steps: L >= 1 of either stage, a Python int. Default 1.
      momentum_refreshment: share of the velocity's variance that is drawn anew at each step, in
        (0, 1]. Default 0.1: where steps are short, keeping the direction brings the chain out.
      ratio: k > 1. Default 8.

    Returns:
      A `Proposal` that evaluates exactly 3 L new gradients a move.

    Raises:
      ValueError: if an argument is out of its range.

    Reference: A. Mira. On Metropolis-Hastings algorithms with delayed rejection. Metron 59, 2001;
    C. Modi, A. Barnett, B. Carpenter. Delayed rejection Hamiltonian Monte Carlo for sampling
    multiscale distributions. Bayesian Analysis 2023; with partial refreshment: G. Turok, C. Modi,
    B. Carpenter. Sampling from multiscale densities with delayed rejection generalized Hamiltonian
    Monte Carlo. 2024.

    Example:
      >>> kernel = tfpa.EntropyAdaptiveHMC(target_log_prob_fn, 1, num_adaptation_steps=500)
      >>> frozen = kernel.frozen(kernel.bootstrap_results(state))
      >>> bold = frozen.copy(proposal=tfpa.proposals.delayed_rejection())
    """
    one = leapfrog(num_leapfrog_steps, momentum_refreshment)
    if not isinstance(num_leapfrog_steps, (int, np.integer)):
        raise ValueError(f'`num_leapfrog_steps` must be one int; got {num_leapfrog_steps!r}.')
    check_number('ratio', ratio)
    if not ratio > 1:
        raise ValueError(f'`ratio` must be greater than 1; got {ratio}.')

    def draw(seed, num_chains, event_size, dtype):
        velocity_seed, accept_seed = random.split(seed, 2)
        velocity = one.draw(velocity_seed, num_chains, event_size, dtype)
        uniform = random.uniform([num_chains], accept_seed, dtype)
        return DelayedNoise(velocity, tf.math.log(uniform))

    def propose(target, factor, state, noise):
        short = LinearMap(
            forward=lambda x: factor.forward(x) / ratio,
            transpose=lambda x: factor.transpose(x) / ratio,
        )

        def move(factor, state, velocity):
            return move_from(
                target, factor, state, velocity, num_leapfrog_steps, num_leapfrog_steps
            )

        velocity = refreshed(state, noise.velocity, momentum_refreshment)
        first = move(factor, state, velocity)
        second = move(short, state, velocity)
        back = move(factor, second.proposed, -second.trajectory.end_velocity)
        is_accepted = tf.math.is_finite(first.energy_change)
        is_accepted &= noise.log_uniform < -first.energy_change
        change = second.energy_change + _log_reject_prob(first) - _log_reject_prob(back)
        # a chain at y2 would have gone on to F_h(y2), and never have come here
        change = tf.where(back.energy_change <= 0, tf.constant(_NEVER, change.dtype), change)
        change = tf.where(tf.math.is_finite(second.energy_change), change, np.inf)
        change = tf.where(is_accepted, tf.zeros_like(change), change)
        return second._replace(
            proposed=tf.nest.map_structure(
                functools.partial(chains.where, is_accepted), first.proposed, second.proposed
            ),
            energy_change=change,
            num_gradients=3 * num_leapfrog_steps,
            # of each chain another one of the three
            trajectory=(),
        )

    return one._replace(draw=draw, propose=propose)


def _log_reject_prob(move):
    """[C] log(1 - min(1, exp(-Delta))) where that is not zero; without a finite energy, log 1."""
    change = move.energy_change
    tiny = np.finfo(change.dtype.as_numpy_dtype).tiny
    log_prob = tf.math.log(tf.maximum(-tf.math.expm1(-tf.maximum(change, 0)), tiny))
    return tf.where(tf.math.is_finite(change), log_prob, tf.zeros_like(change))
