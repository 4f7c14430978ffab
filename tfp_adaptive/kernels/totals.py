"""What one step learns from all its chains: sums, which may be pooled, and their means."""

from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.kernels import metropolis
from tfp_adaptive.typing import ChainState, EntropyEstimate, Move, Tensor, Transition


class Totals(NamedTuple):
    """Sums and counts over chains, scalars."""

    num_chains: Tensor
    num_used: Tensor
    """Chains that the gradient is a sum over."""
    num_lost: Tensor
    """Chains that can move, but whose move had no finite energy."""
    num_alive: Tensor
    """Chains that have a density and a score."""
    accept_prob: Tensor
    acceptance_signal: Tensor
    objective: Tensor
    penalty: Tensor
    log_det: Tensor

    @property
    def num_nonfinite(self):
        """Chains whose move had no finite energy, int32; without a density none has."""
        return tf.cast(self.num_chains - self.num_alive + self.num_lost, tf.int32)


class Means(NamedTuple):
    """Scalars; each is a mean over the chains it is defined for."""

    per_used: Tensor
    """1 over the number of chains that the gradient is a sum over."""
    lost: Tensor
    """Share of the chains that can move whose move had no finite energy."""
    accept_prob: Tensor
    acceptance_signal: Tensor
    objective: Tensor
    penalty: Tensor
    log_det: Tensor


def totals_of(
    axes: Any,
    state: ChainState,
    move: Move,
    transition: Transition,
    is_used: Tensor,
    entropy: EntropyEstimate,
) -> Totals:
    """Sums over the chains of this replica.

    Args:
      axes: with the objective and the controller of the entropy weight.
      state: before the move.
      move: of the step.
      transition: that came of it.
      is_used: [C] chains whose move and entropy are finite.
      entropy: with zeros for all other chains.
    """
    # a chain whose start has no density or no score can never move: nothing is learned from it
    is_alive = chains.can_move(state)
    log_volume = chains.keep(is_used, tf.zeros_like(state.log_prob) + move.log_volume)
    statistic = axes.objective.statistic(move.energy_change, state.position, move.proposed.position)
    return over_chains(
        state.position.dtype,
        num_used=is_used,
        num_lost=is_alive & ~metropolis.is_finite(transition),
        num_alive=is_alive,
        accept_prob=metropolis.accept_prob(transition),
        acceptance_signal=chains.keep(is_alive, axes.entropy_weight.signal(transition)),
        objective=chains.keep(is_used, statistic),
        penalty=entropy.penalty,
        log_det=entropy.log_det + log_volume,
    )


def over_chains(dtype: tf.DType, **figures: Tensor) -> Totals:
    """Sums of figures [C].

    Args:
      dtype: of the sums, floating.
      figures: fields of `Totals` but for the number of chains.
    """
    num_chains = tf.cast(chains.count(figures['num_used']), dtype)
    sums = {name: tf.reduce_sum(tf.cast(figure, dtype)) for name, figure in figures.items()}
    return Totals(num_chains, **sums)


def means(totals: Totals) -> Means:
    """The quotients of the sums and their counts.

    Args:
      totals: of this step, pooled or not.
    """
    used, alive = tf.maximum(totals.num_used, 1), tf.maximum(totals.num_alive, 1)
    return Means(
        per_used=1 / used,
        lost=totals.num_lost / alive,
        accept_prob=totals.accept_prob / totals.num_chains,
        acceptance_signal=totals.acceptance_signal / alive,
        objective=totals.objective / used,
        penalty=totals.penalty / used,
        log_det=totals.log_det / totals.num_chains,
    )
