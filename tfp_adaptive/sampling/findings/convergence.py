"""What is wrong with a run, in sentences that say what to do.

Bounds on R-hat and effective sample size are those of Vehtari et al. (2021). What concerns the
warm-up is in `settling`.
"""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling import coordinates, user_code
from tfp_adaptive.sampling.figures import MAX_RHAT, MIN_DRAWS, MIN_ESS, longest_stays, moves
from tfp_adaptive.sampling.findings import estimates, settling, tails

_STUCK_SHARE = 0.05
_STUCK_PROBABILITY = 1e-6
_MAX_CHANCE = 0.01
_FIRST_SHARE, _TIMES_AS_FAR = 0.1, 2.0
_MIN_LATER_DRAWS = 200


class SamplingWarning(UserWarning):
    """A run ended, but its draws need a second look; see `SampleRun.warnings`."""


def find_concerns(run: Any) -> tuple[str, ...]:
    """One sentence for everything in a `SampleRun` that should worry its user; often none.

    Args:
      run: a `SampleRun`.
    """
    mixing, late = (*_rhat(run), *_effective_sizes(run)), tuple(_late_chains(run))
    return (
        *_moved_starts(run),
        *_nonfinite_draws(run),
        *_stuck_chains(run),
        *_constant_coordinates(run),
        *late,
        *_divergences(run),
        *(() if late else tails.energy_concerns(run)),
        *estimates.variance_concerns(run),
        *settling.acceptance_concerns(run, mixes_well=not mixing),
        *settling.drift_concerns(run, mixes_well=not mixing),
        *mixing,
        *(() if mixing else tails.log_density_concerns(run)),
        *(() if mixing else tails.tail_concerns(run)),
        *_unmet(run),
    )


def emit(concerns: tuple[str, ...]) -> None:
    """Warns of every concern with a `SamplingWarning`.

    Args:
      concerns: sentences.
    """
    for concern in concerns:
        user_code.warn(concern, SamplingWarning)


def _moved_starts(run):
    count = run.diagnostics.num_moved_starts
    if count:
        yield (
            f'{count} of {math.prod(run.batch_shape)} chains were given a start (`initial_state`) '
            'where the log-density or its gradient is not finite, and began where one of the '
            'others did: start inside the support, and where nothing overflows (float64 reaches '
            'farther).'
        )


def _nonfinite_draws(run):
    is_bad = np.zeros([math.prod(run.batch_shape)], bool)
    for part in tf.nest.flatten(run.states):
        draws = coordinates.as_matrix(part, len(run.batch_shape))
        for rows in coordinates.row_blocks(draws):
            is_bad |= ~np.isfinite(draws[rows]).all(axis=(0, 2))
    if is_bad.any():
        (bad,) = np.nonzero(is_bad)
        yield (
            f'{len(bad)} of {is_bad.size} chains ({_listing(bad)}) hold draws that are not finite: '
            'sample with a kernel that has a Metropolis-Hastings step, or smaller steps.'
        )


def _stuck_chains(run):
    moved = moves(run.states, len(run.batch_shape))
    if not len(moved):
        return
    num_draws, num_chains = len(moved) + 1, moved.shape[1]
    stays = longest_stays(moved)
    share_of_stays = min(1 - moved.mean(), 0.95)
    # a stretch that so many independent rejections would hardly ever make
    rare = math.log(_STUCK_PROBABILITY / moved.size) / math.log(max(share_of_stays, 1e-6))
    is_stuck = stays > max(rare, _STUCK_SHARE * num_draws)
    is_stuck |= (stays == num_draws) & (_chance_of_no_move(moved) < _MAX_CHANCE)
    if not is_stuck.any():
        return
    (stuck,) = np.nonzero(is_stuck)
    yield (
        f'{len(stuck)} of {num_chains} chains ({_listing(stuck)}) stayed at one point for up to '
        f'{stays.max()} of {num_draws} draws: look at the density there, start these chains '
        'elsewhere (`initial_state`), or warm up longer (`num_warmup_steps`).'
    )


def _chance_of_no_move(moved):
    """That one chain or more would never move [N - 1, C], if all moved as often as the others."""
    has_moved = moved.any(axis=0)
    if not has_moved.any():
        return 0.5**moved.size
    num_moves, num_chains = moved.shape
    return num_chains * (1 - moved[:, has_moved].mean()) ** num_moves


def _constant_coordinates(run):
    """Coordinates that no chain moves, where chains move others."""
    states, batch_rank = run.unconstrained_states, len(run.batch_shape)
    if states is None or len(run.statistics.log_prob) < MIN_DRAWS:
        return
    flags, names = _figures(
        run, tf.nest.map_structure(lambda x: _never_moved(x, batch_rank), states)
    )
    if flags.any() and moves(states, batch_rank).any():
        (constant,) = np.nonzero(flags)
        yield (
            f'{len(constant)} of {flags.size} coordinates never moved '
            f'({_listing([names[i] for i in constant])}): rounding swallows their moves, or the '
            'kernel leaves them out; subtract what is large and known from them, or sample in '
            'float64 (`dtype`).'
        )


def _never_moved(part, batch_rank):
    """[*event] whether a coordinate is the same in all draws of each chain."""
    draws = coordinates.as_matrix(part, batch_rank)
    found = np.ones([draws.shape[-1]], bool)
    for rows in coordinates.row_blocks(draws):
        found &= (draws[rows] == draws[:1]).all(axis=(0, 1))
    return found.reshape(np.shape(part)[1 + batch_rank :])


def _late_chains(run):
    """Chains whose first draws are no draws of the posterior, by their log-density.

    That of one of the first tenth is twice as far from the median as those of all later draws.
    """
    log_prob = np.asarray(run.statistics.log_prob)
    log_prob = log_prob.reshape([len(log_prob), -1])
    num_first = math.ceil(_FIRST_SHARE * len(log_prob))
    first, later = log_prob[:num_first], log_prob[num_first:]
    if later.size < _MIN_LATER_DRAWS or not np.isfinite(log_prob).all():
        return
    middle = np.median(later)
    lower = middle - _TIMES_AS_FAR * (middle - later.min())
    upper = middle + _TIMES_AS_FAR * (later.max() - middle)
    is_off = (first < lower) | (first > upper)
    (late,) = np.nonzero(is_off.any(axis=0))
    if len(late):
        last = int(np.nonzero(is_off.any(axis=1))[0][-1])
        yield (
            f'{len(late)} of {is_off.shape[1]} chains ({_listing(late)}) had not arrived when '
            f'sampling began: up to draw {last} their log-density is far from that of all later '
            'draws; leave the first draws out, or warm up longer (`num_warmup_steps`).'
        )


def _divergences(run):
    count = run.diagnostics.num_divergences
    if count:
        yield (
            f'{count} steps diverged: their energy error exceeded 1000 or they left the support, '
            'so parts of the posterior may be missing; take smaller steps (raise '
            '`target_accept_prob`) or reparametrise where the posterior narrows.'
        )


def _rhat(run):
    if len(run.statistics.log_prob) < MIN_DRAWS:
        yield 'There are too few draws to judge convergence; draw more (`num_results`).'
        return
    rhat, names = _figures(run, run.diagnostics.rhat)
    # draws that are not finite, and those that never moved, have sentences of their own
    rhat = np.where(np.isinf(rhat), np.nan, rhat)
    is_bad = rhat > MAX_RHAT
    if is_bad.any():
        worst = int(np.nanargmax(rhat))
        yield (
            f'R-hat exceeds {MAX_RHAT} for {is_bad.sum()} of {rhat.size} coordinates, most for '
            f'{names[worst]} ({rhat[worst]:.2f}): the chains have not mixed; draw more '
            '(`num_results`) or warm up longer (`num_warmup_steps`).'
        )


def _effective_sizes(run):
    ess, names = _figures(run, run.diagnostics.ess)
    least = np.fmin(ess, _figures(run, run.diagnostics.ess_of_squares)[0])
    is_bad = least < MIN_ESS
    if is_bad.any():
        worst = int(np.nanargmin(least))
        yield (
            f'The effective sample size is below {MIN_ESS:g} for {is_bad.sum()} of {least.size} '
            f'coordinates, least for {names[worst]} ({least[worst]:.0f}): their means, scales and '
            'quantiles are uncertain; draw more (`num_results`).'
        )


def _unmet(run):
    if run.is_converged is False:
        yield f'{run.stop_reason} Raise `max_steps`.'


def _figures(run, structure) -> tuple[np.ndarray, list[str]]:
    """All entries of a structure of one event, and their labels."""
    parts = [np.asarray(part) for part in tf.nest.flatten(structure)]
    names = coordinates.part_names(structure, run.names)
    labels = [
        label
        for name, part in zip(names, parts, strict=True)
        for label in coordinates.labels(name, part.shape)
    ]
    return np.concatenate([part.ravel() for part in parts]), labels


def _listing(indices) -> str:
    """At most five numbers, then dots."""
    return ', '.join([*map(str, indices[:5]), *(['...'] if len(indices) > 5 else [])])
