"""Options that do not exist, answered with the one that was meant."""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec('_P')
_R = TypeVar('_R')

# what Stan, PyMC, NumPyro, emcee and tfp.mcmc call them
_ELSEWHERE = {
    'target': 'model fn logp log_prob log_prob_fn logdensity_fn target_log_prob_fn posterior',
    'num_results': 'draws samples num_samples n_samples num_draws iter_sampling num_steps',
    'num_warmup_steps': 'tune warmup num_warmup n_warmup iter_warmup burnin burn_in '
    'num_burnin_steps num_adaptation_steps',
    'num_chains': 'chains n_chains nwalkers num_walkers',
    'initial_state': 'current_state init inits init_state init_params initvals start x0',
    'kernel': 'step sampler algorithm',
    'num_steps_between_results': 'thin thinning thin_by',
    'seed': 'random_seed random_state rng rng_key key',
    'progress': 'progressbar progress_bar show_progress verbose',
    'jit_compile': 'jit xla compile',
    'reparameterize': 'reparam centered non_centered',
    'checkpoint': 'path file filename output_dir',
}
_MEANT = {word: name for name, words in _ELSEWHERE.items() for word in words.split()}


def explained(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function`, with calls that do not fit its signature refused in a sentence.

    Args:
      function: has named arguments only.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(_advice(function.__name__, signature, args, kwargs, error)) from None
        return function(*args, **kwargs)

    return call


def _advice(name, signature, args, kwargs, error):
    known = signature.parameters
    unknown = [option for option in kwargs if option not in known]
    if unknown:
        meant = _MEANT.get(unknown[0]) or next(
            iter(difflib.get_close_matches(unknown[0], known, 1, cutoff=0.75)), None
        )
        remedy = f'use `{meant}`' if meant in known else f'leave it out; there are {_list(known)}'
        return f'`{name}` has no argument `{unknown[0]}`: {remedy}.'
    by_place = [key for key, value in known.items() if value.kind is not value.KEYWORD_ONLY]
    if len(args) > len(by_place):
        return (
            f'`{name}` takes {_list(by_place)} by position, and got {len(args)} values: pass the '
            f'others by name, such as `{next(key for key in known if key not in by_place)}`=...'
        )
    return (
        f'`{name}` cannot be called like this ({error}): pass each of {_list(by_place)} at most '
        'once, and those without a default always.'
    )


def _list(names):
    return ', '.join(f'`{name}`' for name in names)
