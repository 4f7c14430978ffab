"""BlackJAX samplers."""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from experiments.benchmark import jax_programs
from experiments.benchmark.jax_programs import load
from experiments.benchmark.sampling import Problem, Sampler

_NUTS_TARGET, _CHEES_TARGET, _CHEES_STEP_SIZE = 0.8, 0.75, 0.1
_MAMS_TARGET = 0.9
_MAMS_TUNING_SHARE = 0.3
"""Of the steps that its tuner is told of, which it takes by default: a tenth for the step size and
one for the length, and a tenth for the step size once more."""
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
    jax, blackjax = load('jax'), load('blackjax')
    log_prob = jax_programs.density(problem)
    warm_up = _warm_up_of_nuts(metric, log_prob, problem)
    kernel = blackjax.nuts.build_kernel()

    def step(key, state, learned):
        state, info = kernel(key, state, log_prob, *learned)
        return state, info.num_integration_steps

    sample = jax_programs.sampler(warm_up, step, problem, problem.num_chains)
    if metric != 'low rank' or problem.arguments is None:
        return sample

    def in_double_precision(seed):
        with jax.enable_x64(True):
            return sample(seed)

    return in_double_precision


def _warm_up_of_nuts(metric, log_prob, problem):
    """(key, position [C, d]) -> (states, (step sizes, inverse mass matrices), leapfrogs)."""
    jax, blackjax = load('jax'), load('blackjax')
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

    def one(key, position):
        (state, parameters), info = warmup.run(key, position, num_steps=problem.num_warmup_steps)
        learned = parameters['step_size'], parameters['inverse_mass_matrix']
        kept = info.info if metric == 'low rank' else info
        return state, learned, kept.num_integration_steps

    def warm_up(key, position):
        return jax.vmap(one)(jax.random.split(key, problem.num_chains), position)

    return warm_up


def gist_path_length(metric: str, problem: Problem) -> Sampler:
    """GIST with a path length drawn up to the U-turn, tuned by the warm-up of NUTS.

    It has no warm-up of its own. A draw takes the gradients of the way to the U-turn and those of
    the way back.

    Args:
      metric: as for `nuts`.
      problem: to solve.
    """
    log_prob = jax_programs.density(problem)
    kernel = load('blackjax').gist_trajectory_length.build_kernel()

    def step(key, state, learned):
        state, info = kernel(key, state, log_prob, *learned)
        return state, info.num_steps_to_uturn_forward + info.num_steps_to_uturn_reverse

    return _after_nuts(metric, log_prob, step, problem, None)


def gist_step_size(metric: str, problem: Problem) -> Sampler:
    """GIST with a step size of every move's own, found by doubling or halving that of NUTS.

    One leapfrog step a draw, its default. Gradients are those of both searches, there and back,
    and of the move. A search that ends at the first step size has tried one or two, which the
    kernel does not tell: one is counted.

    Args:
      metric: as for `nuts`.
      problem: to solve.
    """
    jax = load('jax')
    log_prob = jax_programs.density(problem)
    kernel = load('blackjax').gist_step_size.build_kernel()

    def num_tried(index):
        # doubling goes one step too far, and comes back
        return jax.numpy.where(index > 0, index + 2, 1 - index)

    def step(key, state, learned):
        state, info = kernel(key, state, log_prob, *learned)
        return state, num_tried(info.step_index) + num_tried(info.reverse_step_index) + 1

    return _after_nuts(metric, log_prob, step, problem, problem.num_short_results)


def _after_nuts(metric, log_prob, step, problem, num_results):
    """A kernel of GIST with the step size and the metric that NUTS has learned."""
    composed = load('blackjax.mcmc.composed')
    warm_up_of_nuts = _warm_up_of_nuts(metric, log_prob, problem)

    def warm_up(key, position):
        states, *learned = warm_up_of_nuts(key, position)
        first = composed.GISTState(states.position, states.logdensity, states.logdensity_grad)
        return first, *learned

    return jax_programs.sampler(warm_up, step, problem, problem.num_chains, num_results)


def chees(
    num_chains: int | None,
    mass_matrix: str | None,
    problem: Problem,
    position_of: Callable = operator.attrgetter('position'),
) -> Sampler:
    """ChEES-HMC with the optimizer, acceptance and first step size of its own tests.

    Args:
      num_chains: C; `None` for that of the problem.
      mass_matrix: 'diagonal' to learn one, `None` for the identity.
      problem: to solve.
      position_of: states -> what is kept of a draw. Default: all of it.
    """
    jax, blackjax, optax = map(load, ('jax', 'blackjax', 'optax'))
    num_chains = num_chains or problem.num_chains
    log_prob = jax_programs.density(problem)
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

    return jax_programs.sampler(warm_up, step, problem, num_chains, position_of=position_of)


def meads(num_chains: int | None, problem: Problem) -> Sampler:
    """MEADS: generalised HMC, one gradient a step, tuned by the other chains.

    Args:
      num_chains: C; `None` for that of the problem.
      problem: to solve.
    """
    jax, blackjax = load('jax'), load('blackjax')
    num_chains = num_chains or problem.num_chains
    log_prob = jax_programs.density(problem)
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

    return jax_programs.sampler(warm_up, step, problem, num_chains, problem.num_short_results)


def mams(problem: Problem) -> Sampler:
    """Metropolis-adjusted microcanonical sampler, of random length, tuned in every chain.

    Its tuner takes three tenths of the steps that it is told of: it is told of as many as make them
    the warm-up.

    Args:
      problem: to solve.
    """
    jax, blackjax = load('jax'), load('blackjax')
    dynamic = load('blackjax.mcmc.adjusted_mclmc_dynamic')
    log_prob = jax_programs.density(problem)
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

    return jax_programs.sampler(warm_up, step, problem, problem.num_chains)


def _keep_leapfrogs(state, info, adaptation):
    del state, adaptation
    return _Info(info.num_integration_steps)
