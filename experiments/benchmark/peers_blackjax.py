"""BlackJAX samplers, each phase one program compiled by JAX, all chains side by side by vmap."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from experiments import optional
from experiments.benchmark import densities
from experiments.benchmark.sampling import Draws, Problem, Sampler

_NUTS_TARGET, _CHEES_TARGET, _CHEES_STEP_SIZE = 0.8, 0.75, 0.1


class _Info(NamedTuple):
    leapfrogs: Any


def nuts(is_diagonal: bool, problem: Problem) -> Sampler:
    """NUTS with the warm-up of Stan in every chain.

    Args:
      is_diagonal: whether the metric is diagonal, or else dense.
      problem: to solve.
    """
    jax, blackjax = _load('jax'), _load('blackjax')
    log_prob = _density(problem)
    warmup = blackjax.window_adaptation(
        blackjax.nuts,
        log_prob,
        is_mass_matrix_diagonal=is_diagonal,
        target_acceptance_rate=_NUTS_TARGET,
        adaptation_info_fn=_keep_leapfrogs,
    )
    kernel = blackjax.nuts.build_kernel()

    def warm_up(key, position):
        def one(key, position):
            (state, parameters), info = warmup.run(
                key, position, num_steps=problem.num_warmup_steps
            )
            learned = parameters['step_size'], parameters['inverse_mass_matrix']
            return state, learned, info.leapfrogs

        return jax.vmap(one)(jax.random.split(key, problem.num_chains), position)

    def step(key, state, learned):
        state, info = kernel(key, state, log_prob, *learned)
        return state, info.num_integration_steps

    return _sampler(warm_up, step, problem, problem.num_chains)


def chees(num_chains: int | None, mass_matrix: str | None, problem: Problem) -> Sampler:
    """ChEES-HMC with the optimizer, acceptance and first step size of its own tests.

    Args:
      num_chains: C; `None` for that of the problem.
      mass_matrix: 'diagonal' to learn one, `None` for the identity.
      problem: to solve.
    """
    jax, blackjax, optax = map(_load, ('jax', 'blackjax', 'optax'))
    num_chains = num_chains or problem.num_chains
    log_prob = _density(problem)
    warmup = blackjax.chees_adaptation(
        log_prob,
        num_chains,
        target_acceptance_rate=_CHEES_TARGET,
        mass_matrix_estimation=mass_matrix,
        adaptation_info_fn=_keep_leapfrogs,
    )
    functions: dict[str, Callable] = {}

    def warm_up(key, position):
        (states, parameters), info = warmup.run(
            key,
            position,
            _CHEES_STEP_SIZE,
            optax.adam(0.5, b1=0.0, b2=0.95),
            num_steps=problem.num_warmup_steps,
            max_sampling_steps=problem.num_results,
        )
        names = 'next_random_arg_fn', 'integration_steps_fn'
        functions.update({name: parameters.pop(name) for name in names})
        learned = jax.tree.map(
            lambda x: jax.numpy.broadcast_to(x, (num_chains, *jax.numpy.shape(x))), parameters
        )
        return states, learned, info.leapfrogs.T

    def step(key, state, learned):
        kernel = blackjax.dynamic_hmc(log_prob, **functions, **learned)
        state, info = kernel.step(key, state)
        return state, info.num_integration_steps

    return _sampler(warm_up, step, problem, num_chains)


def _load(module):
    return optional.load(module, 'peers')


def _keep_leapfrogs(state, info, adaptation):
    del state, adaptation
    return _Info(info.num_integration_steps)


def _density(problem):
    jax = _load('jax')
    log_prob, _ = densities.make(jax.numpy, **problem.arguments)
    return log_prob


def _sampler(warm_up: Callable, step: Callable, problem: Problem, num_chains: int) -> Sampler:
    """Both phases as programs, compiled before their first call.

    Args:
      warm_up: (key, position [C, d]) -> (states, learned, leapfrogs [C, steps]), for all chains.
      step: (key, state, learned) -> (state, leapfrogs) of one chain.
      problem: to solve.
      num_chains: C.
    """
    jax = _load('jax')

    def sample_all(key, states, learned):
        def body(states, key):
            keys = jax.random.split(key, num_chains)
            states, leapfrogs = jax.vmap(step)(keys, states, learned)
            return states, (states.position, leapfrogs)

        keys = jax.random.split(key, problem.num_results)
        return jax.lax.scan(body, states, keys)[1]

    programs: dict[str, Any] = {}

    def call(name, function, *arguments):
        """(result, seconds to compile, seconds to run)."""
        begin = time.perf_counter()
        if name not in programs:
            programs[name] = jax.jit(function).lower(*arguments).compile()
        middle = time.perf_counter()
        result = jax.block_until_ready(programs[name](*arguments))
        return result, middle - begin, time.perf_counter() - middle

    def sample(seed: int) -> Draws:
        position = jax.numpy.asarray(problem.initial_state(num_chains, seed).numpy())
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
