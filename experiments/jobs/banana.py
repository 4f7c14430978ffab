"""A bent Gaussian: a preconditioner that bends, linear ones, and the samplers of TFP."""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import effective_size, programs, targets
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.tables import Table

_ADAPTATION_FRACTION = 0.8
_HMC_ACCEPTANCE, _NUTS_ACCEPTANCE = 0.65, 0.8
_FIRST_STEP_SIZE = 0.1


@dataclasses.dataclass(frozen=True)
class _Draws:
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


@dataclasses.dataclass(frozen=True)
class _Sampler:
    """A row of the table; `run` takes (initial state, seed)."""

    name: str
    num_leapfrog_steps: int | None
    num_warmup_steps: int
    run: Callable[[tf.Tensor, int], _Draws]


def banana(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every sampler with every seed."""
    del folder
    settings, target = config.settings, targets.make(**config.target)
    rows, records = [], []
    for sampler in _samplers(target, settings):
        figures = []
        for seed in settings['seeds']:
            start = target.initial_state(settings['num_chains'], (seed, 0))
            figures.append(_figures(sampler.run(start, seed), target.reference))
            records.append(
                {
                    'sampler': sampler.name,
                    'num_leapfrog_steps': sampler.num_leapfrog_steps,
                    'num_warmup_steps': sampler.num_warmup_steps,
                    'seed': seed,
                }
                | figures[-1]
            )
        rows.append(_row(sampler, figures))
        if progress:
            print(f'{sampler.name}: L = {sampler.num_leapfrog_steps}', flush=True)
    return Outcome([_table(target, settings, rows)], records)


def _samplers(target, settings) -> Iterator[_Sampler]:
    families = (
        ('RealNVP', tfpa.preconditioners.real_nvp(), 'flow'),
        ('Cholesky', tfpa.preconditioners.cholesky(), 'linear'),
    )
    for name, preconditioner, kind in families:
        for length in settings[f'{kind}_lengths']:
            make_run = _adaptive(target, length, preconditioner, settings['num_results'])
            for steps in settings[f'{kind}_warmup_steps']:
                yield _Sampler(name, length, steps, make_run(steps))
    num_warmup_steps = settings['rival_warmup_steps']
    for length in settings['hmc_lengths']:
        kernel = tfp.mcmc.HamiltonianMonteCarlo(target.log_prob, _FIRST_STEP_SIZE, length)
        run = _rival(kernel, _HMC_ACCEPTANCE, num_warmup_steps, settings['num_results'], length)
        yield _Sampler(f'HMC, acceptance {_HMC_ACCEPTANCE}', length, num_warmup_steps, run)
    if settings['nuts']:
        kernel = tfp.mcmc.NoUTurnSampler(target.log_prob, _FIRST_STEP_SIZE)
        run = _rival(kernel, _NUTS_ACCEPTANCE, num_warmup_steps, settings['num_results'])
        yield _Sampler('NUTS', None, num_warmup_steps, run)


def _adaptive(target, length, preconditioner, num_results) -> Callable[[int], Callable]:
    """num_warmup_steps -> `_Sampler.run`; all budgets share their programs."""

    def make_kernel(num_adaptation_steps):
        return tfpa.EntropyAdaptiveHMC(
            target.log_prob, length, num_adaptation_steps, preconditioner
        )

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def warm_up(state, num_steps, seed):
        chain = tfp.mcmc.sample_chain(
            1,
            state,
            kernel=make_kernel(num_steps),
            num_burnin_steps=num_steps - 1,
            trace_fn=None,
            return_final_kernel_results=True,
            seed=seed,
        )
        return chain.all_states[-1], chain.final_kernel_results

    sample = _Timed(programs.sampling_program(make_kernel(1), num_results))

    def make_run(num_warmup_steps):
        def run(start, seed):
            state, warm = warm_up(start, tf.constant(num_warmup_steps), tf.constant([seed, 1]))
            states, accepted, results = sample(
                state, programs.proposal_of(warm), tf.constant([seed, 2])
            )
            return _Draws(
                states=states.numpy(),
                accept_rate=float(np.mean(accepted)),
                num_warmup_gradients=int(warm.info.num_gradients),
                num_warmup_products=int(warm.info.num_hessian_vector_products),
                num_gradients=int(results.info.num_gradients),
                seconds=sample.seconds,
            )

        return run

    return make_run


def _rival(kernel, target_accept_prob, num_warmup_steps, num_results, length=None):
    """`_Sampler.run` of a kernel of TFP whose step size dual averaging tunes."""
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

    warm_up, sample = program(num_warmup_steps), _Timed(program(num_results))

    def run(start, seed):
        warm = warm_up(start, adaptive.bootstrap_results(start), tf.constant([seed, 1]))
        end = sample(warm.all_states[-1], warm.final_kernel_results, tf.constant([seed, 2]))
        return _Draws(
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


class _Timed:
    """A program that knows how long its last run took; it compiles in a run of its own."""

    def __init__(self, program: Callable):
        self._program = program
        self._is_compiled = False
        self.seconds = 0.0

    def __call__(self, *arguments):
        if not self._is_compiled:
            self._program(*arguments)
            self._is_compiled = True
        start = time.perf_counter()
        result = self._program(*arguments)
        tf.nest.map_structure(np.asarray, result)
        self.seconds = time.perf_counter() - start
        return result


def _figures(draws: _Draws, reference: targets.Moments | None) -> dict[str, Any]:
    min_ess, max_rhat = effective_size.smallest(draws.states)
    num_chains = draws.states.shape[1]
    in_all = draws.num_warmup_gradients + 2 * draws.num_warmup_products + draws.num_gradients
    figures = {
        'min_ess': min_ess,
        'ess_per_gradient': min_ess / (num_chains * draws.num_gradients),
        'ess_per_gradient_in_all': min_ess / (num_chains * in_all),
        'ess_per_second': min_ess / draws.seconds,
        'max_rhat': max_rhat,
        **{
            field.name: getattr(draws, field.name)
            for field in dataclasses.fields(draws)
            if field.name != 'states'
        },
    }
    if reference:
        ess, _, _ = tfpa.sampling.diagnose(draws.states, 1)
        error = np.mean(draws.states, axis=(0, 1), dtype=np.float64) - np.array(reference.mean)
        figures['largest_error'] = float(np.max(np.abs(error) * np.sqrt(ess) / reference.sd))
    return figures


def _row(sampler: _Sampler, figures: list[dict[str, Any]]) -> list[Any]:
    def over_seeds(name, statistic=np.median):
        return float(statistic([figure[name] for figure in figures]))

    products = over_seeds('num_warmup_products')
    return [
        sampler.name,
        sampler.num_leapfrog_steps,
        sampler.num_warmup_steps,
        over_seeds('ess_per_gradient'),
        over_seeds('ess_per_gradient', np.min),
        over_seeds('ess_per_gradient_in_all'),
        over_seeds('ess_per_second'),
        f'{over_seeds("max_rhat", np.max):.3f}',
        over_seeds('accept_rate'),
        f'{over_seeds("num_warmup_gradients"):,.0f} + {products:,.0f}',
        over_seeds('num_gradients'),
        over_seeds('largest_error', np.max),
    ]


def _table(target, settings, rows) -> Table:
    return Table(
        title=f'{target.name}, d = {target.event_size}, {len(settings["seeds"])} seeds',
        columns=[
            *('sampler', 'L', 'warm-up steps'),
            *('min ESS / gradient', 'worst seed', 'warm-up charged', 'min ESS / s', 'max R-hat'),
            *('acceptance', 'warm-up gradients + HVPs', 'gradients', 'mean error / s.e.'),
        ],
        rows=rows,
        note=(
            f'{settings["num_chains"]} chains, {settings["num_results"]:,} draws each. ESS: '
            'smallest over all coordinates of q and of q^2, all chains together. Gradients per '
            'chain; charged: those of the warm-up too, a Hessian-vector product as two. Seconds of '
            'sampling, compilation apart. Medians over seeds but for the worst seed, R-hat and the '
            'error of the mean.'
        ),
    )
