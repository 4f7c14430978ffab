"""nutpie with its low-rank metric, on a density that PyMC compiles with Numba: its own way.

Where only the TensorFlow density is there, nutpie calls that.
"""

import itertools
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from experiments import optional
from experiments.benchmark import densities
from experiments.benchmark.sampling import Draws, Problem, Sampler

_NAME = 'q'
_MAX_REPETITIONS = 5
_SECONDS = 10.0
_LONG_SECONDS = 300.0
_LEAST_SHARE = 0.1
"""Of its seconds by gradients, below which the difference of two calls is noise."""


def low_rank(problem: Problem) -> Sampler:
    """NUTS in Rust, chains in parallel threads, started at the first chain's start with a jitter.

    Warm-up and sampling are one call; the warm-up's seconds are those of another with the same
    seed that stops after it. Both are repeated while they take little time, and the quickest count,
    for what is wanted is a difference. A call of more than five minutes is made once, and its
    seconds are divided in proportion to the gradients.

    A density in TensorFlow is called from Python, which costs more than small densities themselves,
    and every chain has a start of its own.

    Its runs raise `TimeoutError` where a call takes longer than the problem allows.
    """
    nutpie = optional.load('nutpie', 'peers')
    make = (_with_tensorflow if problem.arguments is None else _with_pymc)(problem)
    compiled: list[Any] = []

    def call(model, num_results, seed):
        begin = time.perf_counter()
        run = nutpie.sample(
            model,
            draws=num_results,
            tune=problem.num_warmup_steps,
            chains=problem.num_chains,
            cores=os.cpu_count(),
            seed=seed,
            low_rank_modified_mass_matrix=True,
            progress_bar=False,
            blocking=False,
        )
        try:
            trace = run.wait(timeout=problem.max_seconds)
        except TimeoutError:
            run.cancel()
            raise
        return trace, time.perf_counter() - begin

    def time_both(model, seed):
        """Least seconds of all, and of all but the warm-up or 0 where unknown, and the draws."""
        short: list[float] = []
        whole: list[float] = []
        while sum(short + whole) < _SECONDS and len(whole) < _MAX_REPETITIONS:
            trace, seconds = call(model, problem.num_results, seed)
            whole.append(seconds)
            if seconds < _LONG_SECONDS:
                short.append(call(model, 1, seed)[1])
        return min(whole), min(whole) - min(short, default=min(whole)), trace

    def sample(seed: int) -> Draws:
        begin = time.perf_counter()
        if not compiled or problem.arguments is None:  # every seed has starts of its own
            with warnings.catch_warnings():
                # of a missing BLAS, which Numba does not use
                warnings.simplefilter('ignore', UserWarning)
                compiled[:] = [make(seed)]
        middle = time.perf_counter()
        with warnings.catch_warnings():
            # of fewer draws than chains
            warnings.simplefilter('ignore', UserWarning)
            in_all, sampling, trace = time_both(compiled[0], seed)
        draws = trace['posterior'][_NAME].to_numpy()
        leapfrogs, warmup_leapfrogs = (
            trace[group]['n_steps'].to_numpy().sum(axis=1).mean()
            for group in ('sample_stats', 'warmup_sample_stats')
        )
        # where noise swamps the difference, or there is none, a gradient of either costs the same
        by_gradients = in_all * leapfrogs / (leapfrogs + warmup_leapfrogs)
        if sampling < _LEAST_SHARE * by_gradients:
            sampling = by_gradients
        return Draws(
            states=np.swapaxes(draws, 0, 1),
            num_gradients=float(leapfrogs),
            num_warmup_gradients=float(warmup_leapfrogs),
            compile_seconds=middle - begin,
            warmup_seconds=in_all - sampling,
            sampling_seconds=sampling,
        )

    return sample


def _with_pymc(problem: Problem) -> Callable[[int], Any]:
    """Seed -> the model that nutpie compiles with Numba."""
    nutpie, pymc = optional.load('nutpie', 'peers'), optional.load('pymc', 'peers')
    log_prob, event_size = densities.make(
        optional.load('pytensor.tensor', 'peers'), **(problem.arguments or {})
    )

    def make(seed):
        start = problem.initial_state(1, seed).numpy()[0]
        with pymc.Model() as model:
            q = pymc.Flat(_NAME, shape=event_size)
            pymc.Potential('log_prob', log_prob(q))
        return nutpie.compile_pymc_model(
            model, initial_points={_NAME: start.astype(np.float64)}, jitter_rvs={q}
        )

    return make


def _with_tensorflow(problem: Problem) -> Callable[[int], Any]:
    """Seed -> the model whose density and gradient are one call of a program of TensorFlow's."""
    pyfunc = optional.load('nutpie.compiled_pyfunc', 'peers')

    @tf.function(jit_compile=True)
    def value_and_gradient(q):
        with tf.GradientTape() as tape:
            tape.watch(q)
            value = problem.target.log_prob(q[tf.newaxis])[0]
        return value, tape.gradient(value, q)

    def make(seed):
        starts = problem.initial_state(problem.num_chains, seed)
        each = itertools.cycle(starts.numpy().astype(np.float64))
        event_size = starts.shape[-1]

        def log_prob(q):
            value, gradient = value_and_gradient(tf.constant(q, starts.dtype))
            return float(value), gradient.numpy().astype(np.float64)

        return pyfunc.from_pyfunc(
            event_size,
            make_logp_fn=lambda: log_prob,
            make_expand_fn=lambda *_: lambda q: {_NAME: q},
            expanded_dtypes=[np.dtype(np.float64)],
            expanded_shapes=[(event_size,)],
            expanded_names=[_NAME],
            make_initial_point_fn=lambda _: next(each),
        )

    return make
