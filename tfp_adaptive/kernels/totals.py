"""What one step learns from all its chains: sums, which may be pooled, and their means.

Few operations on many figures: an operation on a scalar costs a compiled step as much as one on a
whole row.
"""

from typing import NamedTuple

import tensorflow as tf

from tfp_adaptive.internal import chains
from tfp_adaptive.typing import Tensor


class Totals(NamedTuple):
    """Sums and counts over chains, scalars."""

    num_chains: Tensor
    num_used: Tensor
    """Chains that the gradient is a sum over."""
    num_lost: Tensor
    """Chains that have a density, but whose move had no finite energy."""
    num_alive: Tensor
    """Chains that have a density."""
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
    """Each over the chains that it speaks of, scalars."""

    per_used: Tensor
    """1 over the number of chains in use."""
    lost: Tensor
    accept_prob: Tensor
    acceptance_signal: Tensor
    objective: Tensor
    penalty: Tensor
    log_det: Tensor


def over_chains(dtype: tf.DType, **figures: Tensor) -> Totals:
    """Sums of figures [C], all of them at once.

    Args:
      dtype: of the sums, floating.
      figures: fields of `Totals` but for the number of chains.
    """
    rows = tf.stack([tf.cast(figure, dtype) for figure in figures.values()])
    sums = tf.unstack(chains.sum_of_row(rows), num=len(figures))
    num_chains = tf.cast(chains.count(figures['num_used']), dtype)
    return Totals(num_chains, **dict(zip(figures, sums, strict=True)))


def means(totals: Totals) -> Means:
    """All quotients at once.

    Args:
      totals: of this step, pooled or not.
    """
    used, alive = tf.maximum(totals.num_used, 1), tf.maximum(totals.num_alive, 1)
    quotients = Means(
        per_used=(tf.ones_like(used), used),
        lost=(totals.num_lost, alive),
        accept_prob=(totals.accept_prob, totals.num_chains),
        acceptance_signal=(totals.acceptance_signal, alive),
        objective=(totals.objective, used),
        penalty=(totals.penalty, used),
        log_det=(totals.log_det, totals.num_chains),
    )
    over, under = (tf.stack(column) for column in zip(*quotients, strict=True))
    return Means(*tf.unstack(over / under, num=len(quotients)))
