"""Gaussian random walk q' = q + F eps, eps ~ N(0, I); symmetric, so Delta = U(q') - U(q).

While it learns it evaluates the gradient at q', since grad_A log pi(q') = [(F^T s(q')) eps^T]_low;
frozen it evaluates the log-density alone.
"""

from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.typing import ChainState, Move, Pairs, Proposal, Tensor


class Increment(NamedTuple):
    """What the pullback needs, each [C, D]."""

    noise: Tensor
    end_gradient: Tensor
    """F^T grad U(q')."""


def random_walk() -> Proposal:
    """Random-walk Metropolis with a learned covariance C C^T.

    Returns:
      A `Proposal` that evaluates one log-density a move, and one gradient while it learns.

    Reference: Titsias & Dellaportas (2019), section 3.1.

    Example:
      >>> proposal = tfpa.proposals.random_walk()
    """
    learning = _make(_value_and_score, num_gradients=1)
    return _make(_value_alone, num_gradients=0)._replace(learning=learning)


def _make(evaluate, num_gradients) -> Proposal:
    def draw(seed, num_chains, event_size, dtype):
        return random.normal([num_chains, event_size], seed, dtype)

    def propose(target, factor, state, noise):
        position = state.position + factor.forward(noise)
        log_prob, score = evaluate(target, position)
        return Move(
            proposed=ChainState(position, log_prob, state.score),
            rejected=state,
            energy_change=state.log_prob - log_prob,
            midpoint=position,
            midpoint_score=state.score,
            curvature=0,
            num_gradients=num_gradients,
            trajectory=Increment(noise, -factor.transpose(score)),
        )

    def pullback(factor, move, energy_weight, position_cotangent):
        noise, gradient = move.trajectory
        pull = energy_weight[:, tf.newaxis] * gradient
        if position_cotangent is not None:
            pull += factor.transpose(position_cotangent)
        return Pairs((pull,), (noise,))

    return Proposal(
        stable_fraction=0.25,
        draw=draw,
        propose=propose,
        pullback=pullback,
        uses_score=False,
    )


def _value_and_score(target, position):
    return target.value_and_score(position)


def _value_alone(target, position):
    return target.value(position), tf.zeros_like(position)
