"""Normal proposals shaped by a cloud of points, and so by where the chain stands.

    M(q) = 2 [grad k(q, z_1), ..., grad k(q, z_m)],   H = I - 11^T / m
    R(q) = gamma^2 I + nu^2 M(q) H M(q)^T
    q'   ~ N(q, R(q)),   Delta = U(q') - U(q) + log N(q'; q, R(q)) - log N(q; q', R(q'))

The same z, nu and gamma enter both densities; R does not, for it depends on where it is taken.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains, low_rank_normal, random
from tfp_adaptive.typing import ChainState, Move, Tensor


class Embedding(NamedTuple):
    """The parameters of the proposal."""

    points: Tensor
    """z [m, D], or those of every chain, [C, m, D]."""
    scale: Tensor
    """nu, a scalar or [C, 1, 1]."""
    noise_scale: Tensor
    """gamma, a scalar."""


class EmbeddingNoise(NamedTuple):
    """Standard normal."""

    white: Tensor
    """[C, D]."""
    directions: Tensor
    """[C, m]."""


def draw(num_points: int, seed: Any, num_chains: Any, event_size: int, dtype: Any) -> Any:
    """Noise of a move."""
    white, directions = random.split(seed, 2)
    return EmbeddingNoise(
        random.normal([num_chains, event_size], white, dtype),
        random.normal([num_chains, num_points], directions, dtype),
    )


def root(gradient: Callable, embedding: Embedding, position: Tensor) -> Tensor:
    """The rows nu H M(q)^T, [C, m, D], whose products with themselves are R less the noise."""
    slopes = 2 * gradient(position[:, tf.newaxis], embedding.points)
    # beyond the range of the type there is nothing to learn: the walk is isotropic there
    slopes = tf.where(tf.math.is_finite(slopes), slopes, tf.zeros_like(slopes))
    return embedding.scale * (slopes - tf.reduce_mean(slopes, axis=1, keepdims=True))


def propose(
    gradient: Callable,
    target: Any,
    embedding: Embedding,
    step_size: Tensor,
    state: ChainState,
    noise: EmbeddingNoise,
) -> Move:
    """A move of every chain.

    Args:
      gradient: of a kernel function in its first argument.
      target: `LogDensity`; evaluated once, at q'.
      embedding: parameters.
      step_size: factor on R^(1/2), a scalar or [C, 1].
      state: where the chains are.
      noise: from `draw`.
    """
    scale = embedding.noise_scale * step_size
    factor = step_size if step_size.shape.rank == 0 else step_size[:, tf.newaxis]
    forward = factor * root(gradient, embedding, state.position)
    deviation = low_rank_normal.draw(scale, forward, *noise)
    # a chain that cannot be moved may be anywhere: its shape is that of a place without slopes
    is_finite = chains.all_finite(deviation)
    position = state.position + deviation
    step = chains.keep(is_finite, deviation)
    backward = factor * root(gradient, embedding, position)
    log_prob = target.value(position)
    correction = low_rank_normal.log_prob(scale, forward, step)
    correction -= low_rank_normal.log_prob(scale, backward, -step)
    return Move(
        proposed=ChainState(position, log_prob, state.score),
        rejected=state,
        energy_change=state.log_prob - log_prob + correction,
        midpoint=position,
        midpoint_score=state.score,
        curvature=0,
        num_gradients=0,
        trajectory=(),
    )
