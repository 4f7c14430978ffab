"""The lanes of a pseudo-marginal chain: M chains that take turns, with the noise of each.

Notation (C chains, M lanes, D event size, K numbers of noise):
    u, u~   noise of the log-estimate, and of the score that drives the proposal
"""

from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive.typing import Tensor


class Lane(NamedTuple):
    """One lane, or all of them with M after the first dimension."""

    position: Tensor
    """[C, D]."""
    log_prob: Tensor
    """[C] log-estimate of the posterior density, with u."""
    score: Tensor
    """[C, D] estimate of the score with u, or [C, 0]."""
    drift_score: Tensor
    """[C, D] estimate of the score with u~, or [C, 0] where `score` drives."""
    noise: Tensor
    """[C, K] u."""
    drift_noise: Tensor
    """[C, K] u~, or [C, 0]."""
    matrix: Tensor
    """[C, D, D]: Hessian of the log-estimate with u for a Newton proposal; as published, covariance
    of the proposal when the lane last moved. [C, 0, 0] where nobody asks."""


class Memory(NamedTuple):
    """What a chain keeps beside its state."""

    lanes: Lane
    """Leaves [C, M, ...]."""
    turn: Tensor
    """[C] int32, the lane of the next step."""
    num_pairs: Tensor
    """[C] int32, pairs behind the last quasi-Newton matrix."""
    num_corrected: Tensor
    """[C] int32, matrices so far whose spectrum had to be made positive."""


def last(memory: Memory) -> Lane:
    """The lane that the state of the chain belongs to."""
    num_lanes = memory.lanes.log_prob.shape[1]
    return take(memory, (memory.turn - 1) % num_lanes)


def take(memory: Memory, index: Tensor) -> Lane:
    """Lane number index[c] of every chain c."""
    if memory.lanes.log_prob.shape[1] == 1:
        return Lane(*(leaf[:, 0] for leaf in memory.lanes))
    return Lane(*(tf.gather(leaf, index, batch_dims=1) for leaf in memory.lanes))


def others(memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
    """Positions, scores and log-densities of all lanes but the one whose turn it is."""
    num_lanes = memory.lanes.log_prob.shape[1]
    index = (memory.turn[:, tf.newaxis] + tf.range(1, num_lanes)) % num_lanes
    lanes = memory.lanes
    return tuple(
        tf.gather(leaf, index, batch_dims=1)
        for leaf in (lanes.position, lanes.score, lanes.log_prob)
    )


def put(memory: Memory, lane: Lane) -> Memory:
    """The memory with the lane whose turn it is replaced, and the turn passed on."""
    num_lanes = memory.lanes.log_prob.shape[1]
    if num_lanes == 1:
        lanes = Lane(*(leaf[:, tf.newaxis] for leaf in lane))
        return memory._replace(lanes=lanes)
    rows = tf.stack([tf.range(tf.shape(memory.turn)[0]), memory.turn], axis=-1)
    lanes = Lane(
        *(
            leaf if 0 in leaf.shape[2:] else tf.tensor_scatter_nd_update(leaf, rows, new)
            for leaf, new in zip(memory.lanes, lane, strict=True)
        )
    )
    return memory._replace(lanes=lanes, turn=(memory.turn + 1) % num_lanes)


def repeat(lane: Lane, num_lanes: int) -> Memory:
    """All lanes alike: the start of a chain."""
    lanes = Lane(*(tf.stack([leaf] * num_lanes, axis=1) for leaf in lane))
    zeros = tf.zeros_like(lane.log_prob, dtype=tf.int32)
    return Memory(lanes, zeros, zeros, zeros)
