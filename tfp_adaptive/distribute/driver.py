"""`sample_chain` over the replicas of a `tf.distribute` strategy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.distribute import pooling, replicas
from tfp_adaptive.distribute.replicas import LocalValues
from tfp_adaptive.internal import arguments, random


class DistributedChains(NamedTuple):
    """What a run leaves behind in one process; see `gather` for the chains of the others.

    Attributes:
      all_states: `LocalValues` of draws, each in the structure of the state with parts
        [num_results, C, *event], C the chains of that replica.
      trace: `LocalValues` of what `trace_fn` returned, stacked [num_results, ...].
      final_state: `LocalValues` of states [C, *event], to go on from.
      final_kernel_results: `LocalValues` of kernel results; what they have learned together is
        the same on all replicas.
    """

    all_states: LocalValues
    trace: LocalValues
    final_state: LocalValues
    final_kernel_results: LocalValues


class _Plan(NamedTuple):
    """Which steps are taken and which are kept, as in `tfp.mcmc.sample_chain`."""

    num_results: int
    num_burnin_steps: int
    steps_per_result: int
    first_step: int

    @property
    def num_steps(self) -> int:
        return self.num_burnin_steps + 1 + (self.num_results - 1) * self.steps_per_result

    def row(self, index):
        """Where step number `index` is written, until a later one overwrites it."""
        late = index - self.num_burnin_steps + self.steps_per_result - 1
        return tf.maximum(0, late // self.steps_per_result)


def sample_chain(
    strategy: tf.distribute.Strategy,
    num_results: int,
    current_state: Any,
    kernel: tfp.mcmc.TransitionKernel,
    *,
    previous_kernel_results: LocalValues | None = None,
    num_burnin_steps: int = 0,
    num_steps_between_results: int = 0,
    first_step: int = 0,
    trace_fn: Callable | None = None,
    seed: Any = None,
    jit_compile: bool = False,
) -> DistributedChains:
    """Runs chains on many devices or hosts, as `tfp.mcmc.sample_chain` does on one.

    Chains are dealt to the replicas of `strategy` as evenly as possible, each with noise of its
    own. A kernel with a `pool_fn` learns one proposal from all of them: it pools once a step, for
    which the loop over steps has to be outside the replicas. Every other kernel runs its loop
    inside of them, where nobody waits for anybody and XLA can compile it: warm up with the former,
    then go on with `kernel.frozen(chains.final_kernel_results.replicas[0])`.

    With several hosts, every process makes the same call with the same arguments. Called inside a
    `tf.function` it becomes part of that program; otherwise it traces one of its own.

    Args:
      strategy: for instance `tf.distribute.MirroredStrategy()` for all GPUs of one host, or
        `tf.distribute.MultiWorkerMirroredStrategy()` for many.
      num_results: draws per chain.
      current_state: a structure of parts [C, ...] holding the chains of all replicas, the same in
        every process; or `LocalValues`, such as the `final_state` of an earlier run.
      kernel: any kernel without adaptation, or one that pools what it learns, or whose chains learn
        each from itself alone.
      previous_kernel_results: `final_kernel_results` of an earlier run with this kernel. Default
        `None`: bootstrapped, on the replicas and with pooling.
      num_burnin_steps: steps before the first draw. Default 0.
      num_steps_between_results: steps thrown away between two draws. Default 0.
      first_step: index of the first step, for a run that goes on: N steps, and N more with
        `first_step=N` and the same seed, are 2N steps at once, bit for bit. Default 0.
      trace_fn: (state, kernel_results) -> nest of tensors to keep with every draw of a replica.
        Default `None`: nothing.
      seed: PRNG seed; see `tfp.random.sanitize_seed`. It is folded with the replica's id and with
        the step's index.
      jit_compile: whether to compile each replica's loop with XLA. Default `False`.

    Returns:
      A `DistributedChains`.

    Raises:
      TypeError: if `strategy`, `current_state`, `kernel`, `trace_fn`, `seed` or `jit_compile` is
        not what it must be.
      ValueError: if a count is out of range, if the chains cannot be dealt, if `kernel` would
        learn something else on each replica, or if it pools and `jit_compile` is set.

    Example:
      >>> strategy = tf.distribute.MirroredStrategy(['CPU:0'])
      >>> kernel = tfpa.GradientAdaptiveMALA(
      ...     target_log_prob_fn, num_adaptation_steps=10,
      ...     pool_fn=tfpa.distribute.sum_over_replicas)
      >>> warm = tfpa.distribute.sample_chain(strategy, 1, state, kernel, num_burnin_steps=9)
      >>> frozen = kernel.frozen(warm.final_kernel_results.replicas[0])
      >>> chains = tfpa.distribute.sample_chain(strategy, 5, warm.final_state, frozen)
      >>> chains.all_states.replicas[0].shape
      TensorShape([5, 4, 3])
    """
    _check(
        strategy,
        kernel,
        num_results=num_results,
        num_burnin_steps=num_burnin_steps,
        num_steps_between_results=num_steps_between_results,
        first_step=first_step,
    )
    arguments.check_trace_fn(trace_fn)
    arguments.check_flag('jit_compile', jit_compile)
    seed = arguments.stateless_seed(seed)
    pooling.check_pooling(kernel, strategy.num_replicas_in_sync)
    is_pooled = strategy.num_replicas_in_sync > 1 and pooling.pools(kernel)
    if is_pooled and jit_compile:
        raise ValueError(
            '`jit_compile` must be False for a `kernel` that pools: XLA has no sum over replicas. '
            'Warm up without it, then compile the sampling with the frozen kernel.'
        )
    plan = _Plan(num_results, num_burnin_steps, num_steps_between_results + 1, first_step)

    def run(state, results, seed):
        if not isinstance(state, LocalValues):
            state = replicas.split(strategy, state)
        ids = replicas.replica_ids(strategy)
        replicas.check_local('current_state', state, ids)
        if results is None:
            results = replicas.apply(strategy, kernel.bootstrap_results, state)
        replicas.check_local('previous_kernel_results', results, ids)
        if is_pooled:
            return _loop_outside(strategy, kernel, plan, keep, (state, results), seed)
        return _loop_inside(strategy, kernel, plan, keep, (state, results), seed, jit_compile)

    def keep(state, results):
        if trace_fn is None:
            return state, ()
        return state, arguments.traced_tensors(trace_fn(state, results))

    program = run if tf.inside_function() else tf.function(run, autograph=False)
    return program(current_state, previous_kernel_results, seed)


def _loop_outside(strategy, kernel, plan, keep, start, seed):
    """One loop around the steps of all replicas, which meet in each."""

    def one_step(index, state, results):
        def on_replica(state, results):
            step_seed = random.fold_in(random.of_replica(seed), index)
            return kernel.one_step(state, results, seed=step_seed)

        return _unzip(replicas.apply(strategy, on_replica, state, results))

    end, kept = _scan(plan, one_step, lambda *now: replicas.apply(strategy, keep, *now), start)
    return DistributedChains(*_unzip(kept), *end)


def _loop_inside(strategy, kernel, plan, keep, start, seed, jit_compile):
    """A loop of its own on every replica."""

    @tf.function(jit_compile=jit_compile, autograph=False)
    def chain(state, results, seed):
        def one_step(index, state, results):
            return kernel.one_step(state, results, seed=random.fold_in(seed, index))

        (state, results), (states, trace) = _scan(plan, one_step, keep, (state, results))
        return states, trace, state, results

    def on_replica(state, results):
        return chain(state, results, random.of_replica(seed))

    return DistributedChains(*_unzip(replicas.apply(strategy, on_replica, *start)))


def _scan(plan, one_step, keep, start):
    """((state, results) at the end, what `keep` returned of every result, stacked)."""
    arrays = tf.nest.map_structure(
        lambda x: tf.TensorArray(x.dtype, plan.num_results, element_shape=x.shape), keep(*start)
    )

    def body(index, now, arrays):
        now = one_step(plan.first_step + index, *now)
        row = plan.row(index)
        arrays = tf.nest.map_structure(lambda a, x: a.write(row, x), arrays, keep(*now))
        return index + 1, now, arrays

    _, end, arrays = tf.while_loop(
        lambda index, *_: index < plan.num_steps,
        body,
        (tf.constant(0), start, arrays),
        maximum_iterations=plan.num_steps,
    )
    return end, tf.nest.map_structure(lambda array: array.stack(), arrays)


def _unzip(values: LocalValues) -> tuple:
    """`LocalValues` of tuples as a tuple of `LocalValues`."""
    return tuple(LocalValues(field) for field in zip(*values.replicas, strict=True))


def _check(strategy, kernel, **counts):
    replicas.check_strategy(strategy)
    if not isinstance(kernel, tfp.mcmc.TransitionKernel):
        raise TypeError(
            '`kernel` must be a tfp.mcmc.TransitionKernel, such as '
            'tfpa.EntropyAdaptiveHMC(target_log_prob_fn, pool_fn=tfpa.distribute.'
            f'sum_over_replicas); got {arguments.shown(kernel)}.'
        )
    for name, value in counts.items():
        arguments.count(name, value, least=1 if name == 'num_results' else 0)
