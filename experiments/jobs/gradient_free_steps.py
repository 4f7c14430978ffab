"""What a step of `AdaptiveMetropolis` costs beside one of TFP's `RandomWalkMetropolis`."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import programs, targets
from experiments.benchmark import stepping
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.tables import Table, goal, spread

_WALK, _ADAPTING, _FROZEN = 'walk', 'adapting', 'frozen'


def gradient_free_steps(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Times both in turns on a standard normal, for every dimension and number of chains."""
    del folder
    settings, runs, rows = config.settings, [], []
    for num_dims, limit in zip(settings['dims'], settings['goals'], strict=True):
        for num_chains in settings['chains']:
            times = _measure(num_dims, num_chains, settings)
            # within a turn, which a busy machine slows as a whole
            ratios = {name: times[name] / times[_WALK] for name in (_ADAPTING, _FROZEN)}
            run = {
                'num_dims': num_dims,
                'num_chains': num_chains,
                'seconds': {name: float(np.median(each)) for name, each in times.items()},
                'ratios': {name: float(np.median(each)) for name, each in ratios.items()},
                'quartiles': np.quantile(ratios[_ADAPTING], [0.25, 0.75]).tolist(),
            }
            runs.append(run)
            rows.append(_row(run, limit))
            if progress:
                print(f'd = {num_dims}, {num_chains} chains: {run["ratios"]}', flush=True)
    return Outcome([_table(rows, settings)], runs)


def _measure(num_dims, num_chains, settings) -> dict[str, np.ndarray]:
    """Seconds a step of each kernel, [repetitions]."""
    target = targets.make('gaussian', kind='iid', num_dims=num_dims, initial_scale=1.0)
    state = target.initial_state(num_chains, (settings['seed'], 0))
    num_steps = settings['num_steps']
    adapting = tfpa.AdaptiveMetropolis(target.log_prob, num_steps)
    scale = tfp.mcmc.random_walk_normal_fn(2.38 / num_dims**0.5)
    kernels = {
        _WALK: tfp.mcmc.RandomWalkMetropolis(target.log_prob, scale),
        _ADAPTING: adapting,
        _FROZEN: adapting.frozen(adapting.bootstrap_results(state)),
    }
    loops = {
        name: _whole_runs(kernel, state, settings['seed'], num_steps)
        for name, kernel in kernels.items()
    }
    times = stepping.interleave(loops, settings['repetitions'], settings['seconds'])
    return {name: each / num_steps for name, each in times.items()}


def _whole_runs(kernel, state, seed, num_steps) -> Callable[[int], Any]:
    """A function of a number of runs, each of all the steps from the start."""

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def loop(state, results, seed, num_runs):
        def one_step(step, run_seed, state, results):
            step_seed = tf.random.experimental.stateless_fold_in(run_seed, step)
            return step + 1, run_seed, *kernel.one_step(state, results, seed=step_seed)

        def one_run(run, total):
            run_seed = tf.random.experimental.stateless_fold_in(seed, run)
            start = 0, run_seed, state, results
            end = tf.while_loop(lambda step, *_: step < num_steps, one_step, start)[2]
            return run + 1, total + end

        return tf.while_loop(lambda run, _: run < num_runs, one_run, (0, tf.zeros_like(state)))[1]

    results = kernel.bootstrap_results(state)
    return lambda num_runs: loop(state, results, tf.constant([seed, 0]), tf.constant(num_runs))


def _row(run, limit) -> list[Any]:
    seconds, ratios = run['seconds'], run['ratios']
    return [
        *(run['num_dims'], run['num_chains']),
        *(1e6 * seconds[name] for name in (_WALK, _ADAPTING, _FROZEN)),
        *(ratios[_ADAPTING], spread(run['quartiles']), goal(limit, ratios[_ADAPTING])),
        ratios[_FROZEN],
    ]


def _table(rows, settings) -> Table:
    return Table(
        title='Steps of `AdaptiveMetropolis` and of `RandomWalkMetropolis`',
        columns=[
            *('d', 'chains', 'walk, us', 'adapting, us', 'frozen, us'),
            *('adapting / walk', 'quartiles', 'goal: at most', 'frozen / walk'),
        ],
        rows=rows,
        note=(
            f'The first {settings["num_steps"]:,} steps from exact draws of a standard normal, '
            'all of which adapt, over and over in one XLA program for each kernel, and as many of '
            f'the walk and of the frozen kernel; in turns, {settings["repetitions"]} times about '
            f'{settings["seconds"]} s each. Microseconds are medians over turns, ratios medians '
            'of those within a turn.'
        ),
    )
