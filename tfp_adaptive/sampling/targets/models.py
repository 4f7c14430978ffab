"""The first stage of `sample`: whatever it is given as a target becomes a `Model`."""

import inspect
from typing import Any

from tfp_adaptive.sampling.kept import Kept
from tfp_adaptive.sampling.targets.callables import from_callable
from tfp_adaptive.sampling.targets.distributions import from_distribution, is_distribution
from tfp_adaptive.sampling.targets.information import in_own_coordinates
from tfp_adaptive.sampling.targets.model import Model


def make_model(
    target: Any, initial_state: Any, dtype: Any, reparameterize: bool, stored: list, kept: Kept
) -> Model:
    """The target in the form that samplers see.

    Args:
      target: a log-density, a distribution or an Inference Gym model.
      initial_state: as `sample` was given it; the state of a log-density has its structure.
      dtype: of the state, or `None`.
      reparameterize: whether positive parts of a distribution are sampled as logarithms, and others
        may have coordinates of their own.
      stored: such coordinates, of `information.as_arrays`, to go on with; empty to find them.
      kept: with the target.

    Raises:
      TypeError: if `target` is no target.
      ValueError: if a log-density has no `initial_state`, or `dtype` is not that of a model.
    """
    if inspect.isclass(target) or not is_distribution(target):
        return from_callable(target, initial_state, dtype)
    key: tuple = 'model', reparameterize
    found = kept.get(key) or from_distribution(target, takes_logs=reparameterize)
    model = kept.put(key, found)
    if dtype is not None and dtype != model.dtype:
        raise ValueError(
            f'`dtype` is {dtype.name}, but `target` is a model in {model.dtype.name}: '
            'leave `dtype` out, or build the model in that dtype.'
        )
    if not reparameterize:
        return model
    key = 'model', tuple(each.tobytes() for each in stored)
    return kept.get(key) or kept.put(key, in_own_coordinates(target, model, stored))
