"""The catalogue of kernels: every contract, invariance and moment test runs over all of it.

Adding a kernel is one line in `KERNELS`.
"""

import dataclasses
import functools
from collections.abc import Callable

import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support.targets import LIST, Target


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """A kernel with what it promises; compared and hashed by identity.

    Attributes:
      name: for test ids.
      make: (target_log_prob_fn, num_adaptation_steps, **overrides) -> kernel.
      num_gradients: target gradients a step, all that a frozen kernel may spend.
      num_products: noise of a step -> Hessian-vector products while adapting.
    """

    name: str
    make: Callable
    num_gradients: int
    num_products: Callable


def _hmc(num_leapfrog_steps, **axes):
    def make(target_log_prob_fn, num_adaptation_steps, **overrides):
        return tfpa.EntropyAdaptiveHMC(
            target_log_prob_fn, num_leapfrog_steps, num_adaptation_steps, **(axes | overrides)
        )

    return make


def _none(noise):
    del noise
    return 0


def _roulette(noise):
    """N + 1 for a series of N = 3 + (geometric level) terms."""
    return 3 + noise.entropy.num_extra_terms + 1


_P = tfpa.preconditioners

KERNELS = (
    Entry('mala', _hmc(1), 1, _none),
    Entry('hmc2_cholesky', _hmc(2), 2, _roulette),
    Entry('hmc3_diagonal', _hmc(3, preconditioner=_P.diagonal()), 3, _roulette),
    Entry('hmc6_banded', _hmc(6, preconditioner=_P.banded(bandwidth=2)), 6, _roulette),
    Entry('hmc2_bordered', _hmc(2, preconditioner=_P.banded(1, border_size=2)), 2, _roulette),
    Entry('hmc2_exact', _hmc(2, energy_gradient='exact'), 2, _roulette),
    Entry(
        'hmc2_euclidean', _hmc(2, preconditioner=_P.cholesky(coordinates='euclidean')), 2, _roulette
    ),
)

DEFAULT = KERNELS[1]

every_kernel = pytest.mark.parametrize('entry', KERNELS, ids=lambda entry: entry.name)


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A kernel and its compiled step, shared by the tests of one session.

    Attributes:
      kernel: adapts for `NUM_ADAPTATION_STEPS` steps.
      step: `tf.function` of `kernel.one_step`, called (state, results, seed=int32 [2]).
    """

    kernel: tfp.mcmc.TransitionKernel
    step: Callable

    def run(self, state, results, seeds):
        """One step a seed; the lists of states and of results after each of them."""
        states, trace = [], []
        for seed in seeds:
            state, results = self.step(state, results, seed=tf.constant(seed, tf.int32))
            states.append(state)
            trace.append(results)
        return states, trace


NUM_ADAPTATION_STEPS = 6


@functools.cache
def program(entry: Entry, target: Target = LIST, jit_compile: bool = False) -> Program:
    """The compiled step of a catalogue entry; traced once a session and shape."""
    kernel = entry.make(target.log_prob, NUM_ADAPTATION_STEPS)
    return Program(kernel, tf.function(kernel.one_step, jit_compile=jit_compile))


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


@functools.cache
def learned(
    entry: Entry, target: Target, seed: int, num_steps: int = 400, dtype: str = 'float32'
) -> Learned:
    """The entry's kernel after a warm-up on `target` from exact draws."""
    kernel = entry.make(target.log_prob, num_steps)
    state, results = sample(kernel, target.draw(seed, [64], dtype), num_steps, [seed, 1])
    return Learned(kernel, state, results, kernel.frozen(results))


def sampler(kernel, num_steps):
    """A compiled (state, results, seed) -> (state, results) after `num_steps` steps."""

    @tf.function
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
