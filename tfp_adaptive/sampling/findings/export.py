"""A run in ArviZ's schema: InferenceData of ArviZ 0, xarray.DataTree of ArviZ 1."""

import datetime
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive import _version
from tfp_adaptive.kernels import FrozenKernel

_WARMUP_FIELDS = (
    'entropy',
    'spectral_radius',
    'entropy_weight',
    'penalty_weight',
    'num_gradients',
    'num_hessian_vector_products',
)


def to_arviz(run: Any, coords: Mapping[str, Sequence], dims: Mapping[str, Sequence[str]]) -> Any:
    """The groups posterior, sample_stats and warmup_sample_stats of a `SampleRun`.

    Args:
      run: a `SampleRun`.
      coords: {dimension: labels}.
      dims: {part: names of its event dimensions}.

    Raises:
      ImportError: without ArviZ.
      ValueError: if `dims` or `coords` do not fit the shapes.
    """
    arviz, xarray = _load('arviz'), _load('xarray')
    posterior = {
        name: _by_chain(part, run.batch_shape)
        for name, part in zip(run.part_names, tf.nest.flatten(run.states), strict=True)
    }
    _check(posterior, coords, dims)
    shared = {name: coords[name] for name in ('chain', 'draw') if name in coords}
    groups = {
        'posterior': _dataset(xarray, posterior, coords, dims),
        'sample_stats': _dataset(xarray, _sample_stats(run), shared),
    }
    if run.warmup_trace is not None:
        shared.pop('draw', None)
        groups['warmup_sample_stats'] = _dataset(xarray, _warmup_stats(run), shared)
    attributes = _attributes(run)
    for group in groups.values():
        group.attrs = attributes
    if hasattr(arviz, 'InferenceData'):
        return arviz.InferenceData(**groups, attrs=attributes)
    return xarray.DataTree.from_dict({'/': xarray.Dataset(attrs=attributes), **groups})


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f'`to_arviz` needs {name}: pip install "tfp_adaptive[arviz]".') from error


def _by_chain(draws, batch_shape) -> np.ndarray:
    """[num_results, *batch, *event] -> [C, num_results, *event]."""
    draws = np.asarray(draws)
    event = draws.shape[1 + len(batch_shape) :]
    num_chains = int(np.prod(batch_shape))
    return np.swapaxes(draws.reshape([len(draws), num_chains, *event]), 0, 1)


def _check(posterior, coords, dims):
    sizes: dict[str, int] = {}
    for name, names in dims.items():
        if name not in posterior:
            raise ValueError(
                f'`dims` names {name!r}, which is no part of the state; these are: '
                f'{", ".join(posterior)}.'
            )
        event = posterior[name].shape[2:]
        if len(names) != len(event):
            raise ValueError(
                f'`dims` must give {name!r} one name for each of its {len(event)} event '
                f'dimensions; got {list(names)}.'
            )
        if len({'chain', 'draw', *names}) != len(names) + 2:
            raise ValueError(
                f"`dims` must name each dimension of {name!r} once, and not 'chain' or 'draw'; "
                f'got {list(names)}.'
            )
        for dimension, size in zip(names, event, strict=True):
            if sizes.setdefault(dimension, size) != size:
                raise ValueError(
                    f'`dims` must give a name to dimensions of one size; {dimension!r} would have '
                    f'sizes {sizes[dimension]} and {size}.'
                )
    for name, values in posterior.items():
        sizes |= zip(_dimensions(name, values, dims), values.shape, strict=True)
    for dimension, labels in coords.items():
        if dimension not in sizes:
            raise ValueError(
                f'`coords` names {dimension!r}, which is no dimension; these are: '
                f'{", ".join(sizes)}.'
            )
        if len(labels) != sizes[dimension]:
            raise ValueError(
                f'`coords` must hold {sizes[dimension]} labels for {dimension!r}; '
                f'got {len(labels)}.'
            )


def _dimensions(name, values, dims) -> tuple[str, ...]:
    event = range(values.ndim - 2)
    own = tuple(dims[name]) if name in dims else tuple(f'{name}_dim_{i}' for i in event)
    return ('chain', 'draw', *own)


def _dataset(xarray, variables, coords=(), dims=()):
    """Variables [C, num_results, ...] as a dataset."""
    data, labels = {}, {}
    for name, values in variables.items():
        names = _dimensions(name, values, dims)
        for dimension, size in zip(names, values.shape, strict=True):
            labels[dimension] = coords[dimension] if dimension in coords else np.arange(size)
        data[name] = (names, values)
    return xarray.Dataset(data, coords={name: list(label) for name, label in labels.items()})


def _sample_stats(run) -> dict[str, np.ndarray]:
    kept = run.statistics
    stats = {
        'lp': kept.log_prob,
        'acceptance_rate': kept.accept_prob,
        'diverging': kept.is_divergent,
        'n_steps': kept.num_leapfrog_steps,
    }
    if isinstance(run.frozen_kernel, FrozenKernel) and run.kernel_results.grads_target_log_prob:
        # a leapfrog step takes one gradient
        steps = np.diff(kept.num_gradients)
        first = kept.num_gradients[:1] - 1
        if len(steps) and first > steps.max():
            # the count goes on from draws that were thrown away
            first = steps[:1]
        stats['n_steps'] = _shared(np.concatenate([first, steps]), run.batch_shape)
    return {
        name: _by_chain(values, run.batch_shape)
        for name, values in stats.items()
        if not isinstance(values, tuple)
    }


def _warmup_stats(run) -> dict[str, np.ndarray]:
    """What the chains share, repeated for each of them as the schema wants it."""
    stats = {'acceptance_rate': run.warmup_trace.accept_prob}
    stats |= {name: getattr(run.warmup_trace, name) for name in _WARMUP_FIELDS}
    return {
        name: _by_chain(_shared(values, run.batch_shape), run.batch_shape)
        for name, values in stats.items()
        if not isinstance(values, tuple)
    }


def _shared(values, batch_shape) -> np.ndarray:
    """[num_results] -> [num_results, *batch]."""
    values = np.asarray(values)
    return np.broadcast_to(
        values.reshape([-1, *[1] * len(batch_shape)]), [len(values), *batch_shape]
    )


def _attributes(run) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        'created_at': datetime.datetime.now(datetime.UTC).isoformat(),
        'inference_library': 'tfp_adaptive',
        'inference_library_version': _version.__version__,
        'sampling_time': run.timings.sampling,
        'warmup_time': run.timings.warmup,
        'kernel': type(run.kernel).__name__,
    }
    if run.warmup_trace is not None:
        attributes['tuning_steps'] = len(run.warmup_trace.accept_prob)
    if run.learned is not None:
        attributes['step_size'] = run.learned.step_size.tolist()
    return attributes
