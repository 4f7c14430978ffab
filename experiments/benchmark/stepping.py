"""Loops whose time is measured: bare gradients, and steps of a kernel."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import programs


def gradient_loop(log_prob: Callable, with_value: bool) -> Callable:
    """A function (position [C, d], num_steps) that evaluates nothing but gradients.

    Args:
      log_prob: of the target.
      with_value: whether the log-density is wanted too; if not, XLA leaves it out.
    """

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def loop(position, stride, num_steps):
        def body(step, position, total):
            value, gradient = tfp.math.value_and_gradient(log_prob, position)
            total += value if with_value else 0
            return step + 1, position + stride * gradient, total

        start = 0, position, tf.zeros(position.shape[:1], position.dtype)
        return tf.while_loop(lambda step, *_: step < num_steps, body, start)[1:]

    # a stride of zero that the compiler cannot know keeps the chains in place
    stride = tf.constant(0.0)
    return lambda position, num_steps: loop(position, stride, tf.constant(num_steps))


def noise_loop(shape: tuple[int, ...], seed: int) -> Callable:
    """A function (num_steps) that draws nothing but the velocities [C, d] of a step."""
    draw = tfpa.proposals.leapfrog(1).draw

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def loop(seed, num_steps):
        def body(step, total):
            step_seed = tf.random.experimental.stateless_fold_in(seed, step)
            return step + 1, total + draw(step_seed, *shape, tf.float32)

        return tf.while_loop(lambda step, _: step < num_steps, body, (0, tf.zeros(shape)))[1]

    return lambda num_steps: loop(tf.constant([seed, 0]), tf.constant(num_steps))


def step_loop(kernel: Any) -> Callable:
    """A function (state, kernel results, seed, num_steps) -> (state, kernel results)."""

    @tf.function(jit_compile=programs.JIT_COMPILE, autograph=False)
    def loop(state, results, seed, num_steps):
        def body(step, state, results):
            step_seed = tf.random.experimental.stateless_fold_in(seed, step)
            state, results = kernel.one_step(state, results, seed=step_seed)
            return step + 1, state, results

        return tf.while_loop(lambda step, *_: step < num_steps, body, (0, state, results))[1:]

    return lambda state, results, seed, num_steps: loop(
        state, results, tf.constant([seed, 0]), tf.constant(num_steps)
    )


def interleave(
    loops: Mapping[str, Callable[[int], Any]], repetitions: int, seconds: float
) -> dict[str, np.ndarray]:
    """Seconds a step of each loop, measured in turns so that a busy machine slows all alike.

    Args:
      loops: name -> function of the number of steps; compiled by a first call that is not timed.
      repetitions: turns.
      seconds: each turn of each loop should take.

    Returns:
      {name: [repetitions]}.
    """
    counts = {name: _steps_in(loop, seconds) for name, loop in loops.items()}
    found: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(repetitions):
        for name, loop in loops.items():
            found[name].append(seconds_of(loop, counts[name]) / counts[name])
    return {name: np.array(times) for name, times in found.items()}


def seconds_of(function: Callable, *args) -> float:
    """Wall seconds of a call, its tensors computed."""
    start = time.perf_counter()
    tf.nest.map_structure(np.asarray, function(*args))
    return time.perf_counter() - start


def _steps_in(loop, seconds) -> int:
    """A number of steps that takes about `seconds`, found by doubling.

    Of three calls the fastest counts: with a single slow one, so few steps would be timed
    afterwards that it is the call that costs, not they.
    """
    loop(0)
    count = 1
    while (spent := min(seconds_of(loop, count) for _ in range(3))) < seconds / 4:
        count *= 2
    return max(1, round(count * seconds / spent))
