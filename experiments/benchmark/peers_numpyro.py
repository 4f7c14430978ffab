"""NumPyro's NUTS, with the warm-up of Stan in every chain."""

import operator
from typing import Any

from experiments.benchmark import jax_programs
from experiments.benchmark.jax_programs import load
from experiments.benchmark.sampling import Problem, Sampler


def nuts(is_dense: bool, problem: Problem) -> Sampler:
    """NUTS as NumPyro has it by default, or with a dense metric.

    Args:
      is_dense: whether the metric is dense, which is its option `dense_mass`; else diagonal.
      problem: to solve.
    """
    jax, infer = load('jax'), load('numpyro.infer')
    log_prob = jax_programs.density(problem)
    kernel = infer.NUTS(potential_fn=lambda q: -log_prob(q), dense_mass=is_dense)

    def step(key: Any, state: Any, learned: Any) -> tuple[Any, Any]:
        del key, learned  # the state has both
        state = kernel.sample(state, (), {})
        return state, state.num_steps

    def warm_up(key, position):
        def one(key, position):
            def body(state, _):
                return step(None, state, None)

            first = kernel.init(key, problem.num_warmup_steps, position, (), {})
            return jax.lax.scan(body, first, length=problem.num_warmup_steps)

        keys = jax.random.split(key, problem.num_chains)
        states, leapfrogs = jax.vmap(one)(keys, position)
        return states, jax.numpy.zeros([problem.num_chains]), leapfrogs

    return jax_programs.sampler(
        warm_up, step, problem, problem.num_chains, position_of=operator.attrgetter('z')
    )
