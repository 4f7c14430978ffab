"""The rows that a program keeps, the sums it takes on the way, and how long its calls are."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.sampling.compiled import XLA, Compiled
from tfp_adaptive.sampling.programs.programs import (
    Chunk,
    Pace,
    Position,
    StepStatistics,
    make_program,
)
from tfp_adaptive.sampling.programs.row_buffers import RowBuffers
from tfp_adaptive.sampling.running.execution import Execution

ROW = {
    'scalar': np.float32(0.5),
    'count': np.int32(3),
    'flag': np.array([True, False, True]),
    'chains': np.arange(10, dtype=np.float32),
    'state': np.arange(900, dtype=np.float32).reshape(10, 90),
    'wide': np.ones([2, 2], np.float64),
    'nothing': (),
    'empty': np.zeros([0], np.float32),
}


def row_of(index):
    return tf.nest.map_structure(lambda x: x if x.dtype == bool else x + x.dtype.type(index), ROW)


def specs_of(row):
    return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), row)


@pytest.mark.parametrize('jit_compile', [False, True])
def test_rows_are_read_as_they_were_written(jit_compile):
    rows = RowBuffers(specs_of(ROW), capacity=4)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def fill(written):
        buffers = rows.empty()
        for index, row in enumerate(written):
            buffers = rows.write(buffers, index, row)
        return rows.read(buffers)

    read = fill([row_of(index) for index in range(4)])
    expected = tf.nest.map_structure(lambda *leaves: np.stack(leaves), *map(row_of, range(4)))
    tf.nest.assert_same_structure(read, expected)
    for ours, theirs in zip(tf.nest.flatten(read), tf.nest.flatten(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_small_tensors_of_a_dtype_share_a_buffer():
    buffers = RowBuffers(specs_of(ROW), capacity=1).empty()
    shapes = sorted((buffer.dtype.name, buffer.element_shape.as_list()) for buffer in buffers)
    own = ('float32', [900])
    shared = [('bool', [3]), ('float32', [11]), ('float64', [4]), ('int32', [1])]
    assert shapes == sorted([own, *shared])


class Telling(tfp.mcmc.TransitionKernel):
    """Counts, and reports log acceptance ratios that it is given a row of for every step."""

    def __init__(self, ratios):
        self._ratios = tf.constant(ratios)

    is_calibrated = True

    def bootstrap_results(self, init_state):
        return tfp.mcmc.HamiltonianMonteCarlo(
            lambda x: -x, step_size=1.0, num_leapfrog_steps=1
        ).bootstrap_results(init_state)

    def one_step(self, current_state, previous_kernel_results, seed=None):
        step = tf.cast(current_state[0], tf.int32)
        results = previous_kernel_results._replace(log_accept_ratio=self._ratios[step])
        return current_state + 1, results


@pytest.mark.parametrize('steps_per_row', [1, 3])
def test_sums_over_steps_and_chains(steps_per_row, rng):
    """By hand in NumPy, with ratios that are no number and such as say a step diverged."""
    num_rows = 4
    ratios = rng.normal(size=[num_rows * steps_per_row, 2]).astype(np.float32)
    ratios[0, 1], ratios[-1, 0], ratios[-2, 1], ratios[1, 0] = np.nan, -2000, -np.inf, 5
    kernel = Telling(ratios)
    state = tf.zeros([2])
    results = kernel.bootstrap_results(state)
    program = make_program(
        lambda: kernel,
        lambda state, _: state,
        (state, results),
        steps_per_row=steps_per_row,
        xla=XLA(False),
    )
    chunk = program.advance(state, results, tf.constant([0, 1]), tf.constant(0), tf.constant(4))
    accept_prob = np.exp(np.minimum(np.nan_to_num(ratios, nan=-np.inf, neginf=-np.inf), 0))
    np.testing.assert_allclose(
        chunk.statistics.accept_prob, accept_prob.mean(axis=1).sum(), rtol=1e-6
    )
    assert chunk.statistics.num_divergences == 3
    assert chunk.statistics.num_divergences.dtype == tf.int32
    np.testing.assert_array_equal(
        chunk.traced[:num_rows, 0], steps_per_row * np.arange(1, num_rows + 1)
    )


def test_pace_of_calls():
    """A quarter of a second, approached by factors of at most 32, and kept from run to run."""
    pace = Pace()
    assert pace.num_rows == 1
    pace.learn(1, seconds=1e-6)
    assert pace.num_rows == 32
    pace.learn(32, seconds=0.032)
    assert pace.num_rows == 250
    pace.learn(1, seconds=1e-6)
    assert pace.num_rows == 250, 'a short remainder says little'
    pace.learn(250, seconds=0.5)
    assert pace.num_rows == 125
    pace.start_again()
    assert pace.num_rows == 3
    pace.learn(1, seconds=10.0)
    assert pace.num_rows == 1
    pace.start_again()
    assert pace.num_rows == 1


def test_a_run_starts_below_the_pace_of_the_last_one(monkeypatch):
    """Once, however often its owner asks for more rows; and calls nothing to compile it."""
    seen = []

    class HasRun:
        is_new = False

        def __call__(self, state, results, seed, first, count):
            seen.append(int(count))
            return Chunk((), (), [], StepStatistics(0.0, 0))

    pace = Pace()
    pace.num_rows = 640
    monkeypatch.setattr(pace, 'learn', lambda *_: None)
    program = SimpleNamespace(
        pace=pace,
        advance=HasRun(),
        steps_per_row=1,
        capacity=100,
        has_acceptance=False,
        arguments=(),
    )
    store = SimpleNamespace(begin=lambda: None, save=lambda: None, moved=lambda *_: None)
    rows = SimpleNamespace(append=lambda leaves: None)
    start = Position(state=(), kernel_results=())
    with Execution('warm-up', program, start, None, rows, progress=False, store=store) as run:
        run.advance_to(30)
        run.advance_to(60)
    assert seen == [20, 10, 20, 10]
    assert run.compile_seconds == 0


def test_a_function_that_failed_is_new():
    """XLA compiles on the first call, after tracing: what then fails is to be compiled again."""
    calls = []

    def fn(x):
        calls.append(x)
        tf.debugging.assert_positive(x)
        return tf.identity(x)

    compiled = Compiled(fn)
    with pytest.raises(tf.errors.InvalidArgumentError):
        compiled(tf.constant(-1.0))
    assert compiled.is_new
    assert compiled(tf.constant(1.0)) == 1
    assert not compiled.is_new
    assert len(calls) == 1, 'it was traced once'
