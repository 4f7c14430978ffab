"""Target and initial state as `sample` is given them, brought to a checked start."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling import cache
from tfp_adaptive.sampling.targets import density, models, starts
from tfp_adaptive.sampling.targets import model as targets
from tfp_adaptive.sampling.targets.density import Density, Fingerprint
from tfp_adaptive.sampling.targets.model import Model


@dataclass(frozen=True)
class Start:
    """Where the chains start.

    Attributes:
      model: the target.
      state: unconstrained, as the kernel takes it.
      batch_shape: chain dimensions.
      fingerprint: of the target.
      key: says which state the target takes, for what is kept with it.
    """

    model: Model
    state: Any
    batch_shape: tuple[int, ...]
    fingerprint: Fingerprint
    key: Hashable


def find_start(
    target: Any, initial_state: Any, num_chains: int | None, dtype: Any, seed: Any
) -> Start:
    """A start where the density and its gradient are finite.

    Args:
      target: a log-density, a distribution or an Inference Gym model.
      initial_state: in the model's own space, or `None`.
      num_chains: chains asked for, or `None`.
      dtype: to cast `initial_state` to, or `None`.
      seed: int32 [2], for dispersed starts.

    Raises:
      TypeError: if `target` is no target, or a dtype is wrong.
      ValueError: if no start is given or found, or a shape is wrong.
    """
    model, initial_state = _as_model(target, initial_state, dtype)
    key = (repr(model.structure), model.dtypes)
    kept = _kept(target, key)
    compiled = Density(model) if kept is None else kept[0]
    if initial_state is None:
        parts = starts.dispersed(compiled, num_chains or starts.DEFAULT_NUM_CHAINS, seed)
        log_probs, is_finite = compiled.evaluate(parts)
    else:
        parts = starts.given(model, initial_state)
        log_probs, is_finite = _evaluate_given(compiled, parts, num_chains)
        if not log_probs.shape.rank and num_chains is not None:
            density.check_start(is_finite)
            parts = starts.dispersed(compiled, num_chains, seed, around=parts)
            log_probs, is_finite = compiled.evaluate(parts)
    density.check_start(is_finite)
    _check_num_chains(num_chains, log_probs.shape)
    if kept is None:
        density.check_chains_apart(model, parts, log_probs)
        density.check_own_state(compiled, parts, log_probs)
        kept = cache.store(target, key, (compiled, density.fingerprint(model, parts)))
    state = tf.nest.pack_sequence_as(model.sampler_structure, parts)
    return Start(compiled.model, state, tuple(log_probs.shape), kept[1], key)


def _kept(target, key):
    """(density, fingerprint) of an earlier call, unless the target has changed behind its back."""
    kept = cache.lookup(target, key)
    if kept is not None and kept[1].mismatch(kept[0].model) is not None:
        cache.forget(target)
        return None
    return kept


def _evaluate_given(compiled, parts, num_chains):
    """What `Density.evaluate` says of a state; of rank 0 if it is one point without chains."""
    try:
        return compiled.evaluate(parts)
    except Exception as error:
        # a target that wants chains may fail without them, but not with them
        try:
            log_probs, is_finite = compiled.evaluate([part[tf.newaxis] for part in parts])
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


def _as_model(target, initial_state, dtype):
    """The model, and `initial_state` as tensors."""
    if models.is_model(target):
        model = cache.lookup(target, 'model')
        if model is None:
            model = cache.store(target, 'model', models.from_model(target))
        own = model.dtypes[0]
        if dtype is not None and dtype != own:
            raise ValueError(
                f'`dtype` is {dtype.name}, but `target` is a model in {own.name}: '
                'leave `dtype` out, or build the model in that dtype.'
            )
        return model, None if initial_state is None else starts.to_tensors(initial_state, own)
    targets.check_kind(target)
    if initial_state is None:
        raise ValueError(
            '`initial_state` is needed when `target` is a log-density callable: pass one point '
            'together with num_chains=10, or one state per chain, [num_chains, ...].'
        )
    initial_state = starts.to_tensors(initial_state, dtype)
    targets.check_call(target, initial_state)
    return targets.from_callable(target, initial_state), initial_state


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
