"""What the kernels on an estimated likelihood share: their arguments, their target, their noise."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.estimators import Estimator
from tfp_adaptive.internal import log_density, packing, random
from tfp_adaptive.kernels import base, lanes, marginal
from tfp_adaptive.proposals import gaussian
from tfp_adaptive.typing import Proposal

_STREAM = 0x6E6F6973  # any constant that no other stream uses
_MODES = ('valid', 'as_published')


class MarginalKernel(base.SamplerKernel):
    """Base class of kernels whose likelihood is an estimate."""

    density_argument = 'prior_log_prob_fn'

    def __init__(self, parameters: dict, design: marginal.Design, sampler: Any, memory: Any):
        """Initializes this kernel.

        Args:
          parameters: the subclass's constructor arguments by name.
          design: of the step.
          sampler: made of it.
          memory: to start from where its shape fits, or `None`.
        """
        super().__init__(parameters, sampler)
        self._design = design
        self._memory = memory

    def log_estimate_variance(self, state, seed, num_repeats: int = 32):
        """How noisy the log-likelihood is from one step to the next, with the state held fixed.

        Args:
          state: of the chains, structure of parts [*batch, *event].
          seed: see `tfp.random.sanitize_seed`.
          num_repeats: pairs of estimates per chain. Default 32.

        Returns:
          Half the variance of log p(theta, u') - log p(theta, u), a scalar: the mean over chains.
          For `auxiliary_correlation=0` it is the variance of the log-estimate. Infinite where an
          estimate of the likelihood may be zero.
        """
        parts = packing.to_parts(state)
        prior = tf.convert_to_tensor(self.target_log_prob_fn(*parts))
        shape = [*prior.shape, self._design.noise_size]
        seeds = random.split(tfp.random.sanitize_seed(seed), 2)

        @tf.function(autograph=False)
        def square(index):
            noise, draw = (
                random.normal(shape, random.fold_in(one, index), prior.dtype) for one in seeds
            )
            moved = marginal.refreshed(self._design, noise, draw)
            estimate = self.parameters['estimator'].log_likelihood
            change = estimate(moved, *parts) - estimate(noise, *parts)
            # of two estimates of zero, NaN
            return tf.where(
                tf.math.is_nan(change), tf.constant(np.inf, change.dtype), tf.square(change)
            )

        changes = [square(tf.constant(index)) for index in range(num_repeats)]
        return tf.reduce_mean(tf.stack(changes)) / 2

    def _evaluate(self, parts):
        prior = log_density.checked_value(
            self.target_log_prob_fn(*parts), parts, name='prior_log_prob_fn'
        )
        if prior.shape.rank is None:
            raise ValueError(
                '`prior_log_prob_fn` must return a tensor of statically known rank; use '
                'tf.ensure_shape on its result.'
            )
        noise = self._starting_noise(prior).noise
        if not self._design.proposal.uses_score:
            estimate = self.parameters['estimator'].log_likelihood(noise, *parts)
            return log_density.checked_value(estimate, parts, name='estimator') + prior, ()
        return log_density.value_and_gradients(self._posterior(noise), parts)

    def _posterior(self, noise):
        """The log-estimate of the posterior density with this noise, a function of the parts."""
        estimator = self.parameters['estimator']

        def log_prob(*parts):
            return estimator.log_likelihood(noise, *parts) + self.target_log_prob_fn(*parts)

        return log_prob

    def _starting_noise(self, log_prob) -> marginal.Draw:
        """[*batch, K]: of the last lane, or from a constant seed: `bootstrap_results` has none."""
        if self._fits(log_prob):
            kept = self._memory.lanes
            last = (self._memory.turn - 1) % self._design.proposal.num_lanes
            rank = log_prob.shape.rank
            return marginal.Draw(
                (), *(tf.gather(x, last, axis=rank, batch_dims=rank) for x in kept[4:6])
            )
        seeds = random.fold_in(tf.zeros([2], tf.int32), tf.constant(_STREAM))
        seeds = random.split(random.of_replica(seeds), 2)
        sizes = self._design.noise_size, self._design.drift_noise_size
        shape = tf.unstack(tf.shape(log_prob), num=log_prob.shape.rank)
        shape = [
            length if size is None else size
            for length, size in zip(shape, log_prob.shape, strict=True)
        ]
        return marginal.Draw(
            (),
            *(
                random.normal([*shape, size], seed, log_prob.dtype)
                for size, seed in zip(sizes, seeds, strict=True)
            ),
        )

    def _fits(self, log_prob):
        return self._memory is not None and self._memory.turn.shape == log_prob.shape

    def _initial_memory(self, parts, log_prob, grads):
        del grads
        layout = packing.make_layout(parts, log_prob.shape)
        noise = self._starting_noise(log_prob)
        noise = marginal.Draw(
            (), *(tf.reshape(x, [-1, x.shape[-1]]) for x in (noise.noise, noise.drift_noise))
        )
        target = self._packed_target(layout, parts)
        packed = packing.pack(layout, parts)
        batch_shape = packing.batch_shape_of(layout, parts[0])

        def unpack(x):
            shape = tf.concat([batch_shape, tf.shape(x)[1:]], axis=0)
            return tf.ensure_shape(tf.reshape(x, shape), log_prob.shape.concatenate(x.shape[1:]))

        def first():
            memory = marginal.first_memory(self._design, target, packed, noise)
            return tf.nest.map_structure(unpack, memory)

        if not self._fits(log_prob):
            return first()
        # a chain that is put elsewhere has no past there
        stays = unpack(tf.reduce_all(self._last_position(log_prob) == packed, axis=-1))
        return tf.cond(
            tf.reduce_all(stays),
            lambda: self._memory,
            lambda: tf.nest.map_structure(
                lambda old, new: tf.where(_columns(stays, old), old, new), self._memory, first()
            ),
        )

    def _last_position(self, log_prob):
        """[C, D], where the memory has left its chains."""
        flat = tf.nest.map_structure(
            lambda x: tf.reshape(x, tf.concat([[-1], tf.shape(x)[log_prob.shape.rank :]], axis=0)),
            self._memory,
        )
        return lanes.last(flat).position

    def _packed_target(self, layout, parts):
        shape = packing.batch_shape_of(layout, parts[0])

        def at(noise):
            unpacked = tf.reshape(noise, tf.concat([shape, tf.shape(noise)[-1:]], axis=0))
            static = parts[0].shape[: layout.batch_rank].concatenate(noise.shape[-1:])
            unpacked = tf.ensure_shape(unpacked, static)
            return log_density.packed_log_density(self._posterior(unpacked), layout, parts)

        return marginal.Marginal(at, layout.event)


def _columns(mask, x):
    """The mask of chains with as many dimensions as what the chains carry."""
    more = tf.ones([x.shape.rank - mask.shape.rank], tf.int32)
    return tf.reshape(mask, tf.concat([tf.shape(mask), more], axis=0))


def make_design(estimator, proposal, correlation, mode) -> marginal.Design:
    """The composition, with its arguments checked.

    Raises:
      TypeError: if an axis is not made by its module.
      ValueError: if a value is out of its range.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            '`estimator` must be made by a function like '
            f'tfp_adaptive.estimators.importance_sampling; got {estimator!r}.'
        )
    if proposal is None or (isinstance(proposal, Proposal) and not proposal.uses_score):
        proposal = gaussian.walk()
    if not isinstance(proposal, gaussian.GaussianProposal):
        raise TypeError(
            '`proposal` must be made by tfp_adaptive.proposals.random_walk(), langevin(), '
            f'newton() or quasi_newton(); got {proposal!r}.'
        )
    if not 0 <= correlation < 1:
        raise ValueError(f'`auxiliary_correlation` must lie in [0, 1); got {correlation!r}.')
    if mode not in _MODES:
        raise ValueError(f"`mode` must be 'valid' or 'as_published'; got {mode!r}.")
    if mode == 'as_published' and proposal.matrix is None:
        raise ValueError("`mode` 'as_published' is about `proposals.quasi_newton()` alone.")
    return marginal.Design(
        estimator.noise_size, proposal, float(correlation), mode == 'as_published'
    )
