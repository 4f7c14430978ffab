"""`WindowedNUTS` beside TFP's `windowed_adaptive_nuts`: same sampler and schedule, same starts."""

import pathlib
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import effective_size, programs, targets
from experiments.benchmark import peers_tfp
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.tables import Table


def windowed_nuts(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs both on every target, seed by seed in turn."""
    del folder, progress
    runs, rows = [], []
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        samplers = {
            'WindowedNUTS': _ours(target, config.settings),
            'TFP windowed_adaptive_nuts': _tfps(target, config.settings),
        }
        found: dict[str, list] = {name: [] for name in samplers}
        for seed in config.settings['seeds']:
            for name, sampler in samplers.items():
                found[name].append(
                    {'target': label, 'sampler': name, 'seed': seed, **sampler(seed)}
                )
        reference = _mean(found['TFP windowed_adaptive_nuts'], 'ess_per_gradient')
        for name, own in found.items():
            rows.append(_row(label, name, own, reference))
            runs += own
    return Outcome([_table(rows)], runs)


def _ours(target, settings):
    compiled: list[bool] = []

    def call(seed):
        begin = time.perf_counter()
        run = tfpa.sample(
            target.log_prob,
            settings['num_results'],
            settings['num_warmup_steps'],
            initial_state=target.initial_state(settings['num_chains'], (seed, 0)),
            kernel=tfpa.WindowedNUTS,
            num_steps_between_results=0,
            seed=(seed, 1),
            progress=False,
        )
        return run, time.perf_counter() - begin

    def sample(seed):
        if not compiled:
            call(seed)
            compiled.append(True)
        run, seconds = call(seed)
        warmup = int(run.warmup_kernel_results.info.num_gradients)
        sampling = int(run.kernel_results.info.num_gradients)
        return _figures(run.states, warmup, sampling, seconds)

    return sample


def _tfps(target, settings):
    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def run(state, seed):
        draws, trace = tfp.experimental.mcmc.windowed_adaptive_nuts(
            settings['num_results'],
            peers_tfp.as_joint(target),
            n_chains=settings['num_chains'],
            num_adaptation_steps=settings['num_warmup_steps'],
            current_state=[state],
            discard_tuning=False,
            seed=seed,
        )
        return draws[0], trace['n_steps']

    compiled: list[bool] = []

    def call(seed):
        state = target.initial_state(settings['num_chains'], (seed, 0))
        begin = time.perf_counter()
        draws, leapfrogs = (x.numpy() for x in run(state, tf.constant([seed, 1])))
        return draws, leapfrogs, time.perf_counter() - begin

    def sample(seed):
        if not compiled:
            call(seed)
            compiled.append(True)
        draws, leapfrogs, seconds = call(seed)
        num_warmup = settings['num_warmup_steps']
        slowest = leapfrogs.reshape([len(leapfrogs), -1]).max(axis=1)
        warmup, sampling = int(slowest[:num_warmup].sum()), int(slowest[num_warmup:].sum())
        return _figures(draws[num_warmup:], warmup, sampling, seconds)

    return sample


def _figures(states, warmup, sampling, seconds) -> dict[str, Any]:
    min_ess, max_rhat = effective_size.smallest(np.asarray(states, np.float32))
    return {
        'min_ess': min_ess,
        'max_rhat': max_rhat,
        'num_warmup_gradients': warmup,
        'num_gradients': sampling,
        'seconds': seconds,
        'ess_per_gradient': min_ess / sampling,
        'ess_per_second': min_ess / seconds,
    }


def _mean(runs, key) -> float:
    return float(np.mean([run[key] for run in runs]))


def _row(label, name, runs, reference) -> list:
    efficiency = np.array([run['ess_per_gradient'] for run in runs])
    error = np.std(efficiency, ddof=1) / np.sqrt(len(efficiency)) if len(efficiency) > 1 else None
    return [
        label,
        name,
        float(efficiency.mean()),
        None if error is None else float(error),
        float(efficiency.mean() / reference),
        _mean(runs, 'num_warmup_gradients'),
        _mean(runs, 'num_gradients'),
        _mean(runs, 'seconds'),
        _mean(runs, 'ess_per_second'),
        f'{max(run["max_rhat"] for run in runs):.3f}',
    ]


def _table(rows) -> Table:
    return Table(
        title='NUTS with the warm-up of Stan',
        columns=[
            *('target', 'sampler', 'min ESS / gradient', '+/-', 'x TFP', 'warm-up gradients'),
            *('sampling gradients', 'seconds', 'min ESS / s', 'max R-hat'),
        ],
        rows=rows,
        note=(
            'Means over seeds, with their standard error. ESS of all chains; gradients are those '
            'of the longest trajectory of each step, for which all chains wait. Seconds hold '
            'warm-up and sampling, without compilation.'
        ),
    )
