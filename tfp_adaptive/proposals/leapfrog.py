"""Whitened leapfrog: L steps of Hamiltonian dynamics under the inverse mass C C^T.

Notation: F = step_size * C, gamma_l = F^T grad U(q_l), v the whitened velocity (p = C^{-T} v).

    v <- v - gamma_l / 2;   q_{l+1} = q_l + F v;   v <- v - gamma_{l+1} / 2

Two half kicks at one place are one whole kick; L new gradients, no solve with C. L = 1 is MALA.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains, random
from tfp_adaptive.internal.in_sequence import in_sequence
from tfp_adaptive.internal.numbers import check_number
from tfp_adaptive.typing import (
    ChainState,
    LinearMap,
    LogDensity,
    Move,
    Pairs,
    Proposal,
    Tensor,
)


class LeapfrogNoise(NamedTuple):
    """Noise of a move whose number of steps is random."""

    velocity: Tensor
    """[C, D] standard normal."""
    num_steps: Tensor
    """Scalar int32, shared by the chains."""


class Trajectory(NamedTuple):
    """Whitened quantities of one trajectory, each [C, D]."""

    start_velocity: Tensor
    end_velocity: Tensor
    end_gradient: Tensor
    """gamma_L."""
    weighted_gradients: Tensor
    """w = (L / 2) gamma_0 + sum_{l=1}^{L-1} (L - l) gamma_l."""
    jump: Tensor
    """F^{-1}(q_L - q_0) = L v_0 - w."""


class _Path(NamedTuple):
    """A trajectory between two of its steps, after the kick that both share; each [C, D]."""

    position: Tensor
    velocity: Tensor
    weighted_gradients: Tensor
    midpoint: Tensor
    midpoint_score: Tensor


_MAX_UNROLLED_STEPS = 2


def leapfrog(
    num_leapfrog_steps: int | Sequence[int], momentum_refreshment: float = 1.0
) -> Proposal:
    """L leapfrog steps.

    Args:
      num_leapfrog_steps: L >= 1, a Python int; L = 1 is MALA. Or a sequence of them, from which
        each step draws one, shared by the chains: a random length breaks resonances.
      momentum_refreshment: share of the velocity's variance that is drawn anew at each step, in
        (0, 1]. Default 1: a fresh velocity. Below 1 the rest is kept, and turned round when a move
        is rejected (Horowitz 1991), so that short trajectories join into long ones.

    Returns:
      A `Proposal` that evaluates exactly L new gradients a move.

    Raises:
      ValueError: if a number of steps is not a positive int, or `momentum_refreshment` is not in
        (0, 1].

    Example:
      >>> proposal = tfpa.proposals.leapfrog(num_leapfrog_steps=[1, 2, 3])
    """
    lengths = _check_lengths(num_leapfrog_steps)
    is_random = len(set(lengths)) > 1
    check_refreshment(momentum_refreshment)

    def draw(seed, num_chains, event_size, dtype):
        if not is_random:
            return random.normal([num_chains, event_size], seed, dtype)
        velocity_seed, length_seed = random.split(seed, 2)
        velocity = random.normal([num_chains, event_size], velocity_seed, dtype)
        index = random.below(len(lengths), length_seed)
        return LeapfrogNoise(velocity, tf.gather(tf.constant(lengths), index))

    def propose(target, factor, state, noise):
        velocity, num_steps = noise if is_random else (noise, lengths[0])
        velocity = refreshed(state, velocity, momentum_refreshment)
        return move_from(target, factor, state, velocity, num_steps, max(lengths))

    return Proposal(
        stable_fraction=1 / max(*lengths, 2),
        draw=draw,
        propose=propose,
        pullback=_pullback,
        uses_velocity=momentum_refreshment < 1,
        sequence_limit=_sequence_limit(max(lengths)),
    )


def _check_lengths(num_leapfrog_steps) -> tuple[int, ...]:
    is_sequence = isinstance(num_leapfrog_steps, Sequence) and not isinstance(
        num_leapfrog_steps, str
    )
    lengths = tuple(num_leapfrog_steps) if is_sequence else (num_leapfrog_steps,)
    for length in lengths or ((),):
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or length < 1:
            raise ValueError(
                '`num_leapfrog_steps` must be a Python int of at least 1, or a non-empty sequence '
                f'of them; got {num_leapfrog_steps!r}.'
            )
    return tuple(int(length) for length in lengths)


def check_refreshment(momentum_refreshment: float) -> None:
    """Refuses what is no share of a variance.

    Raises:
      ValueError: if it does not lie in (0, 1].
    """
    check_number('momentum_refreshment', momentum_refreshment)
    if not 0 < momentum_refreshment <= 1:
        raise ValueError(f'`momentum_refreshment` must lie in (0, 1]; got {momentum_refreshment}.')


def refreshed(state: ChainState, normal: Tensor, momentum_refreshment: float) -> Tensor:
    """The velocity [C, D] that a move begins with.

    Args:
      state: with the velocity of the last move, where part of it is kept; zero before the first.
      normal: [C, D] standard normal.
      momentum_refreshment: share of the variance that is drawn anew.
    """
    if momentum_refreshment == 1:
        return normal
    kept = (1 - momentum_refreshment) ** 0.5 * state.velocity
    return tf.where(state.velocity == 0, normal, kept + momentum_refreshment**0.5 * normal)


def _sequence_limit(max_steps) -> int:
    """Size of a target up to which `internal.in_sequence` saves time.

    Measured with ten chains of logistic regressions on two cores: with one gradient a move it saves
    10 to 30 % of a step with 250 to 4,000 rows of data and costs 10 % with 5,800; with more than
    two it costs 5 to 20 % from 270 rows on. A move of two steps starts with a product before
    anything of the target is known, and gains nothing.
    """
    if max_steps == 1:
        return 2**15
    return 2**11 if max_steps > _MAX_UNROLLED_STEPS else 0


def move_from(
    target: LogDensity,
    factor: LinearMap,
    state: ChainState,
    start: Tensor,
    num_steps: int | Tensor,
    max_steps: int,
) -> Move:
    """The move from a given velocity.

    Args:
      target: on packed positions.
      factor: F.
      state: of the chains.
      start: [C, D], the velocity.
      num_steps: L, an int or a tensor.
      max_steps: the most that it can be.
    """
    position, score = in_sequence(
        start[:, 0],
        (state.position, state.score),
        since=[state.position],
        limit=_sequence_limit(max_steps),
    )
    length = tf.cast(num_steps, start.dtype)
    # half a kick at the start
    gradient = -factor.transpose(score)
    path = _Path(position, start - gradient / 2, length / 2 * gradient, position, score)
    path = _inner_steps(target, factor, path, num_steps, max_steps)
    # the last step, and half a kick at its end
    position = path.position + factor.forward(path.velocity)
    log_prob, score = target.value_and_score(position)
    gradient = -factor.transpose(score)
    end = path.velocity - gradient / 2
    kinetic = (chains.squared_norm(end) - chains.squared_norm(start)) / 2
    keeps_velocity = not isinstance(state.velocity, tuple)
    weighted = path.weighted_gradients
    return Move(
        proposed=ChainState(position, log_prob, score, end if keeps_velocity else ()),
        rejected=state._replace(velocity=-start) if keeps_velocity else state,
        energy_change=state.log_prob - log_prob + kinetic,
        midpoint=path.midpoint,
        midpoint_score=path.midpoint_score,
        curvature=(1 - length**2) / 6,
        num_gradients=num_steps,
        trajectory=Trajectory(start, end, gradient, weighted, length * start - weighted),
    )


def _inner_steps(target, factor, path, num_steps, max_steps) -> _Path:
    """The first L - 1 steps, each with the whole kick at its end.

    They do without the log-density, which often costs half as much as its gradient. A single one is
    written out; more become a loop with a static bound, which compiles faster and runs as fast.
    """

    def step(number, path):
        position = path.position + factor.forward(path.velocity)
        score = target.score(position)
        gradient = -factor.transpose(score)
        remaining = tf.cast(num_steps - number, gradient.dtype)
        is_midpoint = tf.equal(number, num_steps // 2)
        return number + 1, _Path(
            position,
            path.velocity - gradient,
            path.weighted_gradients + remaining * gradient,
            tf.where(is_midpoint, position, path.midpoint),
            tf.where(is_midpoint, score, path.midpoint_score),
        )

    if isinstance(num_steps, int) and num_steps <= _MAX_UNROLLED_STEPS:
        for number in range(1, num_steps):
            _, path = step(number, path)
        return path
    _, path = tf.while_loop(
        lambda number, _: number < num_steps, step, (1, path), maximum_iterations=max_steps - 1
    )
    return path


def _pullback(factor, move, energy_weight, position_cotangent) -> Pairs:
    start, end, gradient, weighted, jump = move.trajectory
    weight = energy_weight[:, tf.newaxis]
    pull = weight * gradient
    if position_cotangent is not None:
        pull += factor.transpose(position_cotangent)
    return Pairs(
        left=(pull, -weighted, weight * (end - start)),
        right=(jump, pull, end),
    )
