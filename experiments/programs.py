"""Warm-up and frozen sampling, compiled once and run for many seeds."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

JIT_COMPILE = True


@dataclasses.dataclass(frozen=True)
class Run:
    """One seed. Counts are per chain.

    Attributes:
      states: draws after warm-up, [num_results, C, d].
      accept_rate: accepted share of them.
      entropy_weight: beta at the end of the warm-up; NaN for samplers without one.
      num_warmup_gradients: spent on learning; evaluations, for samplers that use no gradients.
      num_warmup_products: Hessian-vector products spent on learning, each about two gradients.
      num_evaluations: of the target while sampling; gradients, for samplers that use them.
    """

    states: np.ndarray
    accept_rate: float
    entropy_weight: float
    num_warmup_gradients: int
    num_warmup_products: int
    num_evaluations: int

    @property
    def num_evaluations_in_all(self) -> int:
        """Warm-up included, a Hessian-vector product as two."""
        return self.num_warmup_gradients + 2 * self.num_warmup_products + self.num_evaluations


def warm_up_program(kernel: Any, num_steps: int) -> Callable:
    """A function (state, seed) -> (state, kernel results) of `num_steps` steps."""

    @tf.function(jit_compile=JIT_COMPILE, autograph=False)
    def warm_up(state, seed):
        chain = tfp.mcmc.sample_chain(
            1,
            state,
            kernel=kernel,
            num_burnin_steps=num_steps - 1,
            trace_fn=None,
            return_final_kernel_results=True,
            seed=seed,
        )
        return chain.all_states[-1], chain.final_kernel_results

    return warm_up


def sampling_program(kernel: Any, num_results: int) -> Callable:
    """A function (state, learned, seed) -> (draws, accepted, kernel results).

    It serves every kernel with the same target, proposal and shape of preconditioner: `learned` is
    `proposal_of` their kernel results, and holds nothing else.
    """

    @tf.function(jit_compile=JIT_COMPILE, autograph=False)
    def sample(state, learned, seed):
        chain = tfp.mcmc.sample_chain(
            num_results,
            state,
            kernel=kernel.frozen(learned),
            trace_fn=lambda _, results: results.is_accepted,
            return_final_kernel_results=True,
            seed=seed,
        )
        return chain.all_states, chain.trace, chain.final_kernel_results

    return sample


def proposal_of(kernel_results: Any) -> Any:
    """Kernel results with nothing learned but the preconditioner."""
    adaptation = kernel_results.adaptation
    others = {name: () for name in adaptation._fields if name != 'preconditioner'}
    return kernel_results._replace(adaptation=adaptation._replace(**others), info=())


def run(warm_up: Callable, sample: Callable, initial_state: tf.Tensor, seed: int) -> Run:
    """Warms up, freezes and samples from `initial_state` [C, d]."""
    state, warm = warm_up(initial_state, tf.constant([seed, 1]))
    states, accepted, results = sample(state, proposal_of(warm), tf.constant([seed, 2]))
    return Run(
        states=states.numpy(),
        accept_rate=float(np.mean(accepted)),
        entropy_weight=_scalar(warm.adaptation.entropy_weight),
        num_warmup_gradients=max(int(warm.info.num_gradients), int(warm.step)),
        num_warmup_products=int(warm.info.num_hessian_vector_products),
        num_evaluations=max(int(results.info.num_gradients), len(accepted)),
    )


def _scalar(value) -> float:
    """A number, or NaN where a kernel keeps none."""
    return float('nan') if isinstance(value, tuple) else float(value)
