"""The catalogue of kernels: every contract, invariance and moment test runs over all of it.

Adding a kernel is one line in `KERNELS`. Every kind of preconditioner, objective and move is in one
of them at least. Not every pair is: each kernel costs the tests half a minute.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments.benchmark.counting import Counter
from tests.support.targets import LIST, Target
from tfp_adaptive.typing import EventPreconditioner


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """A kernel with what it promises; compared and hashed by identity.

    Attributes:
      name: for test ids.
      make: (target_log_prob_fn, num_adaptation_steps, **overrides) -> kernel.
      num_evaluations: noise of a step -> target evaluations of the move, all that a frozen kernel
        may spend.
      num_products: noise of a step -> Hessian-vector products while adapting, each of which
        evaluates the target once more.
      free_products: Hessian-vector products an evaluation that only differentiate it again.
      uses_score: whether an evaluation by the frozen kernel is a gradient.
      max_copies: of the target in a compiled step of the frozen kernel.
      max_product_copies: of its Hessian-vector product, beside those, while adapting.
      learns_by_gradient: whether the adapting kernel needs gradients of the target.
      learns_matrix: whether what it learns is one matrix, or map, for all positions.
      counts_estimates: whether its count of gradients is one of likelihood estimates.
      num_more_at_start: target evaluations of the bootstrap beside the usual.
      num_normals: draws of normal numbers in a step of the frozen kernel.
      num_chains: of a test of the law of one step.
      with_target: log-density -> arguments of `copy` that make it the target.
    """

    name: str
    make: Callable
    num_evaluations: Callable
    num_products: Callable
    free_products: int = 0
    uses_score: bool = True
    max_copies: int = 1
    max_product_copies: int = 1
    learns_by_gradient: bool = True
    learns_matrix: bool = True
    counts_estimates: bool = False
    num_more_at_start: int = 0
    num_normals: int = 1
    num_chains: int = 50_000
    with_target: Callable = lambda fn: {'target_log_prob_fn': fn}


def _hmc(num_leapfrog_steps, **axes):
    return lambda fn, n, **more: tfpa.EntropyAdaptiveHMC(fn, num_leapfrog_steps, n, **axes, **more)


def _gradient_mala(score, **axes):
    return lambda fn, n, **more: tfpa.GradientAdaptiveMALA(fn, n, score, **axes, **more)


def _windowed(num_leapfrog_steps, **axes):
    return lambda fn, n, **more: tfpa.WindowedHMC(fn, num_leapfrog_steps, n, **axes, **more)


def _embedding(subsample_size):
    function = tfpa.kernel_functions.gaussian(3.0)
    return lambda fn, n, **more: tfpa.KernelAdaptiveMetropolis(
        fn, n, function, subsample_size, **more
    )


def _cyclical(mode):
    function = tfpa.kernel_functions.gaussian(3.0)
    return lambda fn, n, **more: tfpa.CyclicalKernelAdaptiveMetropolis(
        fn, n, 20, 0.5, function, mode=mode, **more
    )


def _marginal(fn, num_steps, **more):
    """On a likelihood of 1 that needs no noise: the target is the prior."""
    estimator = tfpa.estimators.Estimator(
        1, lambda noise, *parts: tf.zeros_like(noise[..., 0]), num_particles=1
    )
    return tfpa.PseudoMarginal(estimator, fn, num_steps, **more)


def _exactly(count):
    return lambda noise: count


def _drawn(noise):
    """As many leapfrog steps as the noise says."""
    return int(noise.move.num_steps)


def _roulette(noise):
    """N + 1 for a series of N sure and random terms."""
    sure = inspect.signature(tfpa.entropy.russian_roulette).parameters['num_exact_terms'].default
    return sure + int(noise.entropy.num_extra_terms) + 1


def _roulette_and_forms(noise):
    """The derivative of the series in the parameters of a flow takes four more."""
    return _roulette(noise) + 4


def _two_blocks(event):
    """Two blocks of unequal size for an odd number of coordinates."""
    sizes = [event.size - event.size // 2, event.size // 2]
    return tfpa.preconditioners.block_diagonal([size for size in sizes if size])


def _by_part(event):
    """The parts of `targets.two_parts` out of order, or the only part there is."""
    names = event.names
    families = {names[0]: tfpa.preconditioners.low_rank(2)}
    if len(names) == 2:
        families = {
            names[1]: tfpa.preconditioners.low_rank(2),
            names[0]: tfpa.preconditioners.banded(bandwidth=1, border_size=1),
        }
    return tfpa.preconditioners.by_part(families).resolve(event)


_P = tfpa.preconditioners

_BLOCKS, _BY_PART = EventPreconditioner(_two_blocks), EventPreconditioner(_by_part)

_DENSE = tfpa.tuning.covariance()

_EXACT = {'energy_gradient': 'exact', 'preconditioner': _P.cholesky(coordinates='euclidean')}

_L2HMC = {'objective': tfpa.objectives.l2hmc(), 'preconditioner': _BLOCKS}

_ONE, _TWO, _THREE, _NONE = _exactly(1), _exactly(2), _exactly(3), _exactly(0)

_WITHOUT_GRADIENT = (_ONE, _NONE, 0, False, 1, 0, False)

# a walk, and steps along the points, which cost as many distances a chain
_EMBEDS: dict[str, Any] = {'learns_matrix': False, 'num_normals': 2, 'num_chains': 10_000}

KERNELS = (
    Entry('mala', _hmc(1), _ONE, _NONE),
    Entry('hmc2', _hmc(2), _TWO, _roulette, max_copies=2),
    Entry(
        'hmc3_bordered', _hmc(3, preconditioner=_P.banded(1, 2)), _THREE, _roulette, max_copies=2
    ),
    Entry('hmc2_by_part', _hmc(2, preconditioner=_BY_PART), _TWO, _roulette, max_copies=2),
    Entry('mala_real_nvp', _hmc(1, preconditioner=_P.real_nvp([8])), _ONE, _NONE),
    Entry('hmc2_l2hmc_blocks', _hmc(2, **_L2HMC), _TWO, _NONE, max_copies=2),
    Entry('hmc2_momentum', _hmc(2, momentum_refreshment=0.3), _TWO, _roulette, max_copies=2),
    Entry(
        'hmc_random_length_euclidean', _hmc([1, 3], **_EXACT), _drawn, _roulette, 1, max_copies=2
    ),
    Entry('gradient_mala_fast', _gradient_mala('fast'), _ONE, _NONE),
    Entry(
        *('gradient_mala_exact', _gradient_mala('exact', preconditioner=_P.diagonal())),
        *(_ONE, _NONE, 1),
    ),
    Entry('random_walk', tfpa.GradientAdaptiveRandomWalk, _ONE, _NONE, uses_score=False),
    Entry('windowed_hmc3_dense', _windowed(3, metric=_DENSE), _THREE, _NONE, max_copies=2),
    Entry('adaptive_metropolis', tfpa.AdaptiveMetropolis, *_WITHOUT_GRADIENT),
    Entry('kernel_adaptive', _embedding(5), *_WITHOUT_GRADIENT, **_EMBEDS),
    Entry('cyclical', _cyclical('finite'), *_WITHOUT_GRADIENT, **_EMBEDS),
    Entry(
        *('cyclical_ensemble', _cyclical('ensemble'), _TWO, _NONE, 0, False, 2, 0, False),
        **_EMBEDS | {'num_chains': 64},  # they move by one another, at the cost of their square
    ),
    Entry(
        *('pseudo_marginal', _marginal, *_WITHOUT_GRADIENT),
        learns_matrix=False,  # a covariance, and a step size beside it
        counts_estimates=True,
        num_more_at_start=1,
        num_normals=3,  # of the move and of both noises
        with_target=lambda fn: {'prior_log_prob_fn': fn},
    ),
)

ON_DENSITIES = tuple(entry for entry in KERNELS if not entry.counts_estimates)
"""Kernels that TFP's wrappers can change the target of: it is a log-density and nothing else."""

ON_ANY_CHAINS = tuple(entry for entry in KERNELS if entry.name != 'cyclical_ensemble')
"""Kernels that move any number of chains, each by itself; not one half by the other."""

DEFAULT = KERNELS[1]

FLOW_OF_TWO_STEPS = Entry(
    'hmc2_real_nvp',
    _hmc(2, preconditioner=_P.real_nvp([8])),
    *(_TWO, _roulette_and_forms),
    max_copies=2,
    max_product_copies=2,
)
"""Takes too long to compile for every test; for those of what L > 1 adds to a flow."""

REPRESENTATIVES = ('hmc3_bordered', 'hmc2_momentum', 'random_walk')
"""One of every form of program: looped with a scan, unrolled and dense with a velocity that is
carried, and one that carries no score."""


def parametrize(entries):
    """For tests of some entries."""
    return pytest.mark.parametrize('entry', entries, ids=lambda entry: entry.name)


every_kernel = parametrize(KERNELS)

every_kernel_on_any_chains = parametrize(ON_ANY_CHAINS)

ONE_OF_EACH_CLASS = (
    *('hmc2', 'gradient_mala_fast', 'random_walk', 'windowed_hmc3_dense', 'adaptive_metropolis'),
    *('kernel_adaptive', 'cyclical', 'pseudo_marginal'),
)

one_kernel_of_each_class = parametrize(
    [entry for entry in KERNELS if entry.name in ONE_OF_EACH_CLASS]
)
"""For what a class does with its arguments, whichever they are."""


def in_depth(*more: Entry, where: Callable = lambda entry: True, representatives=REPRESENTATIVES):
    """For tests that take long: all among the slow tests, else representatives."""
    return parametrize(
        [
            pytest.param(entry, marks=[] if entry.name in representatives else pytest.mark.slow)
            for entry in (*KERNELS, *more)
            if where(entry)
        ]
    )


every_kernel_in_depth = in_depth()

in_depth_on_any_chains = in_depth(where=ON_ANY_CHAINS.__contains__)


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A kernel and its step in a graph, shared by the tests of one session.

    Attributes:
      kernel: adapts for `NUM_ADAPTATION_STEPS` steps.
      step: `tf.function` of `kernel.one_step`, called (state, results, seed=int32 [2]).
      counter: of the evaluations of its target.
      num_copies: of the target in the graph.
    """

    kernel: tfp.mcmc.TransitionKernel
    step: Callable
    counter: Counter
    num_copies: int

    def run(self, state, results, seeds):
        """One step a seed; the lists of states and of results after each of them."""
        states, trace = [], []
        for seed in seeds:
            state, results = self.step(state, results, seed=tf.constant(seed, tf.int32))
            states.append(state)
            trace.append(results)
        return states, trace


NUM_ADAPTATION_STEPS = 6

of_the_last_kernels = functools.lru_cache(maxsize=6)
"""Tests of one kernel follow one another, and graphs of all of them would fill the memory."""


@of_the_last_kernels
def program(entry: Entry) -> Program:
    """The step of a catalogue entry on eight chains of `LIST` in double precision, traced once."""
    counter = Counter(lambda parts: LIST.log_prob(*parts))
    kernel = entry.make(lambda *parts: counter(parts), NUM_ADAPTATION_STEPS)
    step = tf.function(kernel.one_step, autograph=False)
    state = LIST.draw(0, [8], 'float64')
    results = kernel.bootstrap_results(state)
    num_traced = counter.num_traced
    step.get_concrete_function(state, results, seed=tf.TensorSpec([2], tf.int32))
    return Program(kernel, step, counter, counter.num_traced - num_traced)


@dataclasses.dataclass(frozen=True, eq=False)
class Learned:
    """A kernel after its adaptation.

    Attributes:
      kernel: the adaptive kernel.
      state: final state of the warm-up.
      results: final kernel results of the warm-up.
      frozen: `kernel.frozen(results)`.
    """

    kernel: tfp.mcmc.TransitionKernel
    state: object
    results: object
    frozen: tfp.mcmc.TransitionKernel


@of_the_last_kernels
def learned(
    entry: Entry, target: Target, seed: int, num_steps: int = 400, dtype: str = 'float32'
) -> Learned:
    """The entry's kernel after a warm-up on `target` from exact draws."""
    kernel = entry.make(target.log_prob, num_steps)
    state, results = sample(kernel, target.draw(seed, [64], dtype), num_steps, [seed, 1])
    return Learned(kernel, state, results, kernel.frozen(results))


@of_the_last_kernels
def bold(entry: Entry, target: Target, seed: int):
    """A frozen kernel with the learned proposal, at a step size where rejections are common.

    Few rejections would hide a wrong accept step: long trajectories and safe objectives accept
    99 % of their moves.
    """
    frozen = learned(entry, target, seed).frozen
    state = target.draw(seed, [500])
    step_size, results = 1.0, frozen.bootstrap_results(state)
    while True:
        results = results._replace(step_size=tf.constant(step_size))
        accept_prob = frozen.one_step(state, results, seed=[seed, 0])[1].info.accept_prob
        if accept_prob < 0.8:
            return frozen.copy(step_size=step_size)
        step_size *= 1.2


@dataclasses.dataclass(frozen=True, eq=False)
class FrozenProgram:
    """The step of a bold kernel on powers of its target, in one graph for all of them.

    Attributes:
      kernel: the kernel, on the target itself.
      on_power: power -> the kernel on that power of the target.
      step: `tf.function`, called (state, results, power, seed=int32 [2]).
      counter: of the evaluations of its target.
      num_copies: of the target in the graph.
    """

    kernel: tfp.mcmc.TransitionKernel
    on_power: Callable
    step: Callable
    counter: Counter
    num_copies: int


@of_the_last_kernels
def frozen_program(entry: Entry, target: Target, seed: int) -> FrozenProgram:
    """The step of `bold` on as many chains as the entry says, traced once."""
    counter = Counter(target.log_prob)

    def on_power(power):
        return bold(entry, target, seed).copy(**entry.with_target(lambda x: power * counter(x)))

    @tf.function(autograph=False)
    def step(state, results, power, seed):
        return on_power(power).one_step(state, results, seed=seed)

    kernel, state = on_power(1.0), target.draw(seed, [entry.num_chains])
    results = kernel.bootstrap_results(state)
    num_traced = counter.num_traced
    specs = tf.TensorSpec([]), tf.TensorSpec([2], tf.int32)
    step.get_concrete_function(state, results, specs[0], seed=specs[1])
    num_copies = counter.num_traced - num_traced
    return FrozenProgram(kernel, on_power, step, counter, num_copies)


def sampler(kernel, num_steps):
    """A compiled (state, results, seed) -> (state, results) after `num_steps` steps."""

    @tf.function(autograph=False)
    def run(state, results, seed):
        chain = tfp.mcmc.sample_chain(
            1,
            state,
            results,
            kernel,
            num_burnin_steps=num_steps - 1,
            trace_fn=None,
            return_final_kernel_results=True,
            seed=seed,
        )
        end = tf.nest.map_structure(lambda x: x[0], chain.all_states)
        return end, chain.final_kernel_results

    return lambda state, results, seed: run(state, results, tf.constant(seed, tf.int32))


def sample(kernel, state, num_steps, seed):
    """(state, kernel results) after `num_steps` steps in one TensorFlow graph."""
    return sampler(kernel, num_steps)(state, kernel.bootstrap_results(state), seed)
