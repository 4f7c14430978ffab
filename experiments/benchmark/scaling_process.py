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
from experiments.benchmark import fresh_process, kernels, stepping
from experiments.targets.base import normal_start


def measure(
    preconditioner: str, num_dims: int, num_chains: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Seconds a step, peak memory and efficiency of one kernel on one target.

    Args:
      preconditioner: of `kernels`.
      num_dims: d.
      num_chains: C.
      settings: of the section.
    """
    tf.function(lambda x: x + 1, jit_compile=True)(tf.zeros([]))
    empty = fresh_process.peak_bytes()
    log_prob = autoregression(settings['phi'])
    position = normal_start(num_dims, scale=1.0)(num_chains, (settings['seed'], 0))
    num_steps = settings['num_warmup_steps']
    kernel = kernels.make(log_prob, num_steps, settings['kernel'], preconditioner)
    start = kernel.bootstrap_results(position)
    state, warm = stepping.step_loop(kernel)(position, start, settings['seed'], num_steps)
    frozen_kernel = kernel.frozen(warm)
    endless = kernels.make(log_prob, 2**30, settings['kernel'], preconditioner)
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
    min_ess, max_rhat, ess_per_gradient = _efficiency(frozen_kernel, state, settings)
    return {
        'preconditioner': preconditioner,
        'num_dims': num_dims,
        'num_chains': num_chains,
        'gradient_seconds': seconds['gradient'],
        'frozen_seconds': seconds['frozen'],
        'adaptive_seconds': seconds['adaptive'],
        'peak_bytes': peak_bytes,
        'ess_per_gradient': ess_per_gradient,
        'ess_per_second': min_ess / (settings['num_results'] * seconds['frozen']),
        'max_rhat': max_rhat,
    }


def autoregression(phi: float):
    """A stationary Gaussian path q_{t+1} ~ N(phi q_t, 1 - phi^2) with standard normal margins."""
    scale = (1 - phi**2) ** -0.5

    def log_prob(q):
        first, later = tf.split(q, [1, q.shape[-1] - 1], axis=-1)
        earlier, _ = tf.split(q, [q.shape[-1] - 1, 1], axis=-1)
        innovation = scale * (later - phi * earlier)
        # a product with ones is a sum that XLA turns into vector code
        ones = tf.ones([innovation.shape[-1]], q.dtype)
        return -(first[..., 0] ** 2 + tf.tensordot(innovation**2, ones, axes=1)) / 2

    return log_prob


def _efficiency(kernel, state, settings) -> tuple[float, float, float]:
    """Minimum ESS, largest R-hat and ESS per gradient over some coordinates of the path."""
    num_results, (num_chains, num_dims) = settings['num_results'], state.shape
    watched = np.unique(np.linspace(0, num_dims - 1, settings['num_watched']).astype(int))

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
