"""The adapter that turns a `Sampler` into a TFP `TransitionKernel`.

What it does, so that no algorithm has to: packs any TFP state structure with any number of chain
dimensions into [C, D], calls the pure step, splits the seed, and reports under TFP's field names.
"""

import abc
import re
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.internal import chains, log_density, packing
from tfp_adaptive.kernels import checks
from tfp_adaptive.typing import ChainState, Sampler


class ProposedResults(NamedTuple):
    """What is known of a proposed state, accepted or not."""

    target_log_prob: Any
    grads_target_log_prob: Any


class KernelResults(NamedTuple):
    """Kernel results under TFP's field names; the same fields for every kernel of the package.

    Attributes:
      target_log_prob: log-density of the current state, shape [*batch].
      grads_target_log_prob: list of its gradients, shaped like the parts of the state; empty for
        kernels that use none.
      log_accept_ratio: [*batch]; -inf where the proposal's energy was not finite.
      is_accepted: [*batch] bool.
      proposed_state: structure of the state.
      proposed_results: `ProposedResults` at `proposed_state`.
      step_size: the factor on the preconditioner, as TFP's step-size adapters read and write it.
      step: int32, steps since bootstrap.
      seed: int32 [2], the seed this step received; replaying it reproduces the step.
      adaptation: everything learned, shared by all chains.
      info: `tfp_adaptive.typing.Info`, what an observer wants to know.
      velocity: list of the whitened velocities, shaped like the parts of the state; empty for
        kernels that draw a fresh one at each step.
      memory: nest of [*batch, ...], what else a kernel keeps of each chain; most keep nothing.
    """

    target_log_prob: Any
    grads_target_log_prob: Any
    log_accept_ratio: Any
    is_accepted: Any
    proposed_state: Any
    proposed_results: Any
    step_size: Any
    step: Any
    seed: Any
    adaptation: Any
    info: Any
    velocity: Any
    memory: Any = ()


class SamplerKernel(tfp.mcmc.TransitionKernel):
    """Base class: a `Sampler` behind TFP's kernel interface.

    A subclass calls `__init__` with its own constructor arguments and the sampler composed from
    them. All leftmost dimensions of the state that `target_log_prob_fn(*parts)` keeps index
    independent chains; the number of chains is `tf.size(target_log_prob_fn(*parts))`.
    """

    density_argument = 'target_log_prob_fn'

    def __init__(self, parameters: dict, sampler: Sampler):
        """Initializes this kernel.

        Args:
          parameters: the subclass's constructor arguments by name; must hold
            `target_log_prob_fn` (or what `density_argument` names), `step_size` and `name`.
          sampler: the algorithm.

        Raises:
          TypeError: if `target_log_prob_fn` or `pool_fn` is not callable.
          ValueError: if `num_adaptation_steps` is no count, or `step_size` is not positive.
        """
        parameters = {k: v for k, v in parameters.items() if k not in ('self', '__class__')}
        density = parameters[self.density_argument]
        if not callable(density):
            raise TypeError(
                f'`{self.density_argument}` must be a callable that maps state parts to '
                f'log-densities; got {type(density).__name__}.'
            )
        pool_fn = parameters.get('pool_fn')
        if pool_fn is not None and not callable(pool_fn):
            raise TypeError(
                '`pool_fn` must map a list of tensors to their sums over all replicas, as '
                f'tfp_adaptive.distribute.sum_over_replicas does; got {type(pool_fn).__name__}.'
            )
        checks.check_num_adaptation_steps(parameters.get('num_adaptation_steps', 0))
        checks.check_step_size(parameters['step_size'])
        self._parameters = parameters
        self._sampler = sampler

    @property
    def parameters(self) -> dict:
        """Constructor arguments by name."""
        return self._parameters

    @property
    @abc.abstractmethod
    def is_calibrated(self) -> bool:
        """Whether the kernel leaves its target invariant once adaptation has ended."""

    @property
    def num_evaluations_per_step(self) -> int:
        """Evaluations of the log-density alone in a step; 0 where it comes with its gradient."""
        return self._sampler.num_values

    @property
    def target_log_prob_fn(self):
        """The log-density."""
        return self._parameters[self.density_argument]

    @property
    def num_adaptation_steps(self):
        """Steps during which the proposal learns."""
        return self._parameters.get('num_adaptation_steps', 0)

    @property
    def step_size(self):
        """The initial step size; the one in use is in the kernel results."""
        return self._parameters['step_size']

    @property
    def name(self) -> str:
        """Name of the operations this kernel creates."""
        return self._parameters['name'] or _snake_case(type(self).__name__).lstrip('_')

    def experimental_with_shard_axes(self, shard_axis_names):
        """Not available: a part of the state must live on one device.

        Raises:
          NotImplementedError: always, unless `shard_axis_names` is empty.
        """
        if not shard_axis_names:
            return self
        raise NotImplementedError(
            f'{type(self).__name__} cannot shard the state itself over devices; spread its chains '
            'with tfp_adaptive.distribute.sample_chain.'
        )

    def bootstrap_results(self, init_state) -> KernelResults:
        """Kernel results for a first step from `init_state`.

        Args:
          init_state: a tensor, list, tuple or namedtuple of parts, each [*batch, *event], where the
            log-density is finite: a chain that starts elsewhere is rejected for ever and counted.

        Returns:
          `KernelResults` with the structure, shapes and dtypes that `one_step` returns.

        Raises:
          TypeError: for dicts, non-float or mixed dtypes.
          ValueError: for a log-density without gradient, of unknown rank, or of a shape that is
            not the leading dimensions of every part, or a `step_size` of a wrong shape.
        """
        with tf.name_scope(self.name + '_bootstrap_results'):
            parts = packing.to_parts(init_state)
            log_prob, grads = self._evaluate(parts)
            layout = packing.make_layout(parts, log_prob.shape, packing.part_names(init_state))
            dtype = log_prob.dtype
            velocity = self._initial_velocity(parts)
            memory = self._initial_memory(parts, log_prob, grads)
            state = self._chain_state(layout, parts, log_prob, grads, velocity, memory)
            target = self._packed_target(layout, parts)
            return KernelResults(
                target_log_prob=log_prob,
                grads_target_log_prob=grads,
                log_accept_ratio=tf.zeros_like(log_prob),
                is_accepted=tf.zeros_like(log_prob, dtype=tf.bool),
                proposed_state=packing.like_state(init_state, parts),
                proposed_results=ProposedResults(log_prob, grads),
                step_size=checks.initial_step_size(self.step_size, log_prob),
                step=tf.constant(0),
                seed=tf.zeros([2], tf.int32),
                adaptation=self._sampler.init(target, state),
                info=self._sampler.init_info(dtype),
                velocity=velocity,
                memory=memory,
            )

    def one_step(self, current_state, previous_kernel_results, seed=None):
        """Takes one step of every chain.

        Args:
          current_state: structure of parts [*batch, *event].
          previous_kernel_results: `KernelResults` of the previous step or of `bootstrap_results`.
          seed: PRNG seed; see `tfp.random.sanitize_seed`.

        Returns:
          next_state: structure of `current_state`.
          kernel_results: `KernelResults`.
        """
        with tf.name_scope(self.name + '_one_step'):
            previous = previous_kernel_results
            seed = tfp.random.sanitize_seed(seed)
            parts = packing.to_parts(current_state)
            names = packing.part_names(current_state)
            layout = packing.make_layout(parts, previous.target_log_prob.shape, names)
            batch_shape = packing.batch_shape_of(layout, parts[0])
            state = self._chain_state(
                layout,
                parts,
                previous.target_log_prob,
                previous.grads_target_log_prob,
                previous.velocity,
                previous.memory,
            )
            noise = self._sampler.draw(
                seed, chains.count(state.log_prob), layout.event_size, state.position.dtype
            )
            transition, adaptation, info = self._sampler.step(
                self._packed_target(layout, parts),
                state,
                previous.adaptation,
                previous.info,
                noise,
                chains.per_chain(previous.step_size),
                previous.step,
            )
            new, proposed = transition.state, transition.proposed

            def unpack(packed):
                return packing.unpack(layout, packed, batch_shape, like=parts)

            def gradients(score):
                return unpack(score) if self._sampler.uses_score else ()

            def per_chain(x):
                return tf.reshape(x, batch_shape)

            def remembered(x, before):
                shape = tf.concat([batch_shape, tf.shape(x)[1:]], axis=0)
                return tf.ensure_shape(tf.reshape(x, shape), before.shape)

            return packing.like_state(current_state, unpack(new.position)), KernelResults(
                target_log_prob=per_chain(new.log_prob),
                grads_target_log_prob=gradients(new.score),
                log_accept_ratio=per_chain(transition.log_accept_ratio),
                is_accepted=per_chain(transition.is_accepted),
                proposed_state=packing.like_state(current_state, unpack(proposed.position)),
                proposed_results=ProposedResults(
                    per_chain(proposed.log_prob), gradients(proposed.score)
                ),
                step_size=previous.step_size,
                step=previous.step + 1,
                seed=seed,
                adaptation=adaptation,
                info=info,
                velocity=unpack(new.velocity) if self._sampler.uses_velocity else (),
                memory=tf.nest.map_structure(remembered, new.memory, previous.memory),
            )

    def _evaluate(self, parts):
        """The log-density and, for samplers that use it, its gradients."""
        if self._sampler.uses_score:
            return log_density.value_and_gradients(self.target_log_prob_fn, parts)
        return log_density.checked_value(self.target_log_prob_fn(*parts), parts), ()

    def _initial_velocity(self, parts):
        """Zeros, in whose place the first step draws: `bootstrap_results` has no seed."""
        return [tf.zeros_like(part) for part in parts] if self._sampler.uses_velocity else ()

    def _initial_memory(self, parts, log_prob, grads):
        """What else is kept of each chain, [*batch, ...]."""
        del parts, log_prob, grads
        return ()

    def _chain_state(self, layout, parts, log_prob, grads, velocity, memory=()):
        position = packing.pack(layout, parts)
        return ChainState(
            position,
            tf.reshape(log_prob, [-1]),
            packing.pack(layout, grads) if self._sampler.uses_score else position[:, :0],
            packing.pack(layout, velocity) if self._sampler.uses_velocity else (),
            tf.nest.map_structure(
                lambda x: tf.reshape(x, [-1, *x.shape[log_prob.shape.rank :]]), memory
            ),
        )

    def _packed_target(self, layout, parts):
        return log_density.packed_log_density(
            self.target_log_prob_fn, layout, parts, self._sampler.sequence_limit
        )


def _snake_case(name: str) -> str:
    """'GradientAdaptiveMALA' -> 'gradient_adaptive_mala'."""
    return re.sub(r'(?<=[a-z])(?=[A-Z])', '_', name).lower()
