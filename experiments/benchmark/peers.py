"""Section: our samplers and those of others on the same densities, in one run."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from experiments import effective_size, targets
from experiments.benchmark import (
    classical,
    comparison,
    ours,
    peers_blackjax,
    peers_numpyro,
    peers_nutpie,
    peers_tfp,
)
from experiments.benchmark.sampling import Problem, Sampler
from experiments.benchmark.section import Section
from experiments.config import Config, ConfigError
from experiments.optional import MissingPackageError
from experiments.tables import Table

BASELINES: dict[str, Callable[[Problem], Sampler]] = {
    'WindowedNUTS': classical.windowed_nuts,
    'WindowedHMC': functools.partial(classical.windowed_hmc, 10),
}
"""Ours with the warm-up of Stan: rows beside the others, which take no part in the standings."""

PEERS: dict[str, Callable[[Problem], Sampler]] = {
    'TFP NUTS (unit metric)': peers_tfp.nuts,
    'TFP windowed NUTS': peers_tfp.windowed_nuts,
    'TFP windowed HMC': functools.partial(peers_tfp.windowed_hmc, 10),
    'TFP windowed HMC (3 steps)': functools.partial(peers_tfp.windowed_hmc, 3),
    'TFP SNAPER-HMC': functools.partial(peers_tfp.snaper, None),
    'TFP SNAPER-HMC (64 chains)': functools.partial(peers_tfp.snaper, 64),
    'BlackJAX NUTS (diagonal)': functools.partial(peers_blackjax.nuts, 'diagonal'),
    'BlackJAX NUTS (dense)': functools.partial(peers_blackjax.nuts, 'dense'),
    'BlackJAX NUTS (low rank)': functools.partial(peers_blackjax.nuts, 'low rank'),
    'MAMS': peers_blackjax.mams,
    'MEADS (64 chains)': functools.partial(peers_blackjax.meads, 64),
    'ChEES-HMC': functools.partial(peers_blackjax.chees, None, None),
    'ChEES-HMC (64 chains)': functools.partial(peers_blackjax.chees, 64, None),
    'ChEES-HMC (64 chains; diagonal)': functools.partial(peers_blackjax.chees, 64, 'diagonal'),
    'GIST path length (diagonal)': functools.partial(peers_blackjax.gist_path_length, 'diagonal'),
    'GIST path length (dense)': functools.partial(peers_blackjax.gist_path_length, 'dense'),
    'GIST step size (diagonal)': functools.partial(peers_blackjax.gist_step_size, 'diagonal'),
    'GIST step size (dense)': functools.partial(peers_blackjax.gist_step_size, 'dense'),
    'NumPyro NUTS (diagonal)': functools.partial(peers_numpyro.nuts, False),
    'NumPyro NUTS (dense)': functools.partial(peers_numpyro.nuts, True),
    'nutpie (low rank)': peers_nutpie.low_rank,
}
"""Label -> what makes the sampler; with its defaults, or for ChEES-HMC those of its own tests.

Windowed HMC has no default length: ten steps unless its row says otherwise. TFP's NUTS has no
default step size or adaptation: dual averaging to an acceptance of 0.8 for four fifths of its
warm-up. GIST has none either: it takes the step size and the metric of BlackJAX's NUTS.
"""

FAILURES = (RuntimeError, MemoryError, FloatingPointError, tf.errors.OpError)
"""What other libraries raise where they cannot sample; XLA's errors are `RuntimeError`s."""

_DENSE = '(dense)'
_OWN_KEYS = ('ours', 'preconditioner', 'max_seeds', 'num_short_results')


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """For each seed all samplers in turn, so that a busy hour slows all of them."""
    settings = config.settings
    own = {options['label']: _ours(options['ours'], settings) for options in config.targets}
    learning = [label for makers in own.values() for label in makers]
    known = list(dict.fromkeys([*learning, *BASELINES, *PEERS]))
    wanted = settings['samplers'] or known
    unknown = set(wanted) - set(known)
    if unknown:
        raise ConfigError(
            f'samplers={",".join(sorted(unknown))} names no sampler; there are {"; ".join(known)}.'
        )
    for target, options in config.chosen_targets():
        problem = _problem(settings, options)
        made: dict[str, Sampler] = {}
        makers = {**own[target], **BASELINES, **PEERS}
        for seed in settings['seeds'][: options.get('max_seeds')]:
            for label in filter(wanted.__contains__, makers):
                found = {
                    'target': target,
                    'sampler': label,
                    'is_ours': label not in PEERS,
                    'is_baseline': label in BASELINES,
                    'seed': seed,
                }
                make = functools.partial(_find_or_make, made, label, makers[label], problem)
                unit = functools.partial(_measure, found, make, problem, settings)
                yield f'{target}: {label}: seed {seed}', unit


def _ours(labels, settings) -> dict[str, Callable[[Problem], Sampler]]:
    """Each of our kernels with each number of chains."""
    return {
        label if num_chains == settings['num_chains'] else f'{label} ({num_chains} chains)': (
            functools.partial(ours.make, label, num_chains)
        )
        for label in labels
        for num_chains in settings['our_chains']
    }


def _find_or_make(made, label, make, problem) -> Sampler:
    """The sampler of a label, compiled for one seed and kept for the others."""
    if label not in made:
        made[label] = make(problem)
    return made[label]


def _problem(settings, options) -> Problem:
    arguments = {key: value for key, value in options.items() if key not in _OWN_KEYS}
    return Problem(
        target=targets.make(**arguments),
        arguments=arguments,
        preconditioner=options['preconditioner'],
        num_chains=settings['num_chains'],
        num_warmup_steps=settings['num_warmup_steps'],
        num_results=settings['num_results'],
        num_short_results=options.get('num_short_results', settings['num_short_results']),
        max_seconds=60 * settings['max_minutes'],
    )


def _measure(found, make, problem, settings) -> dict[str, Any]:
    limit = settings['max_dense_dims']
    if found['sampler'].endswith(_DENSE) and problem.target.event_size > limit:
        reason = f'not run: a dense metric only up to d = {limit}'
        return found | {'unavailable': reason, 'is_skipped': True}
    try:
        draws = make()(found['seed'])
    except MissingPackageError as error:
        return found | {'unavailable': str(error)}
    except TimeoutError:
        if found['is_ours']:
            raise
        reason = f'not finished: a call may take {settings["max_minutes"]:g} minutes'
        return found | {'unavailable': reason, 'is_skipped': True}
    except FAILURES as error:
        if found['is_ours']:
            raise
        # a row that says so, tried again next time; what our adapter does wrong stops the run
        reason = ' '.join(str(error).replace('|', ' ').split())
        return found | {'unavailable': f'failed: {type(error).__name__}: {reason:.80}'}
    min_ess, max_rhat = effective_size.smallest(draws.states.astype('float32'))
    num_results, num_chains, event_size = draws.states.shape
    return found | {
        'event_size': event_size,
        'num_chains': num_chains,
        'num_results': num_results,
        'min_ess': min_ess,
        'max_rhat': max_rhat,
        **draws.costs,
    }


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    samplers = {
        options['label']: [*_ours(options['ours'], config.settings), *BASELINES, *PEERS]
        for options in config.targets
    }
    return comparison.tables(config, results, samplers)


SECTION = Section('peers', _units, _tables)
