"""Samplers without gradients at equal cost: ours, emcee's stretch move, PyMC's DEMetropolisZ."""

import logging
import math
import pathlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import optional, programs, targets
from experiments.benchmark import densities
from experiments.config import Config
from experiments.jobs.outcome import Outcome
from experiments.tables import Table, rhat, spread

OURS = 'AdaptiveMetropolis'
_MAX_RHAT = 1.05


def gradient_free(config: Config, folder: pathlib.Path, progress: bool) -> Outcome:
    """Runs all on every target with every seed, for as many evaluations of the density."""
    del folder
    runs: list[dict[str, Any]] = []
    rows: list[list[Any]] = []
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        samplers = {
            OURS: _ours(target, config.settings),
            "emcee's stretch move": _stretch(target, config.settings),
            "PyMC's DEMetropolisZ": _differential(target, arguments, config.settings),
        }
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in samplers}
        for seed in config.settings['seeds']:
            for name, sampler in samplers.items():
                states = sampler(seed)
                min_ess, max_rhat = smallest(states)
                num_evaluations = states.shape[0] * states.shape[1]
                found[name].append(
                    {
                        'target': label,
                        'sampler': name,
                        'seed': seed,
                        'num_chains': states.shape[1],
                        'num_evaluations': num_evaluations,
                        'min_ess': min_ess,
                        'max_rhat': max_rhat,
                        'ess_per_evaluation': min_ess / num_evaluations,
                    }
                )
                if progress:
                    print(f'{label}, {name}, seed {seed}: {min_ess:.0f}', flush=True)
        rows += rows_of(label, target.event_size, found)
        runs += [run for own in found.values() for run in own]
    return Outcome([_table(rows, config.settings)], runs)


def _ours(target, settings) -> Callable[[int], np.ndarray]:
    """Learns, freezes and draws."""
    num_chains = settings['num_chains']
    kernel = tfpa.AdaptiveMetropolis(
        target.log_prob,
        settings['num_warmup_evaluations'] // num_chains,
        target_accept_prob=settings['target_accept_prob'],
    )
    warm_up = programs.warm_up_program(kernel, settings['num_warmup_evaluations'] // num_chains)
    draw = programs.sampling_program(kernel, settings['num_evaluations'] // num_chains)

    def sample(seed):
        state, results = warm_up(
            target.initial_state(num_chains, (seed, 0)), tf.constant([seed, 1])
        )
        return draw(state, programs.proposal_of(results), tf.constant([seed, 2]))[0].numpy()

    return sample


def _stretch(target, settings) -> Callable[[int], np.ndarray]:
    """An ensemble of at least 2 d walkers, as emcee asks for; a step evaluates every walker."""
    emcee = optional.load('emcee', 'peers')
    num_walkers = max(settings['least_walkers'], 2 * target.event_size)
    evaluate = tf.function(target.log_prob, jit_compile=programs.JIT_COMPILE, autograph=False)

    def log_prob(q):
        return evaluate(tf.constant(q, tf.float32)).numpy().astype(np.float64)

    def sample(seed):
        start = target.initial_state(num_walkers, (seed, 0)).numpy().astype(np.float64)
        ensemble = emcee.EnsembleSampler(num_walkers, target.event_size, log_prob, vectorize=True)
        ensemble.random_state = np.random.RandomState(seed).get_state()
        num_warmup, num_results = (
            math.ceil(settings[name] / num_walkers)
            for name in ('num_warmup_evaluations', 'num_evaluations')
        )
        ensemble.run_mcmc(start, num_warmup + num_results)
        return ensemble.get_chain()[num_warmup:]

    return sample


def _differential(target, arguments, settings) -> Callable[[int], np.ndarray]:
    """Chains one by one, each with its own past, with PyMC's defaults."""
    pymc = optional.load('pymc', 'peers')
    log_prob, event_size = densities.make(optional.load('pytensor.tensor', 'peers'), **arguments)
    num_chains = settings['num_chains']
    logging.getLogger('pymc').setLevel(logging.ERROR)
    with pymc.Model() as model:
        q = pymc.Flat('q', shape=event_size)
        pymc.Potential('log_prob', log_prob(q))

    def sample(seed):
        start = target.initial_state(num_chains, (seed, 0)).numpy().astype(np.float64)
        with model, warnings.catch_warnings():
            # of a missing BLAS, and of few draws
            warnings.simplefilter('ignore')
            trace = pymc.sample(
                draws=settings['num_evaluations'] // num_chains,
                tune=settings['num_warmup_evaluations'] // num_chains,
                chains=num_chains,
                cores=1,
                step=pymc.DEMetropolisZ(),
                initvals=[{'q': each} for each in start],
                random_seed=seed,
                progressbar=False,
                compute_convergence_checks=False,
            )
        return np.swapaxes(trace.posterior['q'].to_numpy(), 0, 1)

    return sample


def smallest(states: np.ndarray) -> tuple[float, float]:
    """Smallest bulk ESS of ArviZ over all coordinates of q and q^2, and largest R-hat.

    Args:
      states: [N, C, d].
    """
    arviz = optional.load('arviz', 'peers')
    draws = np.moveaxis(states.astype(np.float64), (2, 1), (0, 1))
    sizes = [float(arviz.ess(row, method='bulk')) for row in (*draws, *draws**2)]
    return min(sizes), float(np.max(tfpa.sampling.diagnose(states, 1)[2]))


def rows_of(label: str, size: int, found: Mapping[str, list[dict[str, Any]]]) -> list[list[Any]]:
    """Rows of one target: of each sampler the median over seeds, and ours over each peer."""

    def median(name):
        return float(np.median([run['ess_per_evaluation'] for run in found[name]]))

    rows = []
    for name, own in found.items():
        rates = [run['ess_per_evaluation'] for run in own]
        rows.append(
            [
                *(label, size, name, own[0]['num_chains'], median(name), spread(rates)),
                rhat(max(run['max_rhat'] for run in own), _MAX_RHAT),
                None if name == OURS else median(OURS) / median(name),
            ]
        )
    return rows


def _table(rows, settings) -> Table:
    return Table(
        title='Without gradients: minimum ESS per evaluation of the target',
        columns=[
            *('target', 'd', 'sampler', 'chains', 'min ESS / evaluation', 'seeds'),
            *('max R-hat', 'ours / this'),
        ],
        rows=rows,
        note=(
            f'{settings["num_warmup_evaluations"]:,} evaluations of all chains together to warm '
            f'up, which are not in the ratio and the same for all, and '
            f'{settings["num_evaluations"]:,} to draw; medians over {len(settings["seeds"])} '
            'seeds, beside them the least and the largest, R-hat the worst. ESS: bulk, by '
            '`arviz.ess`, smallest over all coordinates of q and of q^2, all chains together; the '
            'walkers of an ensemble count as chains.'
        ),
    )
