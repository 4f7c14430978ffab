"""Section: a step of `AdaptiveMetropolis` beside one of TFP's `RandomWalkMetropolis`."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import programs, targets
from experiments.benchmark import stepping
from experiments.benchmark.section import Section
from experiments.config import Config
from experiments.tables import Table, goal, spread

_WALK, _ADAPTING, _FROZEN = 'walk', 'adapting', 'frozen'


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    settings = config.settings
    for num_dims, limit in zip(settings['dims'], settings['goals'], strict=True):
        for num_chains in settings['chains']:
            unit = functools.partial(_measure, num_dims, num_chains, limit, settings)
            yield f'd = {num_dims}, {num_chains} chains', unit


def _measure(num_dims, num_chains, limit, settings) -> dict[str, Any]:
    """Medians over turns, in which all run one after the other, on a standard normal."""
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
    # within a turn, which a busy machine slows as a whole
    ratios = {name: times[name] / times[_WALK] for name in (_ADAPTING, _FROZEN)}
    return {
        'num_dims': num_dims,
        'num_chains': num_chains,
        'goal': limit,
        'seconds': {name: float(np.median(each)) / num_steps for name, each in times.items()},
        'ratios': {name: float(np.median(each)) for name, each in ratios.items()},
        'quartiles': np.quantile(ratios[_ADAPTING], [0.25, 0.75]).tolist(),
    }


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


def _row(run) -> list[Any]:
    seconds, ratios = run['seconds'], run['ratios']
    return [
        *(run['num_dims'], run['num_chains']),
        *(1e6 * seconds[name] for name in (_WALK, _ADAPTING, _FROZEN)),
        *(ratios[_ADAPTING], spread(run['quartiles']), goal(run['goal'], ratios[_ADAPTING])),
        ratios[_FROZEN],
    ]


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    settings = config.settings
    return [
        Table(
            title='Steps of `AdaptiveMetropolis` and of `RandomWalkMetropolis`',
            columns=[
                *('d', 'chains', 'walk, us', 'adapting, us', 'frozen, us'),
                *('adapting / walk', 'quartiles', 'goal: at most', 'frozen / walk'),
            ],
            rows=[_row(run) for run in results.values()],
            note=(
                f'The first {settings["num_steps"]:,} steps from exact draws of a standard normal, '
                'all of which adapt, over and over in one XLA program for each kernel, and as many '
                f'of the walk and of the frozen kernel; in turns, {settings["repetitions"]} times '
                f'about {settings["seconds"]} s each. Microseconds are medians over turns, ratios '
                'medians of those within a turn.'
            ),
        )
    ]


SECTION = Section('gradient_free_steps', _units, _tables)
