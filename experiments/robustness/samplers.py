"""Samplers as they come, from starts of a given width."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import effective_size
from experiments.benchmark.peers import FAILURES, PEERS
from experiments.benchmark.sampling import Problem
from experiments.targets import Target
from experiments.targets.posteriors import uniform_start

_TRIES = 100


class SamplerError(ValueError):
    """A sampler has failed in its own way."""


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run of any sampler is judged by.

    Attributes:
      states: [N, C, D], unconstrained.
      max_rhat: over coordinates.
      min_ess: over coordinates and their squares.
      num_gradients: of a chain, warm-up included; a Hessian-vector product counts as two.
      seconds: of warm-up and sampling, and of the arrival before them; without compilation.
      is_warned: whether it says itself that something is wrong; `None` for those that never do.
    """

    states: np.ndarray
    max_rhat: float
    min_ess: float
    num_gradients: float
    seconds: float
    is_warned: bool | None


def ours(kernel: Any) -> Callable:
    """`sample` with a kernel: (target, width, settings, progress) -> (seed -> `Run`)."""

    def prepare(target, width, settings, progress=False):
        def call(seed):
            with warnings.catch_warnings(record=True):
                warnings.simplefilter('always')
                return tfpa.sample(
                    target.log_prob,
                    settings['num_results'],
                    settings['num_warmup_steps'],
                    initial_state=_start(target, width, seed, settings),
                    kernel=kernel,
                    seed=(seed, 1),
                    progress=progress,
                )

        def run(seed):
            call(seed)
            # the default kernel is compiled now, so that its start is what the arrival takes
            found = call(seed)
            timings, states = found.timings, np.asarray(found.states)
            min_ess, max_rhat = effective_size.smallest(states)
            start = timings.start if kernel is None else 0.0
            return Run(
                states=states,
                max_rhat=max_rhat,
                min_ess=min_ess,
                num_gradients=num_gradients(found),
                seconds=start + timings.warmup + timings.sampling,
                is_warned=bool(found.warnings),
            )

        return run

    return prepare


def num_gradients(run: tfpa.sampling.SampleRun) -> float:
    """Gradients of a chain, warm-up included, as those of the others are counted.

    Args:
      run: of `sample`.
    """
    phases = run.warmup_kernel_results, run.kernel_results
    memories: list[Any] = [getattr(results, 'memory', ()) for results in phases]
    if all(hasattr(memory, 'num_leapfrogs') for memory in memories):
        # of each chain, and not of the longest trajectory
        return float(np.sum([np.mean(memory.num_leapfrogs) for memory in memories]))
    d = run.diagnostics
    gradients = (d.num_warmup_gradients or 0) + (d.num_sampling_gradients or 0)
    return gradients + 2 * (d.num_warmup_hessian_vector_products or 0)


def _peer(label: str) -> Callable:
    """A sampler of the benchmark, from the same starts, called as what `ours` returns.

    Args:
      label: in `PEERS`.
    """

    def prepare(target, width, settings):
        def initial_state(num_chains, seed):
            return _start(target, width, seed[0], {**settings, 'num_chains': num_chains})

        sampler = PEERS[label](
            Problem(
                target=dataclasses.replace(target, initial_state=initial_state),
                arguments=None,
                preconditioner='',
                num_chains=settings['num_chains'],
                num_warmup_steps=settings['num_warmup_steps'],
                num_results=settings['num_results'],
                num_short_results=settings['num_results'],
                max_seconds=60 * settings['max_minutes'],
            )
        )

        def run(seed):
            try:
                draws = sampler(seed)
            except FAILURES as problem:
                raise SamplerError(str(problem)) from problem
            min_ess, max_rhat = effective_size.smallest(draws.states.astype(np.float64))
            return Run(
                states=draws.states,
                max_rhat=max_rhat,
                min_ess=min_ess,
                num_gradients=draws.num_warmup_gradients + draws.num_gradients,
                seconds=draws.warmup_seconds + draws.sampling_seconds,
                is_warned=None,
            )

        return run

    return prepare


_PEERS = (
    'TFP windowed NUTS',
    'BlackJAX NUTS (diagonal)',
    'BlackJAX NUTS (low rank)',
    'nutpie (low rank)',
    'MAMS',
    'ChEES-HMC',
    'MEADS (64 chains)',
)
SAMPLERS: dict[str, Callable] = {
    'sample': ours(None),
    'WindowedNUTS': ours(tfpa.WindowedNUTS),
    **{label: _peer(label) for label in _PEERS},
}
"""name -> what makes a sampler: (target, width, settings) -> (seed -> `Run`)."""


def _start(target: Target, width: float, seed: int, settings: dict[str, Any]) -> tf.Tensor:
    """uniform(-width, width) where the density and its gradient are finite, as Stan starts."""
    num_chains = settings['num_chains']
    candidates = uniform_start(target.event_size, width)(_TRIES * num_chains, (seed, 0))
    candidates = tf.cast(candidates, settings['dtype'])
    with tf.GradientTape() as tape:
        tape.watch(candidates)
        log_prob = target.log_prob(candidates)
    gradient = tape.gradient(log_prob, candidates)
    is_finite = tf.math.is_finite(log_prob + tf.reduce_sum(gradient, axis=-1))
    return tf.boolean_mask(candidates, is_finite)[:num_chains]
