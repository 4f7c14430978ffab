"""One case of the scaling section: a JSON object on standard input, its figures on the output."""

import functools
import json
import os
import sys
from typing import Any

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np
import tensorflow as tf

from experiments import effective_size, programs
from experiments.benchmark import fresh_process, kernels, scaling_targets, stepping


def measure(
    preconditioner: str,
    num_dims: int,
    num_chains: int,
    settings: dict[str, Any],
    num_rows: int | None = None,
) -> dict[str, Any]:
    """Seconds a step, peak memory and efficiency of one kernel on one target.

    Args:
      preconditioner: of `kernels`.
      num_dims: d.
      num_chains: C.
      settings: of the section.
      num_rows: of the regression; `None`: the path.
    """
    tf.function(lambda x: x + 1, jit_compile=True)(tf.zeros([]))
    empty = fresh_process.peak_bytes()
    target = scaling_targets.make(num_dims, num_rows, settings)
    log_prob, position = target.log_prob, target.initial_state(num_chains, (settings['seed'], 0))
    num_steps, num_results = scaling_targets.lengths(num_rows, settings)
    label = settings['kernel' if num_rows is None else 'rows_kernel']
    kernel = kernels.make(log_prob, num_steps, label, preconditioner)
    start = kernel.bootstrap_results(position)
    state, warm = stepping.step_loop(kernel)(position, start, settings['seed'], num_steps)
    frozen_kernel = kernel.frozen(warm)
    endless = kernels.make(log_prob, 2**30, label, preconditioner)
    loops = {
        'gradient': functools.partial(stepping.gradient_loop(log_prob, with_value=True), position),
        'adaptive': functools.partial(stepping.step_loop(endless), state, warm, settings['seed']),
        'frozen': functools.partial(
            stepping.step_loop(frozen_kernel),
            state,
            frozen_kernel.bootstrap_results(state),
            settings['seed'],
        ),
    }
    times = stepping.interleave(loops, settings['repetitions'], settings['seconds'])
    seconds = {name: float(np.median(each)) for name, each in times.items()}
    peak_bytes = fresh_process.peak_bytes() - empty
    min_ess, max_rhat, ess_per_gradient = _efficiency(frozen_kernel, state, settings, num_results)
    return {
        'preconditioner': preconditioner,
        'num_dims': num_dims,
        'num_chains': num_chains,
        'num_rows': num_rows,
        'gradient_seconds': seconds['gradient'],
        'frozen_seconds': seconds['frozen'],
        'adaptive_seconds': seconds['adaptive'],
        'peak_bytes': peak_bytes,
        'ess_per_gradient': ess_per_gradient,
        'ess_per_second': min_ess / (num_results * seconds['frozen']),
        'max_rhat': max_rhat,
    }


def _efficiency(kernel, state, settings, num_results) -> tuple[float, float, float]:
    """Minimum ESS, largest R-hat and ESS per gradient over some coordinates of the path."""
    num_chains, num_dims = state.shape
    watched = scaling_targets.watched(num_dims, settings)

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def sample(state, results, seed):
        rows = tf.TensorArray(state.dtype, num_results, element_shape=[num_chains, len(watched)])

        def body(step, state, results, rows):
            step_seed = tf.random.experimental.stateless_fold_in(seed, step)
            state, results = kernel.one_step(state, results, seed=step_seed)
            rows = rows.write(step, tf.gather(state, watched, axis=-1))
            return step + 1, state, results, rows

        _, _, results, rows = tf.while_loop(
            lambda step, *_: step < num_results,
            body,
            (0, state, results, rows),
            maximum_iterations=num_results,
        )
        return rows.stack(), results.info.num_gradients

    start = kernel.bootstrap_results(state)
    draws, num_gradients = sample(state, start, tf.constant([settings['seed'], 3]))
    min_ess, max_rhat = effective_size.smallest(draws.numpy())
    return min_ess, max_rhat, min_ess / (num_chains * int(num_gradients))


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
