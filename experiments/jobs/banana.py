"""A bent Gaussian: a preconditioner that bends, linear ones, and the samplers of TFP."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import programs, targets, timed
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.tables import Table, rhat

_HMC_ACCEPTANCE, _NUTS_ACCEPTANCE = 0.65, 0.8
_FIRST_STEP_SIZE = 0.1


@dataclasses.dataclass(frozen=True)
class _Sampler:
    """A row of the table; `run` takes (initial state, seed)."""

    name: str
    num_leapfrog_steps: int | None
    num_warmup_steps: int
    run: timed.Run


def banana(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every sampler with every seed."""
    del folder
    settings, target = config.settings, targets.make(**config.target)
    rows, records = [], []
    for sampler in _samplers(target, settings):
        figures = []
        for seed in settings['seeds']:
            start = target.initial_state(settings['num_chains'], (seed, 0))
            figures.append(timed.figures(sampler.run(start, seed), target.reference))
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
        run = timed.tuned(
            kernel, _HMC_ACCEPTANCE, num_warmup_steps, settings['num_results'], length
        )
        yield _Sampler(f'HMC, acceptance {_HMC_ACCEPTANCE}', length, num_warmup_steps, run)
    if settings['nuts']:
        kernel = tfp.mcmc.NoUTurnSampler(target.log_prob, _FIRST_STEP_SIZE)
        run = timed.tuned(kernel, _NUTS_ACCEPTANCE, num_warmup_steps, settings['num_results'])
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

    sample = timed.Timed(programs.sampling_program(make_kernel(1), num_results))

    def make_run(num_warmup_steps):
        return timed.learned(
            lambda state, seed: warm_up(state, tf.constant(num_warmup_steps), seed), sample
        )

    return make_run


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
        rhat(over_seeds('max_rhat', np.max)),
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
