"""Samplers in JAX: each phase one program, all chains side by side by vmap."""

import operator
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import optional
from experiments.benchmark import densities, tensorflow_density
from experiments.benchmark.sampling import Draws, Problem, Sampler

_SHORT = 1.0
"""Seconds of a first run below which another one is timed: what JAX does at first is felt there."""


def load(module: str) -> Any:
    """A module of the extra `peers`."""
    return optional.load(module, 'peers')


def density(problem: Problem) -> Callable:
    """The log-density of one chain's q [d] in JAX, or that of TensorFlow as a program of JAX."""
    if problem.arguments is None:
        return tensorflow_density.in_jax(problem.target.log_prob)
    log_prob, _ = densities.make(load('jax').numpy, **problem.arguments)
    return log_prob


def sampler(
    warm_up: Callable,
    step: Callable,
    problem: Problem,
    num_chains: int,
    num_results: int | None = None,
    position_of: Callable = operator.attrgetter('position'),
) -> Sampler:
    """Both phases as programs, compiled before their first call.

    Args:
      warm_up: (key, position [C, d]) -> (states, learned, leapfrogs [C, steps]), for all chains.
      step: (key, state, learned) -> (state, leapfrogs) of one chain.
      problem: to solve.
      num_chains: C.
      num_results: draws a chain; `None` for those of long trajectories.
      position_of: state -> q [d].
    """
    jax = load('jax')

    def sample_all(key, states, learned):
        def body(states, key):
            keys = jax.random.split(key, num_chains)
            states, leapfrogs = jax.vmap(step)(keys, states, learned)
            return states, (position_of(states), leapfrogs)

        keys = jax.random.split(key, num_results or problem.num_results)
        return jax.lax.scan(body, states, keys)[1]

    programs: dict[str, Any] = {}

    def call(name, function, *arguments):
        """(result, seconds to compile, seconds to run)."""
        begin = time.perf_counter()
        is_new = name not in programs
        if is_new:
            programs[name] = jax.jit(function).lower(*arguments).compile()
        middle = time.perf_counter()
        result = jax.block_until_ready(programs[name](*arguments))
        end = time.perf_counter()
        if is_new and end - middle < _SHORT:
            again = time.perf_counter()
            jax.block_until_ready(programs[name](*arguments))
            return result, middle - begin, time.perf_counter() - again
        return result, middle - begin, end - middle

    def sample(seed: int) -> Draws:
        start = problem.initial_state(num_chains, seed).numpy()
        if start.dtype != np.float64:
            return sample_from(start, seed)
        with jax.enable_x64(True):
            return sample_from(start, seed)

    def sample_from(start: np.ndarray, seed: int) -> Draws:
        # of the precision that is enabled
        position = jax.numpy.asarray(start, float)
        warmup_key, key = jax.random.split(jax.random.key(seed))
        (states, learned, warmup_leapfrogs), compiling, warming = call(
            'warm-up', warm_up, warmup_key, position
        )
        (draws, leapfrogs), more, sampling = call('sampling', sample_all, key, states, learned)
        return Draws(
            states=np.asarray(draws),
            num_gradients=float(np.sum(leapfrogs, axis=0).mean()),
            num_warmup_gradients=float(np.sum(warmup_leapfrogs, axis=1).mean()),
            compile_seconds=compiling + more,
            warmup_seconds=warming,
            sampling_seconds=sampling,
        )

    return sample
