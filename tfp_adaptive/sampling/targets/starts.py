"""The second stage of `sample`: where the chains of a `Model` start, checked."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.sampling.kept import Kept
from tfp_adaptive.sampling.signatures import signature
from tfp_adaptive.sampling.targets.chains_apart import check_chains_apart
from tfp_adaptive.sampling.targets.density import Density
from tfp_adaptive.sampling.targets.dispersed import dispersed
from tfp_adaptive.sampling.targets.fingerprint import Fingerprint, fingerprint
from tfp_adaptive.sampling.targets.given import given
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.tuning import donors

_DEFAULT_NUM_CHAINS = 10
_LAST = 'density of the last call'
_MADE_OF = 'signature of the target after the last call'
_ROUNDINGS = 4
"""In which the same operations on the same numbers may differ."""


@dataclass(frozen=True)
class Start:
    """Where the chains start.

    Attributes:
      density: of the target.
      state: unconstrained, as the kernel takes it.
      batch_shape: chain dimensions.
      num_moved: chains whose own start had no finite density or gradient, and that start from the
        others.
      fingerprint: of the target.
      key: says which state the target takes, for what is kept with it.
    """

    density: Density
    state: Any
    batch_shape: tuple[int, ...]
    num_moved: int
    fingerprint: Fingerprint
    key: Hashable

    @property
    def model(self) -> Model:
        """The target."""
        return self.density.model

    @property
    def num_chains(self) -> int:
        """Of all chain dimensions."""
        return math.prod(self.batch_shape)

    @property
    def event_size(self) -> int:
        """Unconstrained coordinates of a chain."""
        parts = tf.nest.flatten(self.state)
        return sum(math.prod(part.shape) for part in parts) // self.num_chains


def clear_if_changed(target: Any, kept: Kept) -> None:
    """Drops what is kept with a target that has changed since the last call.

    What it is made of tells, by `signature`, and what that does not see its values at a few points.

    Args:
      target: as `sample` was given it.
      kept: with the target.
    """
    made_of = kept.get(_MADE_OF)
    if made_of is not None and made_of != _signature(target):
        kept.clear()
    found = kept.get(_LAST)
    if found is None:
        # the last call may have failed after something was kept
        kept.clear_own()
        return
    density, then = found
    try:
        has_changed = then.mismatch(density.model, _ROUNDINGS) is not None
    except Exception:
        # its data may have another shape now, which does not suit the points of then
        has_changed = True
    if has_changed:
        kept.clear()


def remember(target: Any, kept: Kept) -> None:
    """Notes what the target is made of, for `clear_if_changed` of the next call.

    At the end of a call, so that a target which counts its own calls does not change by them.

    Args:
      target: as `sample` was given it.
      kept: with the target.
    """
    kept.put(_MADE_OF, _signature(target))


def _signature(target):
    """Empty for a target that cannot be described: a run that is over must not be lost to that."""
    try:
        return signature(target, 'target')
    except Exception:
        return {}


def find_start(
    model: Model, initial_state: Any, num_chains: int | None, seed: Any, kept: Kept
) -> Start:
    """A start where the density and its gradient are finite.

    Chains that were given a start where they are not begin where one of the others does.

    Args:
      model: the target.
      initial_state: in the model's own space, or `None`.
      num_chains: chains asked for, or `None`.
      seed: int32 [2], for dispersed starts.
      kept: with the target.

    Raises:
      TypeError: if a dtype is wrong.
      ValueError: if no start is found, a shape is wrong, or chains are not kept apart.
    """
    own = tuple(np.asarray(each).tobytes() for each in tf.nest.flatten(model.informations))
    key = ('density', repr(model.structure), model.takes_logs, own)
    found = kept.get(key)
    density = Density(model) if found is None else found[0]
    num_moved = 0
    if initial_state is None:
        parts = dispersed(density, num_chains or _DEFAULT_NUM_CHAINS, seed)
        log_probs, is_finite = density.evaluate(parts)
    else:
        parts = given(model, initial_state)
        log_probs, is_finite = _evaluate_given(density, parts, num_chains)
        if not log_probs.shape.rank and num_chains is not None:
            _check_finite(is_finite)
            parts = dispersed(density, num_chains, seed, around=parts)
            log_probs, is_finite = density.evaluate(parts)
        elif log_probs.shape.rank and _can_move(initial_state, is_finite):
            num_moved = int(np.sum(~is_finite))
            parts = _moved(parts, is_finite, seed)
            log_probs, is_finite = density.evaluate(parts)
    _check_finite(is_finite)
    _check_num_chains(num_chains, log_probs.shape)
    # a single chain, or chains of another shape, would not show that they are mixed
    checked = ('apart', repr(model.structure), tuple(log_probs.shape))
    if not kept.get(checked):
        check_chains_apart(density, parts, log_probs)
        kept.put(checked, True)
    if found is None:
        found = kept.put(key, (density, fingerprint(model, parts)))
    kept.put(_LAST, found)
    state = tf.nest.pack_sequence_as(model.sampler_structure, parts)
    return Start(density, state, tuple(log_probs.shape), num_moved, found[1], key)


def _evaluate_given(density, parts, num_chains):
    """What `Density.evaluate` says of a state; of rank 0 if it is one point without chains."""
    try:
        return density.evaluate(parts)
    except Exception as error:
        # a target that wants chains may fail without them, but not with them
        try:
            log_probs, is_finite = density.evaluate([part[tf.newaxis] for part in parts])
        except Exception:
            raise error from error.__cause__
        if log_probs.shape != [1]:
            raise
        if num_chains is None:
            raise ValueError(
                '`target` fails on a single point but not on a chain that starts there: pass '
                '`num_chains`, the number of chains to start around `initial_state`.'
            ) from error.__cause__
        return log_probs[0], is_finite[0]


def _can_move(initial_state: Any, is_finite: np.ndarray) -> bool:
    """Whether some chains start well, and others at numbers where the density is not finite.

    Unconstrained parts are infinite where rounding has put a start on a bound of the support.
    """
    is_number = all(np.isfinite(part).all() for part in tf.nest.flatten(initial_state))
    return is_number and 0 < np.sum(is_finite) < is_finite.size


def _moved(parts: list, is_finite: np.ndarray, seed: Any) -> list:
    """Parts [*batch, *event] in which chains without a density are where one of the others is."""
    can_give = tf.constant(is_finite.ravel())
    source, _ = donors.choose(can_give, ~can_give, seed)
    return [
        tf.reshape(
            tf.gather(tf.reshape(part, [is_finite.size, *part.shape[is_finite.ndim :]]), source),
            part.shape,
        )
        for part in parts
    ]


def _check_finite(is_finite: np.ndarray):
    """Refuses chains that start where the density or its gradient is not finite."""
    if is_finite.all():
        return
    bad = np.argwhere(~np.atleast_1d(is_finite))
    raise ValueError(
        f'the log-density or its gradient is not finite at `initial_state` for {len(bad)} of '
        f'{is_finite.size} chains, first for chain {tuple(bad[0].tolist())}: start inside the '
        'support, where the density is finite and smooth.'
    )


def _check_num_chains(num_chains, batch_shape):
    if num_chains is None or num_chains == batch_shape.num_elements():
        return
    if not batch_shape.rank:
        raise ValueError(
            '`target` must return one log-density per chain; it returned a single one for '
            f'{num_chains} chains: sum it over the event dimensions alone.'
        )
    raise ValueError(
        f'`num_chains` is {num_chains}, but `initial_state` holds {batch_shape.num_elements()} '
        f'chains, by the shape {batch_shape} of its log-density: leave `num_chains` out, pass a '
        'single point to start around, or sum the log-density over the event dimensions.'
    )
