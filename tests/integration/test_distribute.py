"""`tfp_adaptive.distribute` on real strategies, each in processes of its own.

MirroredStrategy over two logical CPUs of one process, MultiWorkerMirroredStrategy over two
processes on loopback.
"""

import functools
import pathlib
import pickle
import re
import tempfile

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tests.contracts.comparisons import (
    all_finite,
    assert_close,
    assert_identical,
    assert_same_signature,
    is_identical,
)
from tests.integration import replica_programs as programs
from tests.support import targets
from tests.support.lockstep import Lockstep
from tests.support.processes import run_python
from tests.support.statistics import DETECTION, FALSE_ALARM
from tfp_adaptive.internal import random

BLOCKS = (slice(0, 3), slice(3, 5))
"""How five chains are dealt to two replicas."""


MIRRORED, MULTI_WORKER = ('learn', 'go_on', 'errors', 'gather'), ('learn', 'gather')
"""What the processes of the default run do, one after the other: most of their time is imports."""


@functools.cache
def _run(programs_to_run, seed, num_workers):
    """{program: result} of every process."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ['-m', programs.__name__, folder, seed, *programs_to_run]
        run_python(arguments, num_workers=num_workers)
        return [
            pickle.loads((pathlib.Path(folder) / f'{index}.pickle').read_bytes())
            for index in range(num_workers or 1)
        ]


def _replicas(outcomes, name):
    """The values of all replicas of all processes, in order."""
    return [value for outcome in outcomes for value in getattr(outcome['warm'], name).replicas]


@pytest.mark.parametrize(
    ('names', 'num_workers'),
    [(MIRRORED, None), pytest.param(MULTI_WORKER, 2, marks=pytest.mark.slow)],
    ids=['mirrored', 'multi_worker'],
)
def test_replicas_learn_one_proposal(names, num_workers, seed):
    """The same as replicas played by threads, step for step, and the same bits on each."""
    outcomes = [outcome['learn'] for outcome in _run(names, seed, num_workers)]
    assert [i for outcome in outcomes for i in outcome['ids']] == [0, 1]
    states, trace = _replicas(outcomes, 'all_states'), _replicas(outcomes, 'trace')
    assert [part.shape[:2] for part, _ in states] == [(programs.NUM_STEPS, n) for n in (3, 2)]
    assert_identical(trace[0].adaptation, trace[1].adaptation)
    factors = trace[0].adaptation.preconditioner
    last = programs.NUM_ADAPTATION_STEPS - 1
    assert not any(is_identical(factors[i], factors[i + 1]) for i in range(last))
    assert is_identical(factors[last], factors[-1])
    for played, replica_states, results in zip(_played(seed), states, trace, strict=True):
        expected_states, expected = played
        assert_close(results.adaptation, expected.adaptation, rtol=1e-8)
        assert_close(results.log_accept_ratio, expected.log_accept_ratio, rtol=1e-8)
        assert_close(replica_states, expected_states, rtol=1e-8)
        assert_identical(results.seed, expected.seed)
    for outcome in outcomes:
        _check_frozen(outcome)
    _check_gathered(outcomes)


@functools.cache
def _played(seed):
    """(states, kernel results) of the warm-up for every replica, each a thread, stacked."""
    lockstep = Lockstep(len(BLOCKS))
    kernel = programs.learning_kernel(lockstep.pool_fn)
    whole = targets.LIST.draw(seed, [programs.NUM_CHAINS], 'float64')

    def play(replica):
        state = [part[BLOCKS[replica]] for part in whole]
        results, trace = kernel.bootstrap_results(state), []
        replica_seed = random.fold_in(tf.constant([seed, 0]), tf.constant(replica))
        for step in range(programs.NUM_STEPS):
            step_seed = random.fold_in(replica_seed, tf.constant(step))
            state, results = kernel.one_step(state, results, seed=step_seed)
            trace.append((state, results))
        return tf.nest.map_structure(lambda *steps: np.stack(steps), *trace)

    return lockstep.run([lambda replica=replica: play(replica) for replica in (0, 1)])


def _check_frozen(outcome):
    """Nothing is left to learn."""
    assert all_finite(outcome['draws'])
    learned = outcome['warm'].final_kernel_results.replicas[0].adaptation.preconditioner
    for results in outcome['draws'].final_kernel_results.replicas:
        assert_identical(results.adaptation.preconditioner, learned)


def _check_gathered(outcomes):
    """Every process holds the draws of all."""
    parts = [draws for outcome in outcomes for draws in outcome['draws'].all_states.replicas]
    expected = [np.concatenate(same, axis=1) for same in zip(*parts, strict=True)]
    for outcome in outcomes:
        assert_identical(outcome['gathered'], expected)


@pytest.mark.parametrize(
    ('names', 'num_workers'),
    [(MIRRORED, None), pytest.param(MULTI_WORKER, 2, marks=pytest.mark.slow)],
    ids=['mirrored', 'multi_worker'],
)
def test_gather_joins_any_dtype_and_survives_a_wrong_axis(names, num_workers, seed):
    """An error within a collective would end all later ones."""
    outcomes = [outcome['gather'] for outcome in _run(names, seed, num_workers)]
    parts = [part for _, _, local in outcomes for part in local.replicas]
    expected = [np.concatenate(same, axis=-2) for same in zip(*parts, strict=True)]
    assert [array.shape for array in expected[:2]] == [(2, 5, 7), (5, 7)]
    for messages, joined, _ in outcomes:
        assert_same_signature(joined, expected)
        assert_identical(joined, expected)
        for axis, fix in ((0, 'pass axis=1'), (-1, 'pass axis=1'), (3, 'pass the axis of')):
            assert re.match(f'ValueError: `axis` is {axis}, .* {fix}', messages[axis])


def test_a_run_that_goes_on_takes_the_same_steps(seed):
    """The second half again, from NumPy: the same bits."""
    warm, resumed = _run(MIRRORED, seed, None)[0]['go_on']
    assert_identical(resumed.final_state, warm.final_state)
    assert_identical(resumed.final_kernel_results, warm.final_kernel_results)


# ---- law


def _same_law_p_value(first, second):
    """Two samples [n, M]: their means (Welch) and spreads (Levene), Bonferroni-corrected."""
    p_values = [
        test(a, b)
        for a, b in zip(first.T, second.T, strict=True)
        for test in (
            lambda a, b: scipy.stats.ttest_ind(a, b, equal_var=False).pvalue,
            lambda a, b: scipy.stats.levene(a, b).pvalue,
        )
    ]
    return min(1.0, len(p_values) * min(p_values))


@pytest.mark.slow
@pytest.mark.parametrize('num_workers', [None, 2], ids=['mirrored', 'multi_worker'])
def test_what_is_learned_has_the_law_of_one_process(num_workers, seed):
    """As with all chains in one process; not as with those of one replica alone."""
    pooled = _run(('law',), seed, num_workers)[0]['law']
    here = tf.distribute.get_strategy()
    assert _same_law_p_value(pooled, programs.law(here, seed + 1)) > FALSE_ALARM
    alone = programs.law(here, seed + 1, num_chains=2)
    assert _same_law_p_value(pooled, alone) < DETECTION


# ---- wrappers and errors


@pytest.mark.slow
@pytest.mark.parametrize('num_workers', [None, 2], ids=['mirrored', 'multi_worker'])
def test_wrappers_around_a_kernel_that_pools(num_workers, seed):
    outcomes = [outcome['wrappers'] for outcome in _run(('wrappers',), seed, num_workers)]
    for name in outcomes[0]:
        runs = [outcome[name] for outcome in outcomes]
        assert all_finite([run.all_states for run in runs])
        first, second = [r for run in runs for r in run.final_kernel_results.replicas]
        assert_identical(*[_learned(results) for results in (first, second)])
    first, second = [
        r.new_step_size for o in outcomes for r in o['adapter'].final_kernel_results.replicas
    ]
    assert first == second != 1


def _learned(results):
    for field in ('inner_results', 'post_swap_replica_results'):
        results = getattr(results, field, results)
    return results.adaptation


def test_misuse_is_named(seed):
    messages = _run(MIRRORED, seed, None)[0]['errors']
    expected = {
        'no pool_fn': 'ValueError: `kernel` adapts for 4 steps on each of 2 replicas .* pool_fn=',
        'jit_compile': 'ValueError: `jit_compile` must be False for a `kernel` that pools',
        'wrapper': 'RuntimeError: .* inside a loop.* wrapper .*`tfp_adaptive.distribute',
        'few chains': 'ValueError: `current_state` holds 1 chains for 2 replicas',
        'loop': 'RuntimeError: .* inside a loop.* `tfp_adaptive.distribute',
        'xla around': 'RuntimeError: .* XLA program.* `tfp_adaptive.distribute',
        'xla inside': 'RuntimeError: .* XLA program.* `tfp_adaptive.distribute',
        'xla around the driver': 'RuntimeError: .* XLA program.* `tfp_adaptive.distribute',
        'outside': 'RuntimeError: `pool_fn` was called outside `strategy.run`',
    }
    assert messages.keys() == expected.keys()
    for case, pattern in expected.items():
        assert re.match(pattern, messages[case], re.DOTALL), messages[case]
