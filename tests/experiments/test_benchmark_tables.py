"""What the benchmark's tables say of given figures."""

import pytest

from experiments import tables
from experiments.benchmark import comparison, kernels, ours, scaling
from experiments.benchmark.adaptation import summarise
from experiments.benchmark.section import load_settings
from tfp_adaptive.sampling.programs import kernel_choice


def _run(sampler, is_ours=False, **changes):
    return {
        'target': 'ripley',
        'sampler': sampler,
        'is_ours': is_ours,
        'seed': 1,
        'event_size': 3,
        'num_chains': 10,
        'num_results': 100,
        'min_ess': 500.0,
        'max_rhat': 1.001,
        'num_gradients': 200.0,
        'num_warmup_gradients': 1000.0,
        'compile_seconds': 1.0,
        'warmup_seconds': 2.0,
        'sampling_seconds': 0.25,
    } | changes


def test_a_row_is_a_median_over_seeds():
    runs = [_run('a', min_ess=size, max_rhat=1 + size / 1e6) for size in (400.0, 500.0, 900.0)]
    row = comparison.summarise(runs, wanted_ess=1000.0, max_rhat=1.05)
    assert row.ess_per_gradient == pytest.approx(500 / 2000)
    assert row.ess_per_second == pytest.approx(2000)
    # 1,000 effective draws at 2,000 a second after 2 seconds of warm-up
    assert row.ess_per_second_in_all == pytest.approx(1000 / 2.5)
    assert row.max_rhat == pytest.approx(1.0009)
    assert row.is_converged


def test_chains_that_never_move_have_no_size():
    row = comparison.summarise([_run('a', min_ess=None, max_rhat=None)], 1000.0, 1.05)
    assert row.ess_per_gradient == row.ess_per_second_in_all == 0
    assert not row.is_converged


def _tables(*runs, target='ripley'):
    config = load_settings('peers')
    results = {run['sampler']: {**run, 'target': target} for run in runs}
    samplers = {target: [run['sampler'] for run in runs]}
    *standings, own = comparison.tables(config, results, samplers)
    return [table.rows[0] for table in standings], {row[0]: row for row in own.rows}


def test_standing_against_the_best_peer_in_each_respect():
    (by_gradient, by_second, in_all), rows = _tables(
        _run(ours.DEFAULT, is_ours=True),
        _run('L=5', is_ours=True, sampling_seconds=0.1, warmup_seconds=9.0),
        _run('sparing', num_gradients=100.0, sampling_seconds=1.0),
        _run('fast', sampling_seconds=0.125, warmup_seconds=8.0),
    )
    assert by_gradient == ['ripley', 3, ours.DEFAULT, 0.25, 'sparing', 0.5, 0.5, 0.5, 0.5]
    assert by_second == ['ripley', 3, 'L=5', 5000, 'fast', 4000, 1.25, 1.25, 0.5]
    ratio = pytest.approx((1000 / 2.5) / (1000 / 4))
    assert in_all == ['ripley', 3, ours.DEFAULT, 400, 'sparing', 250, ratio, ratio, ratio]
    assert len(rows) == 4


def test_a_baseline_of_ours_has_a_row_and_no_standing():
    standings, rows = _tables(
        _run('L=2', is_ours=True, min_ess=100.0),
        _run('WindowedNUTS', is_ours=True, is_baseline=True),
        _run('x', min_ess=50.0),
    )
    assert [(standing[2], standing[4]) for standing in standings] == [('L=2', 'x')] * 3
    assert rows['WindowedNUTS'][1] == 0.25


def test_a_peer_that_did_not_converge_is_flagged_and_not_first():
    standings, rows = _tables(
        _run('L=2', is_ours=True),
        _run('good', min_ess=100.0),
        _run('stuck', min_ess=900.0, max_rhat=1.3),
    )
    assert [standing[4] for standing in standings] == ['good'] * 3
    # the ratio to the best peer that converged, and to the best of any R-hat
    assert standings[0][6:8] == pytest.approx([500 / 100, 500 / 900])
    assert rows['stuck'][5] == '1.300: above 1.05, not converged'
    assert rows['good'][5] == '1.001'


def test_a_peer_that_is_not_there_says_so():
    missing = {'target': 'ripley', 'sampler': 'x', 'is_ours': False, 'unavailable': 'no x'}
    standings, rows = _tables(_run('L=2', is_ours=True), missing)
    assert rows['x'][:2] == ['x', 'no x']
    for standing in standings:
        assert standing[4:] == [None] * 5


def test_a_preconditioner_chosen_for_the_target_is_not_the_default():
    runs = _run(ours.DEFAULT, is_ours=True), _run('x')
    chosen, _ = _tables(*runs, target='anisotropic-1000')
    default, _ = _tables(*runs, target='german')
    assert [row[-1] for row in chosen] == [None] * 3
    assert [row[-1] for row in default] == [1] * 3


def test_the_default_of_the_tables_is_that_of_sample():
    assert kernels.KERNELS[ours.DEFAULT] == kernel_choice.default_kernel().keywords


def test_what_was_not_measured_is_named():
    samplers = {'caravan': ['L=2', 'x'], 'ripley': ['L=2', 'x', 'y']}
    results = {'one': _run('x'), 'two': _run('L=2', is_ours=True)}
    found = comparison.tables(load_settings('peers'), results, samplers)
    assert found[2].note.endswith(' Not measured: caravan; on ripley y.')
    assert found[3].note.endswith(' Not measured: y.')
    # the order is that of the settings, not of the measurements
    assert [row[0] for row in found[3].rows] == ['L=2', 'x']


def test_nothing_is_missing_where_all_was_measured():
    results = {'one': _run('x'), 'two': _run('L=2', is_ours=True)}
    found = comparison.tables(load_settings('peers'), results, {'ripley': ['L=2', 'x']})
    assert not any('Not measured' in (table.note or '') for table in found)


def test_a_missed_goal_says_so():
    assert tables.goal(2.5, 2.5) == '2.5'
    assert tables.goal(4.0, 1.0, 4.1) == '4: missed'


def test_memory_of_the_largest_dimension_beyond_the_smallest():
    cases = [
        {'num_dims': size, 'num_chains': 2, 'peak_bytes': num_bytes}
        for size, num_bytes in ((100, 90000), (10, 10000))
    ]
    assert scaling._memory(cases) == pytest.approx([80000 / 200, 80000 / 10000])


def _curve(*values):
    return [
        {'num_steps': 100 * n, 'seed': seed, 'cost': 1000 * n, 'ess_per_gradient': value}
        for n, pair in enumerate(values, start=1)
        for seed, value in enumerate(pair)
    ]


def test_adaptation_is_done_when_it_stays_good():
    summary = summarise(_curve((0.1, 0.1), (0.2, 0.2), (0.1, 0.3), (0.2, 0.2)), 0.1)
    assert (summary['num_steps'], summary['cost']) == (200, 2000)
    # one seed of the third length is not good enough, and the longest alone proves nothing
    assert summary['worst_cost'] is None
    assert summary['final'] == pytest.approx(0.2)
    assert summary['means'] == pytest.approx([0.1, 0.2, 0.2, 0.2])


def test_a_relapse_counts():
    summary = summarise(_curve((0.2,), (0.1,), (0.19,), (0.2,)), 0.1)
    assert (summary['num_steps'], summary['cost'], summary['worst_cost']) == (300, 3000, 3000)
