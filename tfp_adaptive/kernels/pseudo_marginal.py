"""Correlated pseudo-marginal Metropolis-Hastings (Dahlin, Wills & Ninness 2018)."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfp_adaptive import tuning
from tfp_adaptive.estimators import Estimator
from tfp_adaptive.internal import log_density, packing, random
from tfp_adaptive.internal.numbers import check_accept_prob
from tfp_adaptive.kernels import base, marginal, windowed, windowed_base
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

    def _evaluate(self, parts):
        prior = tf.convert_to_tensor(self.target_log_prob_fn(*parts))
        if prior.shape.rank is None:
            raise ValueError(
                '`prior_log_prob_fn` must return a tensor of statically known rank; use '
                'tf.ensure_shape on its result.'
            )
        posterior = self._posterior(self._starting_noise(prior).noise)
        if not self._design.proposal.uses_score:
            return tf.convert_to_tensor(posterior(*parts)), ()
        return log_density.value_and_gradients(posterior, parts)

    def _posterior(self, noise):
        """The log-estimate of the posterior density with this noise, a function of the parts."""
        estimator = self.parameters['estimator']

        def log_prob(*parts):
            return estimator.log_likelihood(noise, *parts) + self.target_log_prob_fn(*parts)

        return log_prob

    def _starting_noise(self, log_prob) -> marginal.Draw:
        """[*batch, K]: of the last lane, or from a constant seed: `bootstrap_results` has none."""
        if self._fits(log_prob):
            lanes = self._memory.lanes
            last = (self._memory.turn - 1) % self._design.proposal.num_lanes
            rank = log_prob.shape.rank
            return marginal.Draw(
                (), *(tf.gather(x, last, axis=rank, batch_dims=rank) for x in lanes[4:6])
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
        if self._fits(log_prob):
            return self._memory
        layout = packing.make_layout(parts, log_prob.shape)
        noise = self._starting_noise(log_prob)
        noise = marginal.Draw(
            (), *(tf.reshape(x, [-1, x.shape[-1]]) for x in (noise.noise, noise.drift_noise))
        )
        target = self._packed_target(layout, parts)
        packed = packing.pack(layout, parts)
        memory = marginal.first_memory(self._design, target, packed, noise)
        batch_shape = packing.batch_shape_of(layout, parts[0])

        def unpack(x):
            shape = tf.concat([batch_shape, tf.shape(x)[1:]], axis=0)
            return tf.ensure_shape(tf.reshape(x, shape), log_prob.shape.concatenate(x.shape[1:]))

        return tf.nest.map_structure(unpack, memory)

    def _packed_target(self, layout, parts):
        shape = packing.batch_shape_of(layout, parts[0])

        def at(noise):
            unpacked = tf.reshape(noise, tf.concat([shape, tf.shape(noise)[-1:]], axis=0))
            static = parts[0].shape[: layout.batch_rank].concatenate(noise.shape[-1:])
            unpacked = tf.ensure_shape(unpacked, static)
            return log_density.packed_log_density(self._posterior(unpacked), layout, parts)

        return marginal.Marginal(at, layout.event)


class PseudoMarginal(MarginalKernel):
    """Metropolis-Hastings on a likelihood that is estimated without bias.

    The state of a chain is theta; beside it, in `kernel_results.memory`, the chain carries the
    noise u that the estimate was made of, and the chain of (theta, u) has the exact posterior of
    theta. One step, for every chain, with step size eps and learned covariance Sigma:

        theta' ~ q(. | theta, u~),   u' = rho u + sqrt(1 - rho^2) xi,   u~' likewise
        accept (theta', u', u~') with probability min(1, ratio), where
            ratio = p-hat(theta', u') prior(theta') q(theta | theta', u~')
                    / (p-hat(theta, u) prior(theta) q(theta' | theta, u~))
        and during the first `num_adaptation_steps` steps
            eps <- Robbins-Monro;   Sigma <- covariance of the draws, at the end of each window

    A quasi-Newton proposal with a memory of M interleaves M chains, its lanes: what one_step
    returns is the lane it updated, and the state it is given is not read. Autocorrelations of a
    lane show at multiples of M steps only, so effective sizes need many more lags than M.

    Cost: one estimate of the likelihood a step, two (with scores) for quasi-Newton proposals.
    `info.num_gradients` counts them.

    Reference: J. Dahlin, A. Wills, B. Ninness. Correlated pseudo-marginal Metropolis-Hastings
    using quasi-Newton proposals, 2018; G. Deligiannidis, A. Doucet, M. Pitt. The correlated
    pseudo-marginal method. JRSS B 2018.

    Example:
      >>> def joint(x, theta):  # y_t ~ N(x_t, 1), x_t ~ N(theta, 1)
      ...     effects = tfp.distributions.Normal(theta[..., tf.newaxis, tf.newaxis], 1.0)
      ...     data = tf.constant([[0.3], [1.8], [1.1]])
      ...     return effects.log_prob(x) + tfp.distributions.Normal(x, 1.0).log_prob(data)
      >>> estimator = tfpa.estimators.importance_sampling(
      ...     joint, lambda theta: (theta[..., tf.newaxis], 1.0), num_groups=3, num_particles=20)
      >>> kernel = tfpa.PseudoMarginal(
      ...     estimator, lambda theta: -tf.square(theta) / 2, num_adaptation_steps=100)
      >>> draws = tfp.mcmc.sample_chain(
      ...     10, tf.zeros([4]), kernel=kernel, trace_fn=None, seed=(0, 1))
      >>> draws.shape
      TensorShape([10, 4])
    """

    def __init__(
        self,
        estimator: Estimator,
        prior_log_prob_fn: Callable,
        num_adaptation_steps: int = 1000,
        proposal: gaussian.GaussianProposal | Proposal | None = None,
        *,
        auxiliary_correlation: float = 0.95,
        mode: str = 'valid',
        target_accept_prob: float | None = None,
        step_size=1.0,
        pool_fn: Callable[[list], list] | None = None,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          estimator: of the likelihood, made by `tfp_adaptive.estimators`.
          prior_log_prob_fn: callable of the state parts, each [*batch, *event], that returns the
            log-density of the prior, shape [*batch].
          num_adaptation_steps: steps that learn, a Python int; bitwise constant after. Default
            1000.
          proposal: `proposals.random_walk()`, `langevin()` or `quasi_newton()`. Default `None`: the
            random walk, which needs no derivative.
          auxiliary_correlation: rho in [0, 1), of the noise before and after a step; the published
            sigma_u is sqrt(1 - rho^2). Default 0.95.
          mode: 'valid', or 'as_published', whose forward density uses an outdated quasi-Newton
            matrix: that chain has another law than the posterior. Default 'valid'.
          target_accept_prob: in (0, 1), steers eps. Default `None`: 0.2 for the random walk, 0.5
            for `langevin`, 0.3 for `quasi_newton`.
          step_size: factor on eps; a scalar, or one value per chain. Default 1.
          pool_fn: maps a list of tensors, sums over the chains of this replica, to their sums over
            all replicas, once a step; `tfp_adaptive.distribute.sum_over_replicas` on many GPUs or
            hosts. Default `None`: one replica.
          name: prefix of operation names. Default: 'pseudo_marginal'.

        Raises:
          TypeError: if `prior_log_prob_fn` is not callable, or an axis is not made by its module.
          ValueError: if an argument is out of its range.
        """
        parameters = dict(locals())
        design = make_design(estimator, proposal, auxiliary_correlation, mode)
        if tf.is_tensor(num_adaptation_steps):
            raise ValueError(
                '`num_adaptation_steps` must be a Python int, for it decides where windows end; '
                f'got {num_adaptation_steps!r}.'
            )
        if target_accept_prob is None:
            target_accept_prob = design.proposal.target_accept_prob
        check_accept_prob(target_accept_prob)
        self._axes = windowed.Axes(
            mover=marginal.mover(design),
            step_size_rule=tuning.robbins_monro(target_accept_prob),
            metric=marginal.split(tuning.covariance()),
            schedule=tuning.windows(),
            num_adaptation_steps=num_adaptation_steps,
            pool_fn=pool_fn,
        )
        super().__init__(parameters, design, marginal.sampler(design, self._axes), None)

    @property
    def is_calibrated(self) -> bool:
        """Whether the mode is 'valid': the chain is then exact once adaptation has ended."""
        return not self._design.is_published

    def frozen(self, kernel_results: base.KernelResults) -> 'FrozenPseudoMarginal':
        """The learned proposal as a kernel of its own, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up. Its
            noise and lanes go along, for as many chains as it has.

        Returns:
          A `FrozenPseudoMarginal`.

        Raises:
          TypeError: if `kernel_results` are not those of a kernel of this package.
        """
        windowed_base.check_results(kernel_results)
        own = self.parameters
        return FrozenPseudoMarginal(
            own['estimator'],
            own['prior_log_prob_fn'],
            self._design.proposal,
            kernel_results.adaptation.preconditioner,
            memory=kernel_results.memory,
            auxiliary_correlation=own['auxiliary_correlation'],
            mode=own['mode'],
            step_size=kernel_results.step_size,
            name=own['name'],
        )


class FrozenPseudoMarginal(MarginalKernel):
    """Pseudo-marginal Metropolis-Hastings with a fixed proposal; made by `PseudoMarginal.frozen`.

    Example:
      >>> estimator = tfpa.estimators.Estimator(
      ...     1, lambda noise, x: -tf.square(x) / 2 + noise[..., 0] - 0.5, 1)
      >>> kernel = tfpa.PseudoMarginal(estimator, tf.zeros_like, num_adaptation_steps=0)
      >>> frozen = kernel.frozen(kernel.bootstrap_results(tf.zeros([4])))
      >>> draws = tfp.mcmc.sample_chain(
      ...     10, tf.zeros([4]), kernel=frozen, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        estimator: Estimator,
        prior_log_prob_fn: Callable,
        proposal: gaussian.GaussianProposal | Proposal,
        parameters_of_preconditioner: marginal.Scaled,
        *,
        memory: Any = None,
        auxiliary_correlation: float = 0.95,
        mode: str = 'valid',
        step_size=1.0,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          estimator: of the likelihood.
          prior_log_prob_fn: callable of the state parts [*batch, *event] -> [*batch].
          proposal: as of `PseudoMarginal`.
          parameters_of_preconditioner: C and eps.
          memory: `kernel_results.memory` to start from, where it has the chains of the state.
            Default `None`: fresh noise, and all lanes at the state.
          auxiliary_correlation: rho. Default 0.95.
          mode: 'valid' or 'as_published'. Default 'valid'.
          step_size: factor on eps; a scalar, or one value per chain. Default 1.
          name: prefix of operation names. Default: 'frozen_pseudo_marginal'.
        """
        parameters = dict(locals())
        design = make_design(estimator, proposal, auxiliary_correlation, mode)
        sampler = marginal.fixed(design, parameters_of_preconditioner)
        super().__init__(parameters, design, sampler, memory)

    @property
    def is_calibrated(self) -> bool:
        """Whether the mode is 'valid'."""
        return not self._design.is_published


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
            '`proposal` must be made by tfp_adaptive.proposals.random_walk(), langevin() or '
            f'quasi_newton(); got {proposal!r}.'
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
