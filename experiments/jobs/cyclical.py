"""The samplers of Li, Zeng & Guo on mixtures: how near the target the draws are, at equal cost."""

import math
import pathlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import effective_size, figures, programs, targets
from experiments.config import Config, ConfigError
from experiments.jobs.outcome import Outcome
from experiments.tables import Table
from experiments.targets.blocks import mixture_of

_DECAY = 0.75
_ACCEPTANCE = 0.234


class _Sampler(NamedTuple):
    """One row."""

    make: Callable[[], tfp.mcmc.TransitionKernel]
    evaluations_per_step: int = 1
    is_kept: Callable | None = None
    """Kernel results -> whether the state is a draw; `None`: all are."""


def cyclical(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs every sampler with every seed for the same number of evaluations a chain."""
    settings, target = config.settings, targets.make(**config.target)
    mixture = mixture_of(config.target['kind'], config.target['num_dims'])
    samplers = _samplers(target, settings)
    unknown = set(settings['samplers']) - set(samplers)
    if unknown:
        raise ConfigError(f'samplers={",".join(sorted(unknown))}: there are {", ".join(samplers)}.')
    records: list[dict[str, Any]] = []
    draws_of: dict[str, np.ndarray] = {}
    for name in settings['samplers']:
        program = _program(samplers[name], settings)
        for seed in settings['seeds']:
            states, kept, seconds = program(
                target.initial_state(settings['num_chains'], seed), seed
            )
            records.append(
                {'sampler': name, 'seed': seed, **_judge(states, kept, seconds, mixture, settings)}
            )
            draws_of.setdefault(name, np.reshape(states[kept], [-1, states.shape[-1]]))
            if progress:
                print(f'{name}, seed {seed}: KL {records[-1]["kl"][-1]:.3f}', flush=True)
    # named after the experiment, for the figures of a page lie in one folder
    figure = f'{config.name}.png'
    figures.mixtures(records, draws_of, mixture, folder / figure)
    return Outcome([_table(target, mixture, settings, records)], records, [figure])


def _samplers(target, settings) -> dict[str, _Sampler]:
    log_prob, warmup = target.log_prob, settings['num_warmup_evaluations']
    function = tfpa.kernel_functions.matern(settings['smoothness'], settings['length_scale'])
    rule = tfpa.tuning.robbins_monro(_ACCEPTANCE, decay=_DECAY)

    def am(**options):
        return lambda: tfpa.AdaptiveMetropolis(log_prob, warmup, **options)

    def cycles(mode, steps_per_evaluation=1.0, **options):
        kernel = tfpa.CyclicalKernelAdaptiveMetropolis(
            log_prob,
            int(warmup * steps_per_evaluation),
            settings['num_steps_per_cycle'],
            settings['exploration_fraction'],
            function,
            settings['cyclical_subsample_size'],
            mode,
            **options,
        )
        return kernel

    def noise(time):
        return settings['first_noise_scale'] * (1 + time) ** -0.5

    published = cycles('as_published', noise_scale=noise)
    return {
        'RW': _Sampler(
            lambda: tfp.mcmc.RandomWalkMetropolis(
                log_prob, tfp.mcmc.random_walk_normal_fn(settings['walk_scale'])
            )
        ),
        'AM': _Sampler(am(adapt_scale=False, gain=settings['am_gain'])),
        'RBAM': _Sampler(am(adapt_scale=False, rao_blackwell=True, gain=settings['rbam_gain'])),
        'GAM': _Sampler(am(scale_rule=rule, gain=lambda t: (1 + t) ** -_DECAY)),
        'KAM': _Sampler(
            lambda: tfpa.KernelAdaptiveMetropolis(
                log_prob, warmup, function, settings['subsample_size'], scale_rule=rule
            )
        ),
        'cKAM finite': _Sampler(lambda: cycles('finite')),
        'cKAM diminishing': _Sampler(lambda: cycles('diminishing')),
        'cKAM ensemble': _Sampler(lambda: cycles('ensemble', 0.5), 2),
        'cKAM as published': _Sampler(lambda: published, is_kept=published.is_recorded),
        'replica exchange': _Sampler(
            lambda: _exchange(log_prob, settings), settings['num_replicas']
        ),
    }


def _exchange(log_prob, settings):
    count = settings['num_replicas']
    return tfp.mcmc.ReplicaExchangeMC(
        log_prob,
        inverse_temperatures=np.geomspace(1, settings['least_inverse_temperature'], count).astype(
            np.float32
        ),
        make_kernel_fn=lambda fn: tfpa.AdaptiveMetropolis(
            fn,
            settings['num_warmup_evaluations'] // count,
            step_size=tf.reshape(
                tf.constant(
                    np.geomspace(1, settings['least_inverse_temperature'], count) ** -0.5,
                    tf.float32,
                ),
                [count, 1],
            )
            * tf.ones([1, settings['num_chains']]),
        ),
    )


def _program(sampler: _Sampler, settings):
    """(state, seed) -> (states [n, C, d], which are draws [n], seconds of the second half)."""
    kernel, cost = sampler.make(), sampler.evaluations_per_step
    counts = [settings[name] // cost for name in ('num_warmup_evaluations', 'num_evaluations')]

    def trace(_, results):
        return tf.constant(True) if sampler.is_kept is None else sampler.is_kept(results)

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def warm_up(state, seed):
        chain = tfp.mcmc.sample_chain(
            1,
            state,
            kernel=kernel,
            num_burnin_steps=max(counts[0] - 1, 0),
            trace_fn=None,
            return_final_kernel_results=True,
            seed=seed,
        )
        return chain.all_states[-1], chain.final_kernel_results

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def draw(state, results, seed):
        return tfp.mcmc.sample_chain(
            counts[1], state, results, kernel=kernel, trace_fn=trace, seed=seed
        )

    is_compiled: list[Any] = []

    def run(state, seed):
        warm = warm_up(state, tf.constant([seed, 1]))
        if not is_compiled:
            is_compiled.append(draw(*warm, tf.constant([seed, 2])))
        begin = time.perf_counter()
        chain = draw(*warm, tf.constant([seed, 2]))
        states, kept = chain.all_states.numpy(), chain.trace.numpy()
        return states, kept, time.perf_counter() - begin

    return run


def _judge(states, kept, seconds, mixture, settings) -> dict[str, Any]:
    evaluations = np.linspace(0, 1, settings['num_marks'] + 1)[1:]
    divergences = []
    for share in evaluations:
        end = max(int(share * len(states)), 1)
        some = states[:end][kept[:end]]
        divergences.append(
            mixture.symmetric_kl(np.reshape(some, [-1, states.shape[-1]])) if len(some) else None
        )
    draws = states[kept]
    min_ess, _ = effective_size.smallest(draws)
    independent = mixture.draw(math.prod(draws.shape[:2]), np.random.default_rng(0))
    return {
        'evaluations': (evaluations * settings['num_evaluations']).tolist(),
        'kl': divergences,
        'exact_kl': mixture.symmetric_kl(independent),
        'mode_shares': mixture.mode_shares(draws).tolist(),
        'min_ess': min_ess,
        'ess_per_evaluation': min_ess / (draws.shape[1] * settings['num_evaluations']),
        'ess_per_second': min_ess / seconds,
    }


def _table(target, mixture, settings, records) -> Table:
    rows = []
    for name in settings['samplers']:
        own = [record for record in records if record['sampler'] == name]
        last = [record['kl'][-1] for record in own]
        shares = np.array([record['mode_shares'] for record in own])
        error = np.std(shares, axis=0) / max(len(own) - 1, 1) ** 0.5
        floor, *efficiency = (
            float(np.median([record[key] for record in own]))
            for key in ('exact_kl', 'ess_per_evaluation', 'ess_per_second')
        )
        rows.append(
            [
                *(name, float(np.median(last)), float(np.max(last)), floor),
                f'{_shares(np.mean(shares, axis=0))} (± {np.max(error):.3f})',
                *efficiency,
            ]
        )
    return Table(
        title=f'{target.name}, d = {target.event_size}, {len(settings["seeds"])} seeds',
        columns=[
            *('sampler', 'symmetric KL', 'worst seed', 'KL of exact draws', 'shares of the modes'),
            *('min ESS / evaluation', 'min ESS / s'),
        ],
        rows=rows,
        note=(
            f'{settings["num_chains"]} chains, {settings["num_warmup_evaluations"]:,} evaluations '
            f'each to warm up and {settings["num_evaluations"]:,} to draw. KL of all draws in '
            'bins, against exact probabilities; medians over seeds. KL of exact draws: of as many '
            'independent ones, which no sampler is expected to be below. Shares: of the draws '
            'nearest to each mode, means over seeds, and the largest of their standard errors; '
            f'exact: {_shares(mixture.exact_mode_shares())}.'
        ),
    )


def _shares(shares) -> str:
    return ', '.join(f'{share:.3f}' for share in shares)
