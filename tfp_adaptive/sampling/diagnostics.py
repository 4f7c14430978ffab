"""Effective sample sizes and R-hat of a run, in blocks that keep memory flat."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

_BLOCK_BYTES = 2**26
_MIN_DRAWS = 4


@dataclass(frozen=True)
class Diagnostics:
    """What a run achieved. Counts are per chain unless said otherwise.

    Attributes:
      ess: effective sample size of every coordinate over all chains together, in the structure of
        one event (`tfp.mcmc.effective_sample_size`, filter_beyond_positive_pairs).
      ess_of_squares: the same of every squared coordinate: how well scales are known.
      rhat: split R-hat of every coordinate.
      accept_prob: mean acceptance probability while sampling.
      num_divergences: steps, over all chains, with a log acceptance ratio below -1000 or not
        finite, while sampling.
      num_warmup_gradients: target gradients a chain spent on warm-up; `None` if the kernel does
        not count them.
      num_warmup_hessian_vector_products: likewise, each about two gradients.
      num_sampling_gradients: target gradients a chain spent on sampling; `None` likewise.
    """

    ess: Any
    ess_of_squares: Any
    rhat: Any
    accept_prob: float | None
    num_divergences: int | None
    num_warmup_gradients: int | None
    num_warmup_hessian_vector_products: int | None
    num_sampling_gradients: int | None

    @property
    def min_ess(self) -> float:
        """Smallest effective sample size over all coordinates of q and q^2; NaN if any is."""
        return float(np.min(_concatenate([self.ess, self.ess_of_squares])))

    @property
    def max_rhat(self) -> float:
        """Largest split R-hat over all coordinates; NaN if any is."""
        return float(np.max(_concatenate(self.rhat)))


def _concatenate(structure: Any) -> np.ndarray:
    """All entries in one array, so that a NaN anywhere reaches the extremes."""
    return np.concatenate([np.ravel(leaf) for leaf in tf.nest.flatten(structure)])


def diagnose(states: Any, batch_rank: int) -> tuple[Any, Any, Any]:
    """ESS of q, ESS of q^2 and split R-hat of every coordinate.

    Args:
      states: draws, structure of [num_results, *batch, *event].
      batch_rank: number of chain dimensions.

    Returns:
      Three structures of [*event]; NaN with fewer than four draws.

    Example:
      >>> ess, ess_of_squares, rhat = tfpa.sampling.diagnose(np.random.normal(size=[50, 4, 3]), 1)
    """
    parts = [_diagnose_part(np.asarray(part), batch_rank) for part in tf.nest.flatten(states)]
    ess, ess_of_squares, rhat = zip(*parts, strict=True)
    return tuple(
        tf.nest.pack_sequence_as(states, list(figures)) for figures in (ess, ess_of_squares, rhat)
    )


def _diagnose_part(draws: np.ndarray, batch_rank: int):
    num_draws, event = draws.shape[0], draws.shape[1 + batch_rank :]
    flat = draws.reshape([num_draws, int(np.prod(draws.shape[1 : 1 + batch_rank])), -1])
    if num_draws < _MIN_DRAWS:
        return (np.full(event, np.nan),) * 3
    # an FFT of twice the length in complex numbers is what the estimator holds at a time
    bytes_per_coordinate = 4 * flat.itemsize * num_draws * flat.shape[1]
    width = max(1, _BLOCK_BYTES // bytes_per_coordinate)
    blocks = [_diagnose_block(flat[..., i : i + width]) for i in range(0, flat.shape[-1], width)]
    return tuple(np.concatenate(figures).reshape(event) for figures in zip(*blocks, strict=True))


def _diagnose_block(draws: np.ndarray):
    draws = tf.convert_to_tensor(draws)

    def ess(x):
        return tfp.mcmc.effective_sample_size(
            x, cross_chain_dims=1 if x.shape[1] > 1 else None, filter_beyond_positive_pairs=True
        )

    def over_chains(x):
        return (x if x.shape.rank == 1 else x[0]).numpy()

    rhat = tfp.mcmc.potential_scale_reduction(draws, split_chains=True)
    return over_chains(ess(draws)), over_chains(ess(tf.square(draws))), rhat.numpy()
