"""TFP's own samplers, each one XLA program as its documentation has it."""

import time
from collections.abc import Callable

import tensorflow as tf
import tensorflow_probability as tfp

from experiments import programs
from experiments.benchmark.sampling import Draws, Problem, Sampler

_NUTS_STEP_SIZE, _NUTS_TARGET, _ADAPTING_SHARE = 0.1, 0.8, 0.8


def nuts(problem: Problem) -> Sampler:
    """`NoUTurnSampler` with `DualAveragingStepSizeAdaptation`, whose metric is the identity."""
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.NoUTurnSampler(problem.target.log_prob, step_size=_NUTS_STEP_SIZE),
        num_adaptation_steps=int(_ADAPTING_SHARE * problem.num_warmup_steps),
        target_accept_prob=_NUTS_TARGET,
    )

    @_program
    def run(state, seed):
        return tfp.mcmc.sample_chain(
            problem.num_warmup_steps + problem.num_results,
            state,
            kernel=kernel,
            trace_fn=lambda _, results: results.inner_results.leapfrogs_taken,
            seed=seed,
        )

    return _sampler(run, problem, problem.num_chains)


def windowed_nuts(problem: Problem) -> Sampler:
    """`windowed_adaptive_nuts`: NUTS with a diagonal metric learned in windows."""

    @_program
    def run(state, seed):
        draws, trace = tfp.experimental.mcmc.windowed_adaptive_nuts(
            problem.num_results,
            as_joint(problem.target),
            n_chains=problem.num_chains,
            num_adaptation_steps=problem.num_warmup_steps,
            current_state=[state],
            discard_tuning=False,
            seed=seed,
        )
        return draws[0], trace['n_steps']

    return _sampler(run, problem, problem.num_chains)


def windowed_hmc(num_leapfrog_steps: int, problem: Problem) -> Sampler:
    """`windowed_adaptive_hmc` with a diagonal metric learned in windows.

    Args:
      num_leapfrog_steps: L, which it leaves to its user.
      problem: to solve.
    """

    @_program
    def run(state, seed):
        draws, trace = tfp.experimental.mcmc.windowed_adaptive_hmc(
            problem.num_results,
            as_joint(problem.target),
            num_leapfrog_steps=num_leapfrog_steps,
            n_chains=problem.num_chains,
            num_adaptation_steps=problem.num_warmup_steps,
            current_state=[state],
            discard_tuning=False,
            seed=seed,
        )
        return draws[0], num_leapfrog_steps * tf.ones_like(trace['tune'], tf.int32)

    return _sampler(run, problem, problem.num_chains)


def snaper(num_chains: int | None, problem: Problem) -> Sampler:
    """`sample_snaper_hmc`: trajectory length, step size and diagonal metric from all chains.

    Args:
      num_chains: C; `None` for that of the problem.
      problem: to solve.
    """

    @_program
    def run(state, seed):
        results = tfp.experimental.mcmc.sample_snaper_hmc(
            problem.target.log_prob,
            problem.num_results,
            num_burnin_steps=problem.num_warmup_steps,
            discard_burnin_steps=False,
            init_state=state,
            event_space_bijector=tfp.bijectors.Identity(),
            event_dtype=tf.float32,
            event_shape=[problem.target.event_size],
            seed=seed,
        )
        draws, trace = results.trace
        return draws, trace['n_steps']

    return _sampler(run, problem, num_chains or problem.num_chains)


def _program(function):
    return tf.function(function, jit_compile=programs.JIT_COMPILE, autograph=False)


class _TargetDistribution(tfp.distributions.Distribution):
    """A target as the distribution that the windowed samplers ask for."""

    def __init__(self, target):
        parameters = dict(locals())
        self._target = target
        super().__init__(
            dtype=tf.float32,
            reparameterization_type=tfp.distributions.NOT_REPARAMETERIZED,
            validate_args=False,
            allow_nan_stats=True,
            parameters=parameters,
            name='target',
        )

    @classmethod
    def _parameter_properties(cls, dtype, num_classes=None):
        del dtype, num_classes
        return {}

    def _event_shape(self):
        return tf.TensorShape([self._target.event_size])

    def _log_prob(self, value):
        return self._target.log_prob(value)

    def _sample_n(self, n, seed=None):
        return self._target.initial_state(n, seed)

    def _default_event_space_bijector(self):
        return tfp.bijectors.Identity()


def as_joint(target):
    """A target as the joint distribution that the windowed samplers ask for."""
    return tfp.distributions.JointDistributionSequential([_TargetDistribution(target)])


def _sampler(run: Callable, problem: Problem, num_chains: int) -> Sampler:
    """A program (state, seed) -> (draws, leapfrog steps), both with the warm-up's, as a sampler.

    Warm-up and sampling are one program; its seconds are split by the steps that the slowest chain
    takes, for which the others wait.
    """
    compiled: list[bool] = []

    def sample(seed: int) -> Draws:
        state, compiling = problem.initial_state(num_chains, seed), 0.0
        if not compiled:
            _, compiling = _call(run, state, seed)
            compiled.append(True)
        (draws, leapfrogs), seconds = _call(run, state, seed)
        num_warmup = problem.num_warmup_steps
        per_chain = leapfrogs.reshape([len(leapfrogs), -1])
        slowest = per_chain.max(axis=1)
        share = float(slowest[:num_warmup].sum() / slowest.sum())
        return Draws(
            states=draws[num_warmup:],
            num_gradients=float(per_chain[num_warmup:].sum(axis=0).mean()),
            num_warmup_gradients=float(per_chain[:num_warmup].sum(axis=0).mean()),
            # the first call compiles and runs
            compile_seconds=max(0.0, compiling - seconds),
            warmup_seconds=share * seconds,
            sampling_seconds=(1 - share) * seconds,
        )

    return sample


def _call(run, state, seed):
    """((draws, leapfrogs), seconds)."""
    begin = time.perf_counter()
    draws, leapfrogs = (x.numpy() for x in run(state, tf.constant([seed, 1])))
    return (draws, leapfrogs), time.perf_counter() - begin
