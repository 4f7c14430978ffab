"""Warm-up and sampling of one seed at a time, with their costs; compilation is not timed."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import effective_size, programs, targets

_ADAPTATION_FRACTION = 0.8


@dataclasses.dataclass(frozen=True)
class Draws:
    """One seed of one sampler. Counts are per chain.

    Attributes:
      states: [num_results, C, d].
      accept_rate: while sampling.
      num_warmup_gradients: of the target.
      num_warmup_products: Hessian-vector products.
      num_gradients: of the target, while sampling.
      seconds: of sampling, compilation apart.
    """

    states: np.ndarray
    accept_rate: float
    num_warmup_gradients: float
    num_warmup_products: int
    num_gradients: float
    seconds: float


Run = Callable[[tf.Tensor, int], Draws]
"""(initial state [C, d], seed) -> draws."""


class Timed:
    """A program that knows how long its last run took; it compiles in a run of its own."""

    def __init__(self, program: Callable):
        """Wraps `program`."""
        self._program = program
        self._is_compiled = False
        self.seconds = 0.0

    def __call__(self, *arguments):
        """What the program returns."""
        if not self._is_compiled:
            self._program(*arguments)
            self._is_compiled = True
        start = time.perf_counter()
        result = self._program(*arguments)
        tf.nest.map_structure(np.asarray, result)
        self.seconds = time.perf_counter() - start
        return result


def learned(warm_up: Callable, sample: Timed, count: Callable | None = None) -> Run:
    """A kernel of this package that learns, is frozen, and draws.

    Args:
      warm_up: (state, seed) -> (state, kernel results), as of `programs.warm_up_program`.
      sample: a `programs.sampling_program`, timed.
      count: kernel results -> gradients since the bootstrap, of each chain or of all alike.
        Default `None`: those of `info`.
    """
    count = count or (lambda results: results.info.num_gradients)

    def run(start, seed):
        state, warm = warm_up(start, tf.constant([seed, 1]))
        states, accepted, results = sample(
            state, programs.proposal_of(warm), tf.constant([seed, 2])
        )
        return Draws(
            states=states.numpy(),
            accept_rate=float(np.mean(accepted)),
            num_warmup_gradients=float(np.mean(count(warm))),
            num_warmup_products=int(np.sum(warm.info.num_hessian_vector_products)),
            num_gradients=float(np.mean(count(results))),
            seconds=sample.seconds,
        )

    return run


def tuned(
    kernel: Any,
    target_accept_prob: float,
    num_warmup_steps: int,
    num_results: int,
    length: int | None = None,
) -> Run:
    """A kernel of fixed metric whose step size dual averaging tunes.

    Args:
      kernel: of TFP, or a frozen one of this package.
      target_accept_prob: of the step size.
      num_warmup_steps: of which the first four fifths tune.
      num_results: draws.
      length: leapfrog steps a draw; `None` for NUTS of TFP, which counts them.
    """
    adaptive = tfp.mcmc.DualAveragingStepSizeAdaptation(
        kernel,
        num_adaptation_steps=int(_ADAPTATION_FRACTION * num_warmup_steps),
        target_accept_prob=target_accept_prob,
    )

    def trace(_, results):
        inner = results.inner_results
        num_gradients = tf.fill(tf.shape(inner.is_accepted), length or 0)
        return inner.is_accepted, num_gradients if length else inner.leapfrogs_taken

    def program(num_steps):
        @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
        def run(state, results, seed):
            return tfp.mcmc.sample_chain(
                num_steps,
                state,
                results,
                adaptive,
                trace_fn=trace,
                return_final_kernel_results=True,
                seed=seed,
            )

        return run

    warm_up, sample = program(num_warmup_steps), Timed(program(num_results))

    def run(start, seed):
        warm = warm_up(start, adaptive.bootstrap_results(start), tf.constant([seed, 1]))
        end = sample(warm.all_states[-1], warm.final_kernel_results, tf.constant([seed, 2]))
        return Draws(
            states=end.all_states.numpy(),
            accept_rate=float(np.mean(end.trace[0])),
            num_warmup_gradients=_per_chain(warm.trace[1]),
            num_warmup_products=0,
            num_gradients=_per_chain(end.trace[1]),
            seconds=sample.seconds,
        )

    return run


def _per_chain(counts) -> float:
    """Sum over steps of counts [num_steps, C], mean over chains."""
    return float(np.mean(np.sum(counts, axis=0)))


def figures(draws: Draws, reference: targets.Moments | None = None) -> dict[str, Any]:
    """What a run is worth, and its costs, by name.

    Args:
      draws: of one seed.
      reference: known moments of the coordinates.
    """
    ess, ess_of_squares, rhat = effective_size.of_squares_too(np.asarray(draws.states))
    min_ess, mean_ess = (float(f([ess, ess_of_squares])) for f in (np.min, np.mean))
    num_chains = draws.states.shape[1]
    in_all = draws.num_warmup_gradients + 2 * draws.num_warmup_products + draws.num_gradients
    found = {
        'min_ess': min_ess,
        'ess_per_gradient': min_ess / (num_chains * draws.num_gradients),
        'ess_per_gradient_in_all': min_ess / (num_chains * in_all),
        'ess_per_second': min_ess / draws.seconds,
        'min_ess_of_q': float(np.min(ess)),
        'min_ess_of_q_per_gradient': float(np.min(ess)) / (num_chains * draws.num_gradients),
        'mean_ess': mean_ess,
        'mean_ess_per_gradient': mean_ess / (num_chains * draws.num_gradients),
        'mean_ess_per_second': mean_ess / draws.seconds,
        'max_rhat': float(np.max(rhat)),
        **{
            field.name: getattr(draws, field.name)
            for field in dataclasses.fields(draws)
            if field.name != 'states'
        },
    }
    if reference:
        error = np.mean(draws.states, axis=(0, 1), dtype=np.float64) - np.array(reference.mean)
        found['largest_error'] = float(np.max(np.abs(error) * np.sqrt(ess) / reference.sd))
    return found
