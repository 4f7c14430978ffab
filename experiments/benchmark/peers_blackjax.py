"""BlackJAX samplers, each phase one program compiled by JAX, all chains side by side by vmap."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from experiments import optional
from experiments.benchmark import densities, tensorflow_density
from experiments.benchmark.sampling import Draws, Problem, Sampler

_NUTS_TARGET, _CHEES_TARGET, _CHEES_STEP_SIZE = 0.8, 0.75, 0.1
_MAMS_TARGET = 0.9
_MAMS_TUNING_SHARE = 0.3
"""Of the steps that its tuner is told of, which it takes by default: a tenth for the step size and
one for the length, and a tenth for the step size once more."""
_SHORT = 1.0
"""Seconds of a first run below which another one is timed: what JAX does at first is felt there."""
_GRADIENTS_OF_MCLACHLAN = 2


class _Info(NamedTuple):
    num_integration_steps: Any


def nuts(metric: str, problem: Problem) -> Sampler:
    """NUTS with the warm-up of Stan in every chain.

    Args:
      metric: 'diagonal', 'dense', or 'low rank' from draws and gradients. The last one runs in
        double precision, as BlackJAX recommends for it, unless the density is one of TensorFlow.
      problem: to solve.
    """
    jax, blackjax = _load('jax'), _load('blackjax')
    log_prob = _density(problem)
    if metric == 'low rank':
        warmup = blackjax.window_adaptation_low_rank(
            blackjax.nuts, log_prob, target_acceptance_rate=_NUTS_TARGET
        )
    else:
        warmup = blackjax.window_adaptation(
            blackjax.nuts,
            log_prob,
            is_mass_matrix_diagonal=metric == 'diagonal',
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
            kept = info.info if metric == 'low rank' else info
            return state, learned, kept.num_integration_steps

        return jax.vmap(one)(jax.random.split(key, problem.num_chains), position)

    def step(key, state, learned):
        state, info = kernel(key, state, log_prob, *learned)
        return state, info.num_integration_steps

    sample = _sampler(warm_up, step, problem, problem.num_chains)
    if metric != 'low rank' or problem.arguments is None:
        return sample

    def in_double_precision(seed):
        with jax.enable_x64(True):
            return sample(seed)

    return in_double_precision


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
        return states, learned, info.num_integration_steps.T

    def step(key, state, learned):
        kernel = blackjax.dynamic_hmc(log_prob, **functions, **learned)
        state, info = kernel.step(key, state)
        return state, info.num_integration_steps

    return _sampler(warm_up, step, problem, num_chains)


def meads(num_chains: int | None, problem: Problem) -> Sampler:
    """MEADS: generalised HMC, one gradient a step, tuned by the other chains.

    Args:
      num_chains: C; `None` for that of the problem.
      problem: to solve.
    """
    jax, blackjax = _load('jax'), _load('blackjax')
    num_chains = num_chains or problem.num_chains
    log_prob = _density(problem)
    warmup = blackjax.meads_adaptation(log_prob, num_chains)
    kernel = blackjax.ghmc.build_kernel()

    def warm_up(key, position):
        (states, parameters), _ = warmup.run(key, position, num_steps=problem.num_warmup_steps)
        learned = jax.tree.map(
            lambda x: jax.numpy.broadcast_to(x, (num_chains, *jax.numpy.shape(x))), parameters
        )
        return states, learned, jax.numpy.ones([num_chains, problem.num_warmup_steps])

    def step(key, state, learned):
        return kernel(key, state, log_prob, **learned)[0], 1

    return _sampler(warm_up, step, problem, num_chains, problem.num_short_results)


def mams(problem: Problem) -> Sampler:
    """Metropolis-adjusted microcanonical sampler, of random length, tuned in every chain.

    Its tuner takes three tenths of the steps that it is told of: it is told of as many as make them
    the warm-up.

    Args:
      problem: to solve.
    """
    jax, blackjax = _load('jax'), _load('blackjax')
    dynamic = _load('blackjax.mcmc.adjusted_mclmc_dynamic')
    log_prob = _density(problem)
    length = dynamic.make_random_trajectory_length_fn(True)
    kernel = blackjax.adjusted_mclmc_dynamic.build_kernel(integration_steps_fn=length)

    def warm_up(key, position):
        def one(key, position):
            start_key, tuning_key = jax.random.split(key)
            state = blackjax.adjusted_mclmc_dynamic.init(position, log_prob, start_key)
            state, parameters, num_steps = blackjax.adjusted_mclmc_find_L_and_step_size(
                kernel,
                log_prob,
                round(problem.num_warmup_steps / _MAMS_TUNING_SHARE),
                state,
                tuning_key,
                _MAMS_TARGET,
            )
            learned = parameters.step_size, parameters.L, parameters.inverse_mass_matrix
            return state, learned, jax.numpy.reshape(_GRADIENTS_OF_MCLACHLAN * num_steps, [1])

        return jax.vmap(one)(jax.random.split(key, problem.num_chains), position)

    def step(key, state, learned):
        step_size, length, inverse_mass_matrix = learned
        state, info = kernel(
            key,
            state,
            log_prob,
            step_size,
            inverse_mass_matrix=inverse_mass_matrix,
            integration_steps_params=(length / step_size,),
        )
        return state, _GRADIENTS_OF_MCLACHLAN * info.num_integration_steps

    return _sampler(warm_up, step, problem, problem.num_chains)


def _load(module):
    return optional.load(module, 'peers')


def _keep_leapfrogs(state, info, adaptation):
    del state, adaptation
    return _Info(info.num_integration_steps)


def _density(problem):
    if problem.arguments is None:
        return tensorflow_density.in_jax(problem.target.log_prob)
    log_prob, _ = densities.make(_load('jax').numpy, **problem.arguments)
    return log_prob


def _sampler(
    warm_up: Callable,
    step: Callable,
    problem: Problem,
    num_chains: int,
    num_results: int | None = None,
) -> Sampler:
    """Both phases as programs, compiled before their first call.

    Args:
      warm_up: (key, position [C, d]) -> (states, learned, leapfrogs [C, steps]), for all chains.
      step: (key, state, learned) -> (state, leapfrogs) of one chain.
      problem: to solve.
      num_chains: C.
      num_results: draws a chain; `None` for those of long trajectories.
    """
    jax = _load('jax')

    def sample_all(key, states, learned):
        def body(states, key):
            keys = jax.random.split(key, num_chains)
            states, leapfrogs = jax.vmap(step)(keys, states, learned)
            return states, (states.position, leapfrogs)

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
