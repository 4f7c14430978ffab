"""Whitened leapfrog: L steps of Hamiltonian dynamics under the inverse mass C C^T.

Notation: F = step_size * C, gamma_l = F^T grad U(q_l), v the whitened velocity (p = C^{-T} v).

    v <- v - gamma_l / 2;   q_{l+1} = q_l + F v;   v <- v - gamma_{l+1} / 2

with the half kicks between steps fused; L new gradients, no solve with C. L = 1 is MALA.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import ChainState, Move, Pairs, Proposal, Tensor


class Trajectory(NamedTuple):
    """Whitened quantities of one trajectory, each [C, D]."""

    start_velocity: Tensor
    end_velocity: Tensor
    end_gradient: Tensor
    """gamma_L."""
    weighted_gradients: Tensor
    """w = (L / 2) gamma_0 + sum_{l=1}^{L-1} (L - l) gamma_l; F^{-1}(q_L - q_0) = L v_0 - w."""


class _Carry(NamedTuple):
    """State of the integration after some step; velocity still owes half a kick."""

    position: Tensor
    velocity: Tensor
    gradient: Tensor
    log_prob: Tensor
    score: Tensor
    weighted: Tensor
    midpoint: Tensor


_MAX_UNROLLED_STEPS = 4


def leapfrog(num_leapfrog_steps: int) -> Proposal:
    """L leapfrog steps from a fresh velocity.

    Args:
      num_leapfrog_steps: L, a Python int of at least 1. L = 1 is MALA.

    Returns:
      A `Proposal` that evaluates exactly L new gradients a move.

    Raises:
      ValueError: if `num_leapfrog_steps` is not a positive int.

    Example:
      >>> proposal = tfpa.proposals.leapfrog(num_leapfrog_steps=2)
    """
    num_steps = num_leapfrog_steps
    if isinstance(num_steps, bool) or not isinstance(num_steps, (int, np.integer)) or num_steps < 1:
        raise ValueError(
            f'`num_leapfrog_steps` must be a Python int of at least 1; got {num_steps!r}.'
        )

    def draw(seed, num_chains, event_size, dtype):
        return tf.random.stateless_normal([num_chains, event_size], seed, dtype=dtype)

    def propose(target, factor, state, noise):
        gradient = -factor.transpose(state.score)
        carry = _Carry(
            position=state.position,
            velocity=noise,
            gradient=gradient,
            log_prob=state.log_prob,
            score=state.score,
            weighted=(num_steps / 2) * gradient,
            midpoint=state.position,
        )
        carry = _integrate(target, factor, carry, int(num_steps))
        velocity = carry.velocity - carry.gradient / 2
        kinetic = (chains.squared_norm(velocity) - chains.squared_norm(noise)) / 2
        return Move(
            proposed=ChainState(carry.position, carry.log_prob, carry.score),
            energy_change=state.log_prob - carry.log_prob + kinetic,
            midpoint=carry.midpoint,
            trajectory=Trajectory(noise, velocity, carry.gradient, carry.weighted),
        )

    def pullback(factor, move, energy_weight, position_cotangent):
        start, end, gradient, weighted = move.trajectory
        jump = num_steps * start - weighted
        weight = energy_weight[:, tf.newaxis]
        pull = weight * gradient
        if position_cotangent is not None:
            pull += factor.transpose(position_cotangent)
        return Pairs(
            left=tf.concat([pull, -weighted, weight * (end - start)], axis=0),
            right=tf.concat([jump, pull, end], axis=0),
        )

    return Proposal(
        num_gradients=num_steps,
        stable_fraction=1 / max(num_steps, 2),
        curvature=-(num_steps**2 - 1) / 6.0,
        draw=draw,
        propose=propose,
        pullback=pullback,
    )


def _integrate(target, factor, carry, num_steps):
    """Runs all steps: unrolled where short, else as a loop with a static bound."""

    def body(step, carry):
        """Step number `step` (from 1): pay the kick owed, drift, find the new gradient."""
        is_first = tf.cast(tf.equal(step, 1), carry.velocity.dtype)
        velocity = carry.velocity - (1 - is_first / 2) * carry.gradient
        position = carry.position + factor.forward(velocity)
        log_prob, score = target.value_and_score(position)
        gradient = -factor.transpose(score)
        remaining = tf.cast(num_steps - step, velocity.dtype)
        return step + 1, _Carry(
            position=position,
            velocity=velocity,
            gradient=gradient,
            log_prob=log_prob,
            score=score,
            weighted=carry.weighted + remaining * gradient,
            midpoint=tf.where(tf.equal(step, num_steps // 2), position, carry.midpoint),
        )

    if num_steps <= _MAX_UNROLLED_STEPS:
        for step in range(1, num_steps + 1):
            _, carry = body(step, carry)
        return carry
    _, carry = tf.while_loop(
        lambda step, _: step <= num_steps, body, (1, carry), maximum_iterations=num_steps
    )
    return carry
