"""The benchmark, tiny: what its sections count and keep; never how long anything takes."""

import dataclasses
import functools
import importlib
import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import tfp_adaptive as tfpa
from experiments import cli, programs, records
from experiments.benchmark import (
    cold_start,
    compilation,
    fresh_process,
    gradient_free,
    overhead,
    peers,
    scaling,
    scaling_process,
    section,
    stepping,
)
from experiments.benchmark.command import SECTIONS, measure, settings_of
from experiments.benchmark.section import Ledger, Section, load_settings
from experiments.config import ConfigError
from experiments.errors import ExperimentError
from experiments.tables import Table


@pytest.fixture(autouse=True)
def _without_xla(monkeypatch):
    monkeypatch.setattr(tfpa, 'sample', functools.partial(tfpa.sample, jit_compile=False))
    monkeypatch.setattr(programs, 'JIT_COMPILE', False)


@pytest.fixture
def small_data(monkeypatch, rng):
    """Every data set is the same few rows."""
    labels = (rng.uniform(size=20) < 0.5).astype(float)
    monkeypatch.setattr('experiments.data.load', lambda name: (rng.normal(size=[20, 2]), labels))


def _benchmark(tmp_path, section, *assignments):
    """(results by unit, the page) of one section with some settings."""
    arguments = ['--only', section, '--output', str(tmp_path), '--set', *assignments]
    assert cli.main(['benchmark', *arguments]) == 0
    [path] = (tmp_path / 'benchmark').glob('*.json')
    units = json.loads(path.read_text())['units']
    page = (tmp_path / 'benchmark' / 'benchmark.md').read_text()
    return {key: unit['result'] for key, unit in units.items()}, page


def test_counts(tmp_path):
    settings = ['num_steps=4', 'num_chains=3', 'num_dims=7', 'kernels=L=1 refreshed 0.6,L=2']
    results, page = _benchmark(tmp_path, 'counts', *settings)
    assert list(results) == ['L=1 refreshed 0.6', 'L=2']
    for found in results.values():
        length = found['num_leapfrog_steps']
        for kernel in ('frozen', 'adaptive'):
            assert found[kernel]['evaluations'] == [length, length]
            assert found[kernel]['copies_later'] == 0
            assert found[kernel]['largest_tensor'] < found['chains_times_squared_size'] == 3 * 7**2
        least, mean, most = found['adaptive']['products']
        assert (least, mean, most) == (0, 0, 0) if length == 1 else 2 <= least <= mean <= most
        assert found['frozen']['operations'] < found['adaptive']['operations']
    assert '| L=2 ' in page
    assert 'cores' in page
    assert 'tensorflow_probability' in page


_TINY_OVERHEAD = (
    *('only=process', 'kernels=L=2', 'goal_kernel=L=2', 'num_chains=2'),
    *('processes=1', 'repetitions=1', 'seconds=0.001', 'num_draws=8'),
)


@pytest.fixture
def in_this_process(monkeypatch):
    def run(module, case, name):
        del name
        return importlib.import_module(module).measure(**case)

    monkeypatch.setattr(fresh_process, 'run', run)


def test_overhead(tmp_path, in_this_process):
    results, page = _benchmark(tmp_path, 'overhead', 'threads=0', *_TINY_OVERHEAD)
    [(key, found)] = results.items()
    assert key == 'process, threads: all'
    assert '| process | 51 | all ' in re.sub(' +', ' ', page)
    assert found['event_size'] == 51
    assert set(found['seconds']) == {
        *('gradient', 'value and gradient', 'noise', 'L=2, frozen', 'L=2, adaptive')
    }
    seconds, ratios = found['seconds'], found['kernels']['L=2']
    assert ratios['overhead'] == pytest.approx(
        seconds['L=2, frozen'] / (2 * seconds['value and gradient'])
    )
    assert ratios['overhead_over_needs'] == pytest.approx(
        seconds['L=2, frozen'] / (seconds['value and gradient'] + seconds['gradient'])
    )
    assert ratios['adaptive'] == pytest.approx(seconds['L=2, adaptive'] / seconds['L=2, frozen'])
    assert ratios['draw_seconds'] > 0
    assert '| 2.5' in page


def test_ratios_of_overhead_are_those_within_a_turn():
    """In the second of three turns the machine is three times as slow."""
    busy = np.array([1.0, 3.0, 1.0])
    found = overhead._ratios(
        {
            'gradient': 1.0 * busy,
            'value and gradient': 2.0 * busy,
            'L=2, frozen': np.array([8.0, 24.0, 9.0]),
            'L=2, adaptive': np.array([16.0, 72.0, 18.0]),
        },
        'L=2',
    )
    assert found['overhead'] == 2.0
    assert found['overhead_over_needs'] == pytest.approx(8 / 3)
    assert found['adaptive'] == 2.0


def test_processes_of_overhead_are_summed_up(monkeypatch):
    left = [
        {
            'num_threads': 2,
            'event_size': 51,
            'seconds': {'gradient': seconds},
            'kernels': {'L=2': {'overhead': seconds / 2, 'adaptive': 10.0 - seconds}},
        }
        for seconds in (1.0, 8.0, 2.0)
    ]
    monkeypatch.setattr(fresh_process, 'run', lambda *_: left.pop())
    [(_, unit)] = overhead.SECTION.units(load_settings('overhead', ['only=process', 'threads=0']))
    assert unit() == {
        'num_threads': 2,
        'event_size': 51,
        'seconds': {'gradient': 2.0},
        'kernels': {
            'L=2': {
                'overhead': 1.0,
                'overhead_range': [0.5, 4.0],
                'adaptive': 8.0,
                'adaptive_range': [2.0, 9.0],
            }
        },
    }
    assert not left


def test_goals_are_for_one_kernel():
    config = load_settings('overhead', ['only=process', 'threads=0'])
    names = ('gradient', 'value and gradient', 'noise')
    labels = config.settings['kernels']
    seconds = dict.fromkeys(
        [*names, *(f'{k}, {w}' for k in labels for w in ('frozen', 'adaptive'))], 1e-6
    )
    ratios = {
        **{'overhead': 9.0, 'overhead_over_needs': 9.0, 'adaptive': 2.0, 'draw_seconds': 1e-6},
        **{'overhead_range': [8.0, 9.5], 'adaptive_range': [1.9, 2.1]},
    }
    found = {
        'num_threads': 0,
        'event_size': 51,
        'seconds': seconds,
        'kernels': dict.fromkeys(labels, ratios),
    }
    [table] = overhead.SECTION.tables(config, {'process, threads: all': found})
    goals = [
        [cell for cell, name in zip(row, table.columns, strict=True) if 'goal' in name]
        for row in table.rows
    ]
    assert goals == [[None, None], [None, None], ['2.5: missed', '2.5']]
    assert '8 to 9.5' in table.rows[0]


@pytest.mark.slow
def test_overhead_with_one_thread(tmp_path):
    """In a fresh process: in this one TensorFlow has long chosen its threads."""
    results, page = _benchmark(tmp_path, 'overhead', 'threads=1', *_TINY_OVERHEAD)
    [(key, found)] = results.items()
    assert key == 'process, threads: 1'
    assert found['num_threads'] == 1  # as TensorFlow says
    assert found['kernels']['L=2']['adaptive'] > 0
    assert '| process | 51 | 1 ' in re.sub(' +', ' ', page)


def test_one_slow_call_does_not_shorten_what_is_timed(monkeypatch):
    """A millisecond a step, on a clock of its own, but the third call stalls for a second."""
    clock, calls = [0.0], []

    def loop(num_steps):
        calls.append(num_steps)
        clock[0] += 1e-3 * num_steps + (len(calls) == 3)
        return 0.0

    monkeypatch.setattr(stepping.time, 'perf_counter', lambda: clock[0])
    times = stepping.interleave({'loop': loop}, repetitions=2, seconds=0.2)
    assert calls[-2:] == [200, 200]
    np.testing.assert_allclose(times['loop'], 1e-3)


@pytest.mark.slow
def test_compilation(tmp_path, small_data, in_this_process):
    settings = ['kernels=L=1 refreshed 0.6', 'num_chains=2', 'num_steps=4', 'processes=1']
    results, page = _benchmark(tmp_path, 'compilation', *settings)
    [found] = results.values()
    assert set(found['seconds']) == {'warm-up', 'sampling'}
    assert found['sample']['first']['copies'] == 1
    assert len(found['sample']) == 4
    later = [found['sample'][name]['copies'] for name in found['sample'] if name != 'first']
    assert later == [0, 0, 0]
    assert 'another seed' in page


@pytest.mark.slow
def test_cold_start(tmp_path):
    tiny = ['processes=1', 'num_warmup_steps=120', 'num_results=60', 'only=pima']
    results, page = _benchmark(tmp_path, 'cold_start', *tiny, 'samplers=`sample`')
    [found] = results.values()
    [first], [again] = found['first'], found['again']
    assert 0 < again['compile'] < first['compile']
    assert first['max_rhat'] == again['max_rhat']
    assert '| pima   | `sample` |' in page


def test_a_cold_start_that_fails_is_a_row_of_a_peer_and_an_error_of_ours(tmp_path, monkeypatch):
    def fail(module, case, name, environment=None):
        raise ExperimentError(f'measuring {name} failed')

    monkeypatch.setattr(cold_start.fresh_process, 'run', fail)
    results, page = _benchmark(tmp_path, 'cold_start', 'only=pima', 'samplers=ChEES-HMC')
    [found] = results.values()
    assert found['unavailable'] == 'failed: measuring ChEES-HMC failed'
    assert '| failed: measuring ChEES-HMC failed' in page
    arguments = ['--only', 'cold_start', '--output', str(tmp_path / 'ours'), '--set', 'only=pima']
    assert cli.main(['benchmark', *arguments, 'samplers=`sample`']) == 2


def test_cold_starts_are_medians_of_processes():
    def run(imports):
        return {'imports': imports, 'compile': 4, 'warmup': 1, 'draws': 0.5, 'max_rhat': 1.01}

    found = {'target': 'here', 'sampler': 'one'}
    measured = {**found, 'first': [run(1), run(9), run(2)], 'again': [run(1)]}
    config = load_settings('cold_start')
    [table] = cold_start.SECTION.tables(
        config, {'a': measured, 'b': {**found, 'unavailable': 'not here'}}
    )
    assert table.rows[0] == ['here', 'one', 2, 4, 1, 0.5, 7.5, 6.5, '1.010']
    assert table.rows[1][:3] == ['here', 'one', 'not here']
    assert [len(row) for row in table.rows] == [len(table.columns)] * 2


def test_compile_times_are_medians_of_processes(monkeypatch):
    """And the goal is for medians."""
    left = [
        {
            'seconds': {'warm-up': seconds, 'sampling': 1.0},
            'sample': {
                call: {'seconds': seconds, 'copies': 2} for call in ('first', *compilation.LATER)
            },
        }
        for seconds in (3.0, 5.0, 2.0)
    ]
    monkeypatch.setattr(fresh_process, 'run', lambda *_: left.pop())
    config = load_settings('compilation', ['kernels=L=2', 'processes=3'])
    [(_, unit)] = compilation.SECTION.units(config)
    [table] = compilation.SECTION.tables(config, {'L=2': unit()})
    [row] = table.rows
    assert row[1:7] == [3.0, '2 to 5', 1.0, '1 to 1', '4', 3.0]
    assert not left


def test_adaptation(tmp_path):
    settings = ['lengths=4,8', 'seeds=1,2', 'num_results=20', 'num_chains=2', 'kernels=L=2']
    results, page = _benchmark(tmp_path, 'adaptation', 'only=process', *settings)
    [found] = results.values()
    assert [(run['num_steps'], run['seed']) for run in found['runs']] == [
        *((4, 1), (4, 2), (8, 1), (8, 2))
    ]
    # two gradients to find a first scale, two a step, and at least two products a step
    assert all(run['cost'] >= 2 + 6 * run['num_steps'] for run in found['runs'])
    assert 'relative to the longest' in page


@pytest.mark.slow
def test_scaling(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, 'in_fresh_process', lambda case: scaling_process.measure(**case))
    # in a process that has held more before the peak would not move
    monkeypatch.setattr(fresh_process, 'peak_bytes', itertools.count(2**20, 2**20).__next__)
    sizes = ['diagonal_dims=5,9', 'banded_dims=', 'cholesky_dims=', 'chains=2,3', 'chains_dims=5']
    short = ['num_chains=2', 'num_warmup_steps=8', 'num_results=8', 'repetitions=1']
    fits = ['sparse_from=5', 'chains_preconditioner=diagonal', 'seconds=0.001', 'peer=false']
    rows = ['rows=7,30', 'rows_dims=3', 'rows_steps=6']
    results, page = _benchmark(tmp_path, 'scaling', *sizes, *short, *fits, *rows)
    assert list(results) == [
        'diagonal, d = 5, 2 chains',
        'diagonal, d = 9, 2 chains',
        'diagonal, d = 5, 3 chains',
        'cholesky, d = 3, 2 chains, 7 rows',
        'cholesky, d = 3, 2 chains, 30 rows',
    ]
    assert all(case['frozen_seconds'] > 0 for case in results.values())
    assert 'Scaling in the rows of data, d = 3' in page
    assert (tmp_path / 'benchmark' / scaling.FIGURE).stat().st_size > 10_000
    assert f'![{scaling.FIGURE}]' in page


def test_scaling_goes_from_few_chains_to_many():
    settings = {'chains_preconditioner': 'diagonal', 'chains_dims': 5}
    case = {'preconditioner': 'diagonal', 'num_dims': 5, 'num_rows': None}
    cases = [{**case, 'num_chains': n} for n in (10, 1, 100)]
    found = scaling._by_chains([*cases, {**case, 'num_dims': 6, 'num_chains': 2}], settings)
    assert [case['num_chains'] for case in found] == [1, 10, 100]


def test_scaling_that_is_half_done_has_no_figure(tmp_path):
    config = load_settings('scaling')
    case = {'preconditioner': 'diagonal', 'num_dims': 10, 'num_chains': 10, 'num_rows': None}
    assert not scaling.SECTION.draw(config, {'a': case}, tmp_path)


def test_peak_memory_is_not_that_of_the_parent():
    """On one that holds 400 MB; the child takes 100 MB for a moment."""
    ballast = np.ones(50_000_000)
    code = (
        'from experiments.benchmark.fresh_process import peak_bytes; before = peak_bytes(); '
        'b"x" * 100_000_000; print(before, peak_bytes())'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before < ballast.nbytes
    assert after - before == pytest.approx(1e8, rel=0.05)


def test_a_process_that_takes_too_long_is_ended():
    with pytest.raises(fresh_process.TooLongError, match='nothing did not end'):
        fresh_process.run('json.tool', {}, 'nothing', max_seconds=1e-3)


@pytest.mark.slow
def test_scaling_in_a_fresh_process():
    case = {
        'preconditioner': 'banded',
        'num_dims': 3,
        'num_chains': 2,
        'settings': load_settings(
            'scaling', ['num_warmup_steps=4', 'num_results=8', 'seconds=0.001']
        ).settings,
    }
    assert scaling.in_fresh_process(case)['peak_bytes'] > 0
    with pytest.raises(ExperimentError, match=r'measuring dense failed: .*dense'):
        scaling.in_fresh_process({**case, 'preconditioner': 'dense'})


@pytest.mark.slow
@pytest.mark.parametrize('num_rows', [None, 40])
def test_the_peer_of_the_scaling(num_rows):
    """Beside ours, on the same density, of which only some coordinates are kept."""
    pytest.importorskip('blackjax')
    short = ['num_warmup_steps=20', 'num_results=8', 'rows_steps=20', 'num_watched=3']
    settings = load_settings('scaling', short).settings
    case = {'num_dims': 5, 'num_chains': 4, 'num_rows': num_rows, 'settings': settings}
    found = scaling.peer_in_fresh_process(case)
    assert found['min_ess'] > 0
    assert 0 < found['ess_per_gradient'] < 1
    own = {'preconditioner': 'diagonal', 'num_dims': 5, 'num_chains': 4, 'num_rows': num_rows}
    cells = scaling._peer_cells(own, {scaling._size(found): found})
    assert cells[0] == found['ess_per_gradient']


def test_slope_of_a_power():
    assert scaling.slope([1, 10, 1000], [2, 2e3, 2e9]) == pytest.approx(3)
    assert scaling.slope([10], [1]) is None
    assert scaling.slope([1, 10, 1000], [0, 2e3, 2e9]) == pytest.approx(3)


_TINY_PEERS = (
    *('num_warmup_steps=10', 'num_results=8', 'num_short_results=8', 'seeds=1'),
    *('num_chains=2', 'our_chains=2', 'only=ripley'),
)


@pytest.mark.slow
def test_peers(tmp_path, small_data):
    chosen = 'samplers=L=2,TFP NUTS (unit metric)'
    results, page = _benchmark(tmp_path, 'peers', *_TINY_PEERS, chosen)
    assert list(results) == [
        'ripley: L=2: seed 1',
        'ripley: TFP NUTS (unit metric): seed 1',
    ]
    own, nuts = results.values()
    assert own['num_gradients'] == 1 + 2 * 8
    assert own['num_warmup_gradients'] >= 2 + 6 * 10
    assert nuts['num_warmup_gradients'] >= 10
    assert own['event_size'] == 3
    assert own['is_ours']
    assert not nuts['is_ours']
    assert '| ripley ' in page


@pytest.mark.parametrize(
    'sampler', ['WindowedHMC', pytest.param('WindowedNUTS', marks=pytest.mark.slow)]
)
def test_our_baselines(tmp_path, small_data, sampler):
    settings = ['num_warmup_steps=20', f'samplers={sampler}']
    results, page = _benchmark(tmp_path, 'peers', *_TINY_PEERS[1:], *settings)
    [found] = results.values()
    if sampler == 'WindowedNUTS':
        assert found['num_gradients'] >= 8
        assert found['num_gradients'] % 0.5 == 0  # a mean over two chains
    else:
        assert (found['num_warmup_gradients'], found['num_gradients']) == (2 + 10 * 20, 1 + 10 * 8)
    assert (found['is_ours'], found['is_baseline']) == (True, True)
    assert f'| {sampler} ' in page


def test_all_before_the_first_draw_is_our_warm_up(tmp_path, small_data, monkeypatch):
    """And what compiles is called twice, but no later seed."""
    calls, sample = [], tfpa.sample

    def timed(*args, **kwargs):
        calls.append(kwargs['seed'])
        timings = tfpa.sampling.Timings(compile=1.0, warmup=2.0, sampling=4.0, start=8.0)
        return dataclasses.replace(sample(*args, **kwargs), timings=timings)

    monkeypatch.setattr(tfpa, 'sample', timed)
    settings = [f'samplers={peers.ours.DEFAULT}', 'seeds=1,2']
    results, _ = _benchmark(tmp_path, 'peers', *_TINY_PEERS, *settings)
    for found in results.values():
        assert (found['warmup_seconds'], found['sampling_seconds']) == (11.0, 4.0)
    assert calls == [(1, 1), (1, 1), (2, 1)]


def test_a_slow_target_takes_fewer_seeds(small_data):
    keys = [key for key, _ in peers.SECTION.units(load_settings('peers', ['seeds=4,5']))]
    assert 'german: L=2: seed 5' in keys
    assert 'caravan: L=2: seed 4' in keys
    assert 'caravan: L=2: seed 5' not in keys


def test_a_slow_target_takes_more_draws():
    config = load_settings('peers')
    options = dict(config.chosen_targets())['process']
    assert peers._problem(config.settings, options).num_short_results == 10000
    options['num_short_results'] = 7
    assert peers._problem(config.settings, options).num_short_results == 7


def test_a_peer_that_is_not_installed_is_a_row_that_says_so(tmp_path, small_data, monkeypatch):
    monkeypatch.setitem(sys.modules, 'nutpie', None)
    results, page = _benchmark(tmp_path, 'peers', *_TINY_PEERS, 'samplers=nutpie (low rank)')
    [found] = results.values()
    assert found['unavailable'] == ('nutpie is not installed: pip install "tfp_adaptive[peers]"')
    assert '| nutpie is not installed' in page


def test_a_peer_that_fails_is_a_row_that_says_so(tmp_path, small_data, monkeypatch):
    def fail(problem):
        raise RuntimeError('out of | memory')

    monkeypatch.setitem(peers.PEERS, 'ChEES-HMC', fail)
    results, page = _benchmark(tmp_path, 'peers', *_TINY_PEERS, 'samplers=ChEES-HMC')
    [found] = results.values()
    assert found['unavailable'] == 'failed: RuntimeError: out of memory'
    assert '| failed: RuntimeError: out of memory' in page


def test_a_peer_that_takes_too_long_is_a_row_that_says_so(tmp_path, small_data, monkeypatch):
    def give_up(problem):
        assert problem.max_seconds == 30
        raise TimeoutError

    monkeypatch.setitem(peers.PEERS, 'ChEES-HMC', give_up)
    chosen = ['samplers=ChEES-HMC', 'max_minutes=0.5']
    results, page = _benchmark(tmp_path, 'peers', *_TINY_PEERS, *chosen)
    [found] = results.values()
    assert found['is_skipped']
    assert '| not finished: a call may take 0.5 minutes' in page


@pytest.mark.parametrize(
    ('sampler', 'error'),
    [('ChEES-HMC', TypeError), ('L=2', RuntimeError), ('L=2', TimeoutError)],
    ids=['bug', 'ours', 'ours too late'],
)
def test_a_mistake_of_ours_is_no_row(tmp_path, small_data, monkeypatch, sampler, error):
    def fail(*_):
        raise error('a bug')

    monkeypatch.setitem(peers.PEERS, 'ChEES-HMC', fail)
    monkeypatch.setattr(peers.ours, 'make', fail)
    with pytest.raises(error, match='a bug'):
        _benchmark(tmp_path, 'peers', *_TINY_PEERS, f'samplers={sampler}')


@pytest.mark.slow
@pytest.mark.parametrize(
    'sampler',
    ['TFP windowed NUTS', 'TFP windowed HMC', 'TFP SNAPER-HMC'],
)
def test_samplers_of_tfp(tmp_path, small_data, sampler):
    results, _ = _benchmark(tmp_path, 'peers', *_TINY_PEERS, f'samplers={sampler}')
    [found] = results.values()
    assert found['num_gradients'] >= 8
    assert found['num_warmup_gradients'] >= 10
    assert (found['num_chains'], found['num_results']) == (2, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('sampler', 'package'),
    [
        ('BlackJAX NUTS (diagonal)', 'blackjax'),
        ('BlackJAX NUTS (dense)', 'blackjax'),
        ('BlackJAX NUTS (low rank)', 'blackjax'),
        ('MAMS', 'blackjax'),
        ('MEADS (64 chains)', 'blackjax'),
        ('ChEES-HMC', 'blackjax'),
        ('ChEES-HMC (64 chains; diagonal)', 'blackjax'),
        ('GIST path length (diagonal)', 'blackjax'),
        ('GIST step size (dense)', 'blackjax'),
        ('NumPyro NUTS (diagonal)', 'numpyro'),
        ('NumPyro NUTS (dense)', 'numpyro'),
        ('nutpie (low rank)', 'nutpie'),
    ],
)
def test_samplers_of_others(tmp_path, small_data, sampler, package):
    pytest.importorskip(package)
    settings = [*_TINY_PEERS[1:], 'num_warmup_steps=40', f'samplers={sampler}']
    results, _ = _benchmark(tmp_path, 'peers', *settings)
    [found] = results.values()
    assert found['num_gradients'] >= 8
    assert found['num_warmup_gradients'] >= 40
    assert found['num_results'] == 8


@pytest.mark.slow
def test_the_seconds_of_a_long_run_of_nutpie_are_divided(tmp_path, small_data, monkeypatch):
    nutpie = pytest.importorskip('nutpie')
    lengths, sample = [], nutpie.sample
    monkeypatch.setattr(
        nutpie,
        'sample',
        lambda *args, draws, **kwargs: (
            lengths.append(draws) or sample(*args, draws=draws, **kwargs)
        ),
    )
    monkeypatch.setattr('experiments.benchmark.peers_nutpie._LONG_SECONDS', 0.0)
    monkeypatch.setattr('experiments.benchmark.peers_nutpie._MAX_REPETITIONS', 1)
    settings = [*_TINY_PEERS[1:], 'num_warmup_steps=40', 'samplers=nutpie (low rank)']
    results, _ = _benchmark(tmp_path, 'peers', *settings)
    [found] = results.values()
    assert lengths == [8]  # no warm-up alone
    gradients = found['num_gradients'], found['num_warmup_gradients']
    seconds = found['sampling_seconds'], found['warmup_seconds']
    assert seconds[0] / seconds[1] == pytest.approx(gradients[0] / gradients[1])


@pytest.mark.slow
def test_nutpie_is_stopped(tmp_path, small_data):
    pytest.importorskip('nutpie')
    settings = [*_TINY_PEERS[1:], 'num_warmup_steps=1000000', 'max_minutes=0.01']
    results, _ = _benchmark(tmp_path, 'peers', *settings, 'samplers=nutpie (low rank)')
    [found] = results.values()
    assert found['unavailable'].startswith('not finished')


# --- the command ---------------------------------------------------------------------------------


def _section(calls):
    """A section of two units that keeps a list of its calls."""

    def units(config):
        for name in ('a', 'b'):
            yield name, lambda name=name: calls.append(name) or {'value': len(calls)}

    return Section('counts', units, lambda config, results: [Table('T', ['value'])])


def test_gradient_free_steps(tmp_path):
    tiny = ('dims=2', 'goals=1e9', 'chains=3', 'num_steps=2', 'repetitions=1', 'seconds=0.001')
    results, page = _benchmark(tmp_path, 'gradient_free_steps', *tiny)
    [run] = results.values()
    assert run['ratios']['adapting'] * run['seconds']['walk'] == pytest.approx(
        run['seconds']['adapting']
    )
    assert '| 2 | 3 ' in page


_SHORT_WALKS = [
    *('seeds=1,2', 'num_chains=2', 'least_walkers=6'),
    *('num_warmup_evaluations=60', 'num_evaluations=120'),
]


@pytest.mark.slow
@pytest.mark.parametrize('only', ['banana', 'gaussian-10'])
def test_gradient_free(tmp_path, only):
    pytest.importorskip('emcee')
    pytest.importorskip('pymc')
    results, page = _benchmark(tmp_path, 'gradient_free', *_SHORT_WALKS, f'only={only}')
    assert [run['num_evaluations'] for run in results.values()] == [120] * 8
    walkers = 6 if only == 'banana' else 20
    assert [run['num_chains'] for run in results.values()] == [2, 2, walkers, 2] * 2
    assert f'| {only} ' in page


def test_samplers_without_gradients_that_are_not_there(tmp_path, monkeypatch):
    for package in ('emcee', 'pymc'):
        monkeypatch.setitem(sys.modules, package, None)
    short = [*_SHORT_WALKS, 'only=banana', "samplers=emcee's stretch move,PyMC's DEMetropolisZ"]
    results, page = _benchmark(tmp_path, 'gradient_free', *short)
    assert [run['unavailable'].split()[0] for run in results.values()] == ['emcee', 'pymc'] * 2
    assert "| emcee's stretch move | emcee is not installed" in page


def test_rows_of_samplers_without_gradients():
    def runs(sampler, *rates):
        run = {'target': 'here', 'event_size': 3, 'sampler': sampler, 'num_chains': 4}
        return [{**run, 'ess_per_evaluation': r, 'max_rhat': 1 + r} for r in rates]

    every = [*runs(gradient_free.OURS, 0.01, 0.04, 0.02), *runs('peer', 0.1, 0.01, 0.01)]
    config = load_settings('gradient_free')
    [table] = gradient_free.SECTION.tables(config, dict(enumerate(every)))
    ours, peer = table.rows
    assert ours == ['here', 3, gradient_free.OURS, 4, 0.02, '0.01 to 0.04', '1.040', None]
    assert peer[4:6] == [0.01, '0.01 to 0.1']
    assert peer[6].startswith('1.100: above 1.05')
    assert peer[7] == 2.0


def test_what_is_there_is_not_measured_again(tmp_path):
    calls, config = [], load_settings('counts')
    section = _section(calls)
    measure(section, config, tmp_path, again=False)
    measure(section, config, tmp_path, again=False)
    assert calls == ['a', 'b']
    measure(section, config, tmp_path, again=True)
    assert calls == ['a', 'b', 'a', 'b']
    assert Ledger(tmp_path, config).results == {'a': {'value': 3}, 'b': {'value': 4}}


def test_a_run_that_was_cut_short_goes_on(tmp_path):
    calls, config = [], load_settings('counts')
    Ledger(tmp_path, config).put('a', {'value': 7}, 1.0)
    measure(_section(calls), config, tmp_path, again=False)
    assert calls == ['b']


def test_what_was_not_available_is_tried_again(tmp_path):
    calls, config = [], load_settings('counts')
    Ledger(tmp_path, config).put('b', {'unavailable': 'not installed'}, 1.0)
    measure(_section(calls), config, tmp_path, again=False)
    assert calls == ['a', 'b']


def test_what_is_left_out_on_purpose_is_not_tried_again(tmp_path):
    calls, config = [], load_settings('counts')
    Ledger(tmp_path, config).put('b', {'unavailable': 'too large', 'is_skipped': True}, 1.0)
    measure(_section(calls), config, tmp_path, again=False)
    assert calls == ['a']


def test_a_unit_knows_the_commit_it_was_measured_at(tmp_path):
    config = load_settings('counts')
    Ledger(tmp_path, config).put('a', {'value': 7}, 1.0)
    [unit] = Ledger(tmp_path, config).units.values()
    assert unit.commit == records.commit()
    assert re.fullmatch(r'([0-9a-f]{7,40}\+?)?', unit.commit)


def test_results_of_other_settings_are_kept_apart(tmp_path):
    plain, other = load_settings('counts'), load_settings('counts', ['seed=2'])
    Ledger(tmp_path, plain).put('a', {'value': 1}, 1.0)
    assert not Ledger(tmp_path, other).units
    for part, key in (('settings', 'num_steps'), ('target', 'num_dims')):
        edited = load_settings('counts')
        getattr(edited, part)[key] += 1
        assert Ledger(tmp_path, edited).path == Ledger(tmp_path, plain).path
        assert not Ledger(tmp_path, edited).units


def test_nothing_measured_is_lost_when_the_defaults_change(tmp_path, capsys):
    plain, edited = load_settings('counts'), load_settings('counts')
    edited.settings['num_steps'] = 51
    Ledger(tmp_path, plain).put('a', {'value': 1}, 1.0)
    ledger = Ledger(tmp_path, edited)
    ledger.put('b', {'value': 2}, 1.0)
    ledger.put('c', {'value': 3}, 1.0)
    assert list(Ledger(tmp_path, edited).units) == ['b', 'c']
    [aside] = tmp_path.glob('counts.json.until-*')
    assert json.loads(aside.read_text())['units']['a']['result'] == {'value': 1}
    assert capsys.readouterr().out.count('put aside as') == 1
    # renamed back, it is what it was
    aside.replace(tmp_path / 'counts.json')
    assert Ledger(tmp_path, plain).results == {'a': {'value': 1}}


def test_results_of_other_versions_are_not_mixed_with_new_ones(tmp_path, monkeypatch):
    calls, config = [], load_settings('counts')
    Ledger(tmp_path, config).put('a', {'value': 7}, 1.0)
    environment = section._environment
    monkeypatch.setattr(section, '_environment', lambda: {**environment(), 'numpy': '0.1'})
    with pytest.raises(ExperimentError, match=r'counts\.json was measured with numpy .*here'):
        measure(_section(calls), config, tmp_path, again=False)
    assert not calls
    measure(_section(calls), config, tmp_path / 'elsewhere', again=False)
    assert calls == ['a', 'b']


def test_a_selection_changes_no_result(tmp_path):
    config = load_settings('overhead')
    Ledger(tmp_path, config).put('german', {'value': 1}, 1.0)
    chosen = load_settings('overhead', ['only=german'])
    assert Ledger(tmp_path, chosen).results == {'german': {'value': 1}}


def test_a_file_that_holds_no_results_is_named(tmp_path):
    config = load_settings('counts')
    (tmp_path / 'counts.json').write_text('{}')
    with pytest.raises(ExperimentError, match=r'counts\.json holds no results'):
        Ledger(tmp_path, config)


def test_settings_go_to_every_section_that_has_them():
    settings = settings_of(list(SECTIONS), ['num_chains=3', 'overhead.seed=9'])
    counts = [config.settings.get('num_chains') for config in settings.values()]
    assert [count for count in counts if count is not None] == [3] * (len(SECTIONS) - 1)
    assert settings['overhead'].settings['seed'] == 9
    assert settings['counts'].settings['seed'] == 1


@pytest.mark.parametrize(
    ('sections', 'assignment', 'message'),
    [
        (['counts'], 'sede=1', "no section that runs has a setting 'sede'"),
        (['counts'], 'overhead.seed=1', "a section that does not run: 'overhead'"),
        (['counts'], 'counts.sede=1', 'Did you mean seed'),
    ],
)
def test_settings_that_no_section_has(sections, assignment, message):
    with pytest.raises(ConfigError, match=message):
        settings_of(sections, [assignment])


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--only', 'speed'], '--only speed names no section; there are counts'),
        (['--only', 'peers', '--set', 'samplers=HMC'], 'samplers=HMC names no sampler'),
        (['--only', 'counts', '--set', 'kernels=L=7'], "no kernel 'L=7'; there are"),
    ],
)
def test_errors_are_one_sentence(tmp_path, capsys, arguments, message):
    assert cli.main(['benchmark', '--output', str(tmp_path), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count('\n') == 1


_CASE = {
    'preconditioner': 'cholesky',
    'num_dims': 100,
    'num_rows': None,
    'gradient_seconds': 12e-6,
    'frozen_seconds': 3e-5,
    'adaptive_seconds': 4e-5,
    'peak_bytes': 2**20,
    'ess_per_gradient': 0.1,
    'ess_per_second': 1000.0,
    'max_rhat': 1.001,
}


_STEPS = {
    'num_dims': 2,
    'num_chains': 3,
    'goal': 1.5,
    'seconds': {'walk': 1.0, 'adapting': 2.0, 'frozen': 0.5},
    'ratios': {'adapting': 2.0, 'frozen': 0.5},
    'quartiles': [1.9, 2.1],
}


def test_results_of_another_version_of_a_section_are_named(tmp_path, capsys):
    Ledger(tmp_path / 'benchmark', load_settings('overhead')).put('german', {'old': 1}, 1.0)
    assert cli.main(['benchmark', '--no-run', '--output', str(tmp_path)]) == 2
    assert 'overhead.json was measured by another version' in capsys.readouterr().err


def test_the_page_can_be_published(tmp_path):
    ledger = Ledger(tmp_path / 'benchmark', load_settings('scaling'))
    for num_chains in (1, 10):
        ledger.put(f'{num_chains} chains', {**_CASE, 'num_chains': num_chains}, 1.0)
    public = tmp_path / 'docs'
    arguments = ['--no-run', '--output', str(tmp_path), '--publish', str(public)]
    assert cli.main(['benchmark', *arguments]) == 0
    page = (public / 'benchmark.md').read_text()
    assert page.startswith('# Benchmark')
    assert '| cholesky       | 100 | 10     | 12' in page
    assert '![scaling.png](scaling.png)' in page
    assert (public / 'scaling.png').stat().st_size > 1000
    assert page.count('Not measured.') == len(SECTIONS) - 1
    # another result elsewhere adds its section, and leaves the others
    more = tmp_path / 'more'
    steps = Ledger(more / 'benchmark', load_settings('gradient_free_steps'))
    steps.put('d = 2, 3 chains', _STEPS, 1.0)
    arguments[2] = str(more)
    assert cli.main(['benchmark', *arguments]) == 0
    both = (public / 'benchmark.md').read_text()
    assert '| 2 | 3 ' in both
    assert both.count('Not measured.') == len(SECTIONS) - 2
    [title] = [line for line in page.splitlines() if line.startswith('## Time, memory')]
    assert page[page.index(title) :].split('## ')[1] == both[both.index(title) :].split('## ')[1]


def test_a_part_of_a_section_does_not_replace_the_whole(tmp_path, capsys):
    public = tmp_path / 'docs'
    for name, counts in (('whole', (1, 10)), ('part', (10,))):
        ledger = Ledger(tmp_path / name / 'benchmark', load_settings('scaling'))
        for num_chains in counts:
            ledger.put(f'{num_chains} chains', {**_CASE, 'num_chains': num_chains}, 1.0)

    def publish(name):
        arguments = ['--no-run', '--output', str(tmp_path / name), '--publish', str(public)]
        return cli.main(['benchmark', *arguments]), (public / 'benchmark.md').read_text()

    status, page = publish('whole')
    assert status == 0
    assert publish('part') == (2, page)
    assert "the page has 2 measurements under 'Time, memory" in capsys.readouterr().err
    assert publish('whole') == (0, page)


def test_two_processes_may_measure_units_of_one_section(tmp_path):
    first, second = (Ledger(tmp_path, load_settings('scaling')) for _ in range(2))
    first.put('a', {'value': 1}, 1.0)
    second.put('b', {'value': 2}, 1.0)
    assert Ledger(tmp_path, load_settings('scaling')).results == {
        'a': {'value': 1},
        'b': {'value': 2},
    }


def test_the_page_says_what_was_measured_with_which_commit(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / 'benchmark', load_settings('scaling'))
    for num_chains, commit in ((1, '0123abc'), (10, '4567def')):
        monkeypatch.setattr(records, 'commit', lambda commit=commit: commit)
        ledger.put(f'{num_chains} chains', {**_CASE, 'num_chains': num_chains}, 1.0)
    assert cli.main(['benchmark', '--no-run', '--output', str(tmp_path)]) == 0
    page = (tmp_path / 'benchmark' / 'benchmark.md').read_text()
    assert re.search(r'; commits 0123abc \(1 chains: \S+ to \S+\); 4567def \(10 chains: ', page)


def test_the_help_names_every_section_and_the_extra(capsys):
    with pytest.raises(SystemExit):
        cli.main(['benchmark', '--help'])
    shown = capsys.readouterr().out
    assert ', '.join(SECTIONS) in ' '.join(shown.split())
    assert 'peers]' in shown
