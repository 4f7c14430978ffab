"""What is recorded, pickled or exported goes on as if nothing had happened."""

import itertools
import pickle

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.contracts.comparisons import assert_identical, is_identical, to_numpy
from tests.integration import saved_sampler
from tests.support import targets
from tests.support.catalogue import KERNELS
from tests.support.processes import run_python

NUM_ADAPTATION_STEPS = 4


def _make(entry, target, is_frozen, seed, state):
    kernel = entry.make(target.log_prob, NUM_ADAPTATION_STEPS)
    if not is_frozen:
        return kernel
    _, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[seed, 8])
    return kernel.frozen(results)


def _adaptive_and_frozen(*default):
    """All kernels, both ways; those of the default run by name, with whether they are frozen."""
    cases = []
    for entry, is_frozen in itertools.product(KERNELS, (False, True)):
        marks = [] if (entry.name, is_frozen) in default else pytest.mark.slow
        name = f'{entry.name}-{"frozen" if is_frozen else "adaptive"}'
        cases.append(pytest.param(entry, is_frozen, marks=marks, id=name))
    return pytest.mark.parametrize(('entry', 'is_frozen'), cases)


# ---- replay


@pytest.fixture
def _no_graph_rewrites():
    """Without TensorFlow's optimizer, which may regroup sums and so change last bits."""
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True})
    yield
    tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': False, **before})


@pytest.mark.usefixtures('_no_graph_rewrites')
@_adaptive_and_frozen(('hmc2_momentum', False), ('hmc2', True))
def test_any_step_of_a_chain_replays_from_its_trace(entry, is_frozen, seed):
    """From the step before and the seed in the trace, in eager mode: the same bits."""
    target = targets.NAMEDTUPLE
    state = target.draw(seed, [4], 'float64')
    kernel = _make(entry, target, is_frozen, seed, state)
    run = tf.function(
        lambda state: tfp.mcmc.sample_chain(
            6, state, kernel=kernel, trace_fn=lambda _, results: results, seed=(seed, 1)
        ),
        autograph=False,
    )
    states, trace = run(state)
    assert isinstance(states, targets.Parts)
    seeds = trace.seed.numpy()
    assert len(np.unique(seeds, axis=0)) == 6
    for n in (2, 5):
        before, after = (
            tf.nest.map_structure(lambda x, i=i: x[i], (states, trace)) for i in (n - 1, n)
        )
        replayed = kernel.one_step(*before, seed=trace.seed[n])
        assert_identical(replayed, after)


# ---- pickles


@_adaptive_and_frozen(('hmc2_momentum', True), ('random_walk', True))
def test_a_run_resumed_from_a_pickle_is_the_same_run(entry, is_frozen, seed):
    target = targets.LIST
    state = target.draw(seed, [4], 'float64')
    _check_resumed(_make(entry, target, is_frozen, seed, state), state, seed)


WRAPPERS = {
    'adapter of a transformed kernel': lambda target, make: (
        tfp.mcmc.DualAveragingStepSizeAdaptation(
            tfp.mcmc.TransformedTransitionKernel(
                make(target.log_prob), [tfp.bijectors.Scale(2.0), tfp.bijectors.Shift(1.0)]
            ),
            num_adaptation_steps=3,
        )
    ),
    'replica exchange': lambda target, make: tfp.mcmc.ReplicaExchangeMC(
        target.log_prob, inverse_temperatures=[1.0, 0.5], make_kernel_fn=make
    ),
}


@pytest.mark.parametrize(
    'name',
    [
        'adapter of a transformed kernel',
        pytest.param('replica exchange', marks=pytest.mark.slow),
    ],
)
def test_a_wrapped_run_resumed_from_a_pickle_is_the_same_run(name, seed):
    target = targets.LIST

    def make(target_log_prob_fn):
        return KERNELS[0].make(target_log_prob_fn, NUM_ADAPTATION_STEPS)

    _check_resumed(WRAPPERS[name](target, make), target.draw(seed, [4]), seed)


def _check_resumed(kernel, state, seed, num_steps=6):
    step = tf.function(kernel.one_step, autograph=False)
    now, saved = (state, kernel.bootstrap_results(state)), None
    for i in range(num_steps):
        if i == num_steps // 2:
            saved = pickle.dumps(to_numpy(now))
        now = step(*now, seed=tf.constant([seed, i]))
    again = tf.nest.map_structure(tf.constant, pickle.loads(saved))
    assert not is_identical(again[0], now[0])
    for i in range(num_steps // 2, num_steps):
        again = step(*again, seed=tf.constant([seed, i]))
    assert_identical(again, now)


# ---- SavedModel


def _export(kernel, state, folder):
    """`start` and `run`, a few steps of `sample_chain`, with any number of chains."""

    def spec(x):
        chains = [None] if x.shape.rank and x.shape[0] == state[0].shape[0] else []
        return tf.TensorSpec([*chains, *x.shape[len(chains) :]], x.dtype)

    def run(state, results, seed):
        chain = tfp.mcmc.sample_chain(
            5,
            state,
            results,
            kernel,
            trace_fn=None,
            return_final_kernel_results=True,
            seed=seed,
        )
        end = [part[-1] for part in chain.all_states]
        return chain.all_states, end, chain.final_kernel_results

    parts = tf.nest.map_structure(spec, state)
    results = tf.nest.map_structure(spec, kernel.bootstrap_results(state))
    sampler = tf.Module()
    sampler.start = tf.function(kernel.bootstrap_results, autograph=False, input_signature=[parts])
    sampler.run = tf.function(
        run, autograph=False, input_signature=[parts, results, tf.TensorSpec([2], tf.int32)]
    )
    tf.saved_model.save(sampler, str(folder / 'model'))
    return sampler


def test_exported_samplers_draw_the_same_in_a_fresh_process(seed, tmp_path):
    """One that has neither this package nor TensorFlow Probability, and another batch of chains."""
    target = targets.LIST
    state = target.draw(seed, [6], 'float64')
    start = target.draw(seed + 1, [5], 'float64')
    folders, samplers = [tmp_path / 'adaptive', tmp_path / 'frozen'], []
    for folder in folders:
        kernel = _make(KERNELS[0], target, folder.name == 'frozen', seed, state)
        samplers.append(_export(kernel, state, folder))
        np.savez(folder / 'start.npz', path=start[0], scales=start[1], seed=np.int32([seed, 0]))
    run_python([saved_sampler.__file__, *folders])
    for folder, sampler in zip(folders, samplers, strict=True):
        with np.load(folder / 'draws.npz') as saved:
            draws = [saved[name] for name in saved.files]
        bootstrapped = sampler.start(start)
        first, end, results = sampler.run(start, bootstrapped, tf.constant([seed, 0]))
        second, _, results = sampler.run(end, results, tf.constant([seed + 1, 1]))
        assert [x.shape for x in draws] == [(5, 5, 3), (5, 5, 2, 2)] * 2
        for there, here in zip(draws, [*first, *second], strict=True):
            np.testing.assert_array_equal(there, here)
        learned_nothing = is_identical(results.adaptation, bootstrapped.adaptation)
        assert learned_nothing == (folder.name == 'frozen')
        assert int(results.step) == 10


_ONE_RUN = """
import hashlib
import tensorflow as tf
import tfp_adaptive as tfpa

run = tfpa.sample(
    lambda x: -tf.reduce_sum(x**2, axis=-1) / 2, 50, 50, num_chains=4,
    initial_state=tf.zeros([3]), seed=1, progress=False)
print(hashlib.sha256(run.states.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_programs_from_tensorflows_cache_draw_the_same(tmp_path, monkeypatch):
    """As the how-to of runs promises."""
    monkeypatch.setenv('TF_XLA_FLAGS', f'--tf_xla_persistent_cache_directory={tmp_path}')
    (first,) = run_python(['-W', 'ignore', '-c', _ONE_RUN])
    kept = sorted(tmp_path.iterdir())
    assert len(kept) >= 2
    (second,) = run_python(['-W', 'ignore', '-c', _ONE_RUN])
    assert first.splitlines()[-1] == second.splitlines()[-1]
    assert sorted(tmp_path.iterdir()) == kept
