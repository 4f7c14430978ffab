"""Programs for other machines: run here by JAX, on a target that is known."""

import dataclasses
import importlib
import itertools
import json

import numpy as np
import pytest

from experiments import config
from experiments.accelerator import programs
from experiments.errors import ExperimentError

job = importlib.import_module('experiments.jobs.accelerator')
_NUM_CHAINS, _NUM_DIMS = 256, 3


@pytest.fixture
def tiny():
    own = config.load('accelerator', ['num_results=200', 'seconds=0.01'])
    target = {
        'label': 'short path',
        'name': 'autoregression',
        'num_dims': _NUM_DIMS,
        'preconditioner': 'cholesky',
        'num_chains': [_NUM_CHAINS],
        'peer_chains': [128],
    }
    return dataclasses.replace(own, targets=[target])


@pytest.mark.slow
def test_programs_run_without_tensorflow(tiny, tmp_path):
    for package in ('jax', 'blackjax', 'optax'):
        pytest.importorskip(package)
    outcome = job.accelerator_steps(tiny, tmp_path, progress=False)
    [table] = outcome.tables
    ours, elsewhere, chees, chees_elsewhere = table.rows
    assert ours[:5] == ['ours', 'short path', _NUM_DIMS, _NUM_CHAINS, 'CPU']
    assert chees[:5] == ['ChEES-HMC (diagonal)', 'short path', _NUM_DIMS, 128, 'CPU']
    assert job._NOT_MEASURED in elsewhere
    assert job._NOT_MEASURED in chees_elsewhere
    run = outcome.runs[0]
    assert all(run[f'{name}_seconds'] > 0 for name in ('gradient', 'frozen', 'adaptive', 'run'))
    # a stationary path with standard normal margins
    scores = np.divide(run['means'], run['standard_errors'])
    assert len(scores) == _NUM_DIMS
    assert np.abs(scores).max() < 4.5
    assert 0.05 < run['min_ess'] / (200 * _NUM_CHAINS) < 2
    assert 0.4 < run['acceptance'] < 0.9

    # a program of its own for a GPU; what is measured of it elsewhere takes its rows
    folder = tmp_path / 'programs'
    entries = json.loads((folder / 'programs.json').read_text())['programs']
    files = {entry['platform']: entry['steps']['file'] for entry in entries}
    assert files['CPU'] != files['GPU']
    back = (folder / 'measured-CPU.json').read_text().replace(files['CPU'], files['GPU'])
    (folder / 'measured-GPU.json').write_text(back)
    [joined] = job.accelerator_steps(tiny, tmp_path, progress=False).tables
    # and nothing is measured again
    assert joined.rows[0] == ours
    assert joined.rows[1] == [*ours[:4], 'GPU', *ours[5:-1], 0.0]

    # what was measured of a program that has changed counts no more
    (folder / 'measured-GPU.json').write_text(back.replace(files['GPU'], 'an earlier one'))
    [stale] = job.accelerator_steps(tiny, tmp_path, progress=False).tables
    assert stale.rows[1] == elsewhere

    (folder / 'measured-CPU.json').write_text('broken')
    with pytest.raises(ExperimentError, match=r'measure\.py failed: .*JSONDecodeError'):
        job.accelerator_steps(tiny, tmp_path, progress=False)


def test_seconds_of_a_turn_when_calls_are_disturbed(monkeypatch):
    """Any call may take far longer than its turns, as on a machine with other work."""
    pytest.importorskip('jax')
    from experiments.accelerator import measure

    now = 0.0
    disturbed = itertools.cycle([True, False, True, False, False])

    def call(count):
        nonlocal now
        now += 0.5 + 0.001 * count + (10.0 if next(disturbed) else 0.0)

    monkeypatch.setattr(measure.time, 'perf_counter', lambda: now)
    assert measure.seconds_each(call, 0.01) == pytest.approx(0.001)
    # calls that may not be longer: what every call pays is left in
    assert measure.seconds_each(lambda count: call(0), 0.01, 8) == pytest.approx(0.5 / 8)


def test_effective_sizes_from_the_scatter_of_means(rng):
    pytest.importorskip('jax')
    from experiments.accelerator import measure

    num_chains, num_draws, correlation = 4000, 500, 0.6
    noise = rng.normal(size=[num_draws, num_chains, 2])
    noise[1:] *= np.sqrt(1 - correlation**2)
    for before, now in itertools.pairwise(noise):
        now += correlation * before
    moments = [np.mean(noise**power, axis=0) for power in (1, 2, 4)]
    found = measure.judge(np.array([5.0, -5.0]), moments)
    # of q; that of q^2 is larger, with the correlation 0.36
    expected = num_chains * num_draws * (1 - correlation) / (1 + correlation)
    assert found['min_ess'] == pytest.approx(expected, rel=5 * np.sqrt(2 / num_chains))
    np.testing.assert_allclose(found['means'], np.add(np.mean(noise, axis=(0, 1)), (5, -5)))
    assert measure.judge(np.zeros(2), [each[:99] for each in moments]) == {}


def test_standard_errors_of_means(rng):
    pytest.importorskip('jax')
    from experiments.accelerator import measure

    num_draws, num_chains, num_dims = 10, 400, 80
    noise = rng.normal(size=[num_draws, num_chains, num_dims])
    found = measure.judge(
        np.zeros(num_dims), [np.mean(noise**power, axis=0) for power in (1, 2, 4)]
    )
    # the error of each from 399 degrees of freedom
    errors = np.array(found['standard_errors']) * np.sqrt(num_draws * num_chains)
    assert np.abs(errors - 1).max() < 5 / np.sqrt(2 * num_chains)


def test_steps_are_those_of_the_kernel(seed):
    """Outside of any export, eagerly: one draw after a warm-up of two steps."""
    import tensorflow as tf

    case = programs.make_case('autoregression', 'cholesky', num_dims=_NUM_DIMS)
    run = programs.steps(case, 5, 2)
    middle, first, second, fourth, accepted = run(tf.constant(seed), tf.constant(2), tf.constant(1))
    assert middle.shape == [_NUM_DIMS]
    assert accepted.shape == [5]
    np.testing.assert_allclose(second, first**2, rtol=1e-5)
    np.testing.assert_allclose(fourth, second**2, rtol=1e-5)
    assert set(accepted.numpy()) <= {0.0, 1.0}
    none = run(tf.constant(seed), tf.constant(2), tf.constant(0))
    np.testing.assert_array_equal(none[1], tf.zeros_like(first))
    moved = programs.gradients(case, 5)(tf.constant(seed), tf.constant(3))
    np.testing.assert_array_equal(moved, case.start(5, tf.constant([seed, 0])))
