"""Section: without gradients at equal cost: ours, emcee's stretch move, PyMC's DEMetropolisZ."""

import functools
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import optional, programs, targets
from experiments.benchmark import densities
from experiments.benchmark.section import Section
from experiments.config import Config, ConfigError
from experiments.optional import MissingPackageError
from experiments.tables import Table, rhat, spread

OURS = 'AdaptiveMetropolis'
_PEERS = ("emcee's stretch move", "PyMC's DEMetropolisZ")
_MAX_RHAT = 1.05


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    settings = config.settings
    names = _names(settings)
    wanted = settings['samplers'] or names
    if unknown := set(wanted) - set(names):
        raise ConfigError(
            f'samplers={",".join(sorted(unknown))} names no sampler; there are {"; ".join(names)}.'
        )
    for label, arguments in config.chosen_targets():
        target = targets.make(**arguments)
        # compiled for one seed and kept for the others
        make = functools.cache(functools.partial(_make, target, arguments, settings))
        for seed in settings['seeds']:
            for name in filter(wanted.__contains__, names):
                found = {'target': label, 'event_size': target.event_size, 'sampler': name}
                unit = functools.partial(_measure, {**found, 'seed': seed}, make)
                yield f'{label}: {name}: seed {seed}', unit


def _names(settings) -> list[str]:
    """Ours at its default acceptance, at others, and the peers."""
    others = [f'{OURS} (acceptance {rate:g})' for rate in settings['other_accept_probs']]
    return [OURS, *others, *_PEERS]


def _make(target, arguments, settings, name) -> Callable[[int], np.ndarray]:
    if name == _PEERS[0]:
        return _stretch(target, settings)
    if name == _PEERS[1]:
        return _differential(target, arguments, settings)
    rates = dict(zip(_names(settings)[1:], settings['other_accept_probs'], strict=False))
    return _ours(target, settings, rates.get(name))


def _measure(found, make) -> dict[str, Any]:
    try:
        states = make(found['sampler'])(found['seed'])
    except MissingPackageError as error:
        return found | {'unavailable': str(error)}
    min_ess, max_rhat = smallest(states)
    num_evaluations = states.shape[0] * states.shape[1]
    return found | {
        'num_chains': states.shape[1],
        'num_evaluations': num_evaluations,
        'min_ess': min_ess,
        'max_rhat': max_rhat,
        'ess_per_evaluation': min_ess / num_evaluations,
    }


def _ours(target, settings, accept_prob) -> Callable[[int], np.ndarray]:
    """Learns, freezes and draws; `accept_prob` is `None` for the default of the kernel."""
    num_chains = settings['num_chains']
    options = {} if accept_prob is None else {'target_accept_prob': accept_prob}
    kernel = tfpa.AdaptiveMetropolis(
        target.log_prob, settings['num_warmup_evaluations'] // num_chains, **options
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


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    settings = config.settings
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for run in results.values():
        groups.setdefault(run['target'], {}).setdefault(run['sampler'], []).append(run)
    return [
        Table(
            title='Minimum ESS per evaluation of the target',
            columns=[
                *('target', 'd', 'sampler', 'chains', 'min ESS / evaluation', 'seeds'),
                *('max R-hat', 'ours / this'),
            ],
            rows=[row for found in groups.values() for row in _rows(found)],
            note=(
                f'{settings["num_warmup_evaluations"]:,} evaluations of all chains together to '
                'warm up, which are not in the ratio and the same for all, and '
                f'{settings["num_evaluations"]:,} to draw; medians over {len(settings["seeds"])} '
                'seeds, beside them the least and the largest, R-hat the worst. ESS: bulk, by '
                '`arviz.ess`, smallest over all coordinates of q and of q^2, all chains together; '
                'the walkers of an ensemble count as chains.'
            ),
        )
    ]


def _rows(found: dict[str, list[dict[str, Any]]]) -> list[list[Any]]:
    """Of one target: of each sampler the median over seeds, and ours by default over it."""
    rates = {
        name: [run['ess_per_evaluation'] or 0.0 for run in runs]
        for name, runs in found.items()
        if not any('unavailable' in run for run in runs)
    }
    rows = []
    for name, runs in found.items():
        row = [runs[0]['target'], runs[0]['event_size'], name]
        if name not in rates:
            rows.append([*row, runs[0]['unavailable'], *[None] * 4])
            continue
        middle = float(np.median(rates[name]))
        has_ratio = OURS in rates and name != OURS and middle > 0
        ratio = float(np.median(rates[OURS])) / middle if has_ratio else None
        # a chain that never moves has none
        rhats = [run['max_rhat'] or math.inf for run in runs]
        row += [runs[0]['num_chains'], middle, spread(rates[name])]
        rows.append([*row, rhat(max(rhats), _MAX_RHAT), ratio])
    return rows


SECTION = Section('gradient_free', _units, _tables)
