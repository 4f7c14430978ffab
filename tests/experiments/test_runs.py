"""Every experiment end to end, tiny."""

import dataclasses
import functools
import importlib
import json
import types

import numpy as np
import pytest

import tfp_adaptive as tfpa
from experiments import cli, config, programs, pseudo_marginal, records, samplers
from experiments.benchmark import fresh_process
from experiments.errors import ExperimentError
from experiments.jobs.windowed_nuts import verdict
from experiments.robustness import confirmation, tables
from experiments.robustness import measure as robustness_measure
from experiments.robustness import samplers as robustness
from experiments.targets import joint_distributions
from experiments.targets.base import Moments
from experiments.targets.posteriors import POSTERIORS, references
from tfp_adaptive.sampling.targets.dependence import places_that_others_change
from tfp_adaptive.sampling.targets.distributions import from_distribution

core_step = importlib.import_module('experiments.jobs.core_step')
pmmh = importlib.import_module('experiments.jobs.pmmh_random_effects')
pmmh_higgs = importlib.import_module('experiments.jobs.pmmh_higgs')
pictures = importlib.import_module('experiments.jobs.pmmh_pictures')
volatility = importlib.import_module('experiments.jobs.pmmh_volatility')

_SHORT = ['num_chains=2', 'num_warmup_steps=8', 'num_results=8']
_NUTS = ('NUTS, posterior scales', 'NUTS, unit metric')
_SHORT_VOLATILITY = [
    *('num_points=12', 'num_leapfrog_steps=2', 'rival_warmup_steps=4', 'rival_results=4'),
    *('nuts_chains=2', 'nuts_warmup_steps=4', 'nuts_results=4'),
]


@pytest.fixture(autouse=True)
def _without_xla(request, monkeypatch):
    """Compilation would take most of the time; one test keeps it."""
    if 'compiled' not in request.node.name:
        monkeypatch.setattr(tfpa, 'sample', functools.partial(tfpa.sample, jit_compile=False))
        monkeypatch.setattr(programs, 'JIT_COMPILE', False)


def _run(tmp_path, name, *settings):
    arguments = ['run', name, '--no-progress', '--output', str(tmp_path), '--set', *settings]
    assert cli.main(arguments) == 0
    [folder] = tmp_path.iterdir()
    return folder, json.loads((folder / 'record.json').read_text())


@pytest.mark.slow
def test_stochastic_volatility(tmp_path, capsys):
    folder, record = _run(tmp_path, 'stochastic_volatility', *_SHORT, *_SHORT_VOLATILITY)
    samplers = [run['sampler'] for run in record['runs']]
    assert samplers == ['bordered band', 'band', 'diagonal', *_NUTS]
    posterior, comparison = record['tables']
    assert [row[0] for row in posterior['rows'][:3]] == ['phi', 'mu', 'sigma']
    assert len(comparison['rows']) == 5
    assert all(run['num_gradients'] > 0 for run in record['runs'])
    nuts = record['runs'][-1]
    assert nuts['num_lockstep_gradients'] >= nuts['num_gradients']
    assert (folder / 'volatility.png').stat().st_size > 10_000
    assert 'bordered band' in (folder / 'tables.md').read_text()
    assert 'Posterior' in capsys.readouterr().out


@pytest.mark.slow
def test_stochastic_volatility_without_rivals(tmp_path, monkeypatch):
    """And with a diagonal for the band, which takes most of the time to trace."""
    diagonal = tfpa.preconditioners.diagonal()
    monkeypatch.setattr(tfpa.preconditioners, 'banded', lambda **sizes: diagonal)
    switches = ['band=false', 'diagonal=false', 'nuts=false', 'num_leapfrog_steps=1']
    _, record = _run(tmp_path, 'stochastic_volatility', *_SHORT, *_SHORT_VOLATILITY, *switches)
    assert [run['sampler'] for run in record['runs']] == ['bordered band']


@pytest.mark.slow
def test_gaussian_with_nuts(tmp_path):
    one = ['kind=iid', 'num_dims=3', 'nuts=true', 'num_leapfrog_steps=1']
    _, record = _run(tmp_path, 'gaussian', *_SHORT, *one)
    adaptive, nuts = record['runs']
    assert adaptive['num_gradients'] == adaptive['num_lockstep_gradients'] >= 8
    assert nuts['sampler'] == 'NUTS'
    assert adaptive['largest_error'] > 0


_SHORT_BANANA = [
    *('seeds=1,2', 'num_chains=2', 'num_results=8', 'flow_warmup_steps=8', 'flow_lengths=1'),
    *('linear_warmup_steps=8,16', 'linear_lengths=2', 'hmc_lengths=3', 'rival_warmup_steps=8'),
]


@pytest.mark.slow
def test_banana(tmp_path):
    _, record = _run(tmp_path, 'banana', *_SHORT_BANANA)
    [table] = record['tables']
    assert [row[:3] for row in table['rows']] == [
        ['RealNVP', 1, 8],
        ['Cholesky', 2, 8],
        ['Cholesky', 2, 16],
        ['HMC, acceptance 0.65', 3, 8],
        ['NUTS', None, 8],
    ]
    runs = record['runs']
    assert [run['seed'] for run in runs] == [1, 2] * 5
    flow, _, _, hmc, nuts = runs[::2]
    # one at the start and one for the first scale
    assert flow['num_warmup_gradients'] == 8 + 2
    assert flow['num_warmup_products'] == 0
    assert hmc['num_warmup_gradients'] == hmc['num_gradients'] == 3 * 8
    assert nuts['num_gradients'] > 8
    for run in runs:
        spent = run['num_warmup_gradients'] + 2 * run['num_warmup_products'] + run['num_gradients']
        np.testing.assert_allclose(
            run['ess_per_gradient_in_all'] * spent, run['ess_per_gradient'] * run['num_gradients']
        )
        assert run['seconds'] > 0


@pytest.mark.slow
def test_banana_compiled(tmp_path):
    few = ['nuts=false', 'seeds=1', 'flow_lengths=', 'linear_lengths=1', 'hmc_lengths=']
    _, record = _run(tmp_path, 'banana', *_SHORT_BANANA, *few)
    assert [run['sampler'] for run in record['runs']] == ['Cholesky'] * 2


_SHORT_COX = [*_SHORT, 'only=8-code', 'seeds=1,2']


@pytest.mark.slow
def test_cox_process(tmp_path):
    few = ['samplers=adaptive,riemannian', 'num_leapfrog_steps=2', 'learning_rate=0.01']
    _, record = _run(tmp_path, 'cox_process', *_SHORT_COX, *few)
    [table] = record['tables']
    titles = ['entropy-adaptive HMC', 'Riemannian HMC']
    assert [row[:2] for row in table['rows']] == [[title, 2] for title in titles]
    runs = record['runs']
    assert [(run['sampler'], run['seed']) for run in runs] == [
        (title, seed) for title in titles for seed in (1, 2)
    ]
    for run in runs:
        assert run['min_ess'] <= run['mean_ess']
        # the gradient at the start counts where the kernel counts itself
        assert run['num_gradients'] in (2 * 8, 2 * 8 + 1)
    assert runs[0]['num_warmup_products'] > 0
    assert runs[2]['num_warmup_products'] == 0


@pytest.mark.slow
def test_cox_process_with_all_samplers(tmp_path):
    few = ['num_leapfrog_steps=1,2', 'num_warmup_steps=40']
    _, record = _run(tmp_path, 'cox_process', *_SHORT_COX, *few)
    [table] = record['tables']
    titles = ['entropy-adaptive HMC', 'the same as published', 'Riemannian HMC']
    nuts = ['WindowedNUTS', 'WindowedNUTS, dense']
    assert [row[:2] for row in table['rows']] == [
        *([title, length] for title in titles for length in (1, 2)),
        *([title, None] for title in nuts),
    ]


def test_cox_process_refuses_an_unknown_sampler(tmp_path, capsys):
    arguments = ['run', 'cox_process', '--output', str(tmp_path), '--set', 'samplers=walk']
    assert cli.main(arguments) == 2
    assert 'samplers=walk is not known; there are adaptive' in capsys.readouterr().err


def test_logistic_regression(tmp_path, monkeypatch, rng):
    labels = (rng.uniform(size=20) < 0.5).astype(float)
    monkeypatch.setattr('experiments.data.load', lambda name: (rng.normal(size=[20, 2]), labels))
    one = ['data=heart', 'num_leapfrog_steps=1']
    _, record = _run(tmp_path, 'logistic_regression', *_SHORT, *one)
    assert record['runs'][0]['target'] == 'heart'


def test_defaults(tmp_path, monkeypatch):
    """The other kernels are run as the default, which is traced already."""
    others = []

    def run_other(label, target, settings, progress, momentum_refreshment):
        others.append((target.event_size, settings['num_leapfrog_steps'], momentum_refreshment))
        run, performance = samplers.run_default(target, settings, progress)
        return run, dataclasses.replace(performance, sampler=label)

    monkeypatch.setattr(samplers, 'run_adaptive', run_other)
    more = ['seeds=1,2', 'num_leapfrog_steps=1,3', 'momentum_refreshments=0.6,1.0']
    _, record = _run(tmp_path, 'defaults', *_SHORT, 'only=iid-2,iid-300', *more)
    main, beside = record['tables']
    assert main['columns'][:3] == ['target', 'd', 'seed 1']
    assert [row[:2] for row in main['rows']] == [['iid-2', 2], ['iid-300', 300]]
    names = ['L=1 refreshed 0.6', 'L=3 refreshed 1']
    assert beside['columns'] == ['target', 'd', 'default', *names, 'default / best']
    assert [row[2] for row in beside['rows']] == [row[4] for row in main['rows']]
    assert all(0 < row[-1] <= 1 for row in beside['rows'])
    kernels = [(1, 0.6), (3, 1.0)]
    assert others == [(size, *kernel) for size in (2, 300) for kernel in kernels for _ in range(2)]
    runs = [(run['target'], run['sampler'], run['seed']) for run in record['runs']]
    assert runs == [
        (target, name, seed)
        for target in ('iid-2', 'iid-300')
        for name in ('default', *names)
        for seed in (1, 2)
    ]


@pytest.mark.slow
def test_core_step(tmp_path, monkeypatch):
    monkeypatch.setattr(
        core_step.fresh_process, 'run', lambda module, case, name: core_step.measure(**case)
    )
    monkeypatch.setattr(core_step, '_NUM_STEPS_TO_SETTLE', 3)
    few = ['only=process', 'kernels=L=1 refreshed 0.6', 'processes=1', 'num_steps=1']
    few += ['repetitions=2', 'num_chains=2']
    devices = ['entropy after the move', 'row sums by a product']
    _, record = _run(tmp_path, 'core_step', *few, f'devices={",".join(devices)}')
    phases = [(run['phase'], run['without']) for run in record['runs']]
    adaptive = [('adaptive', device) for device in ('nothing', *devices)]
    assert phases == [*adaptive, ('frozen', 'nothing'), ('frozen', devices[1])]
    assert all(run['seconds'] > 0 for run in record['runs'])


@pytest.mark.parametrize('device', core_step.DEVICES)
def test_a_device_is_left_out_while_a_step_is_traced(device):
    places = core_step.DEVICES[device].places
    own = [getattr(module, name) for module, name, _ in places]
    with core_step.without(device):
        for module, name, plain in places:
            assert getattr(module, name) is plain
    assert [getattr(module, name) for module, name, _ in places] == own


@pytest.mark.slow
def test_windowed_nuts(tmp_path):
    few = ['num_warmup_steps=40', 'num_results=20', 'only=banana', 'seeds=1']
    _, record = _run(tmp_path, 'windowed_nuts', *few, 'samplers=WindowedNUTS,TFP')
    claims, speeds, figures = record['tables']
    assert claims['rows'][0][:3] == ['banana', 2, 1]
    assert claims['rows'][0][-1] == 'not known'
    assert claims['note'].count('worse in 0 of 1 comparisons') == 1
    assert [row[0] for row in speeds['rows']] == ['banana', 'all, geometric mean']
    assert [row[1] for row in figures['rows']] == ['WindowedNUTS', 'TFP']
    for run in record['runs']:
        ratio = run['ess_per_gradient'] / run['ess_per_gradient_in_all']
        assert ratio == pytest.approx(1 + run['num_warmup_gradients'] / run['num_gradients'])
        assert run['num_gradients'] * 10 * run['ess_per_gradient'] == pytest.approx(run['min_ess'])


def test_windowed_nuts_without_ours(tmp_path, capsys):
    arguments = ['run', 'windowed_nuts', '--output', str(tmp_path), '--set', 'samplers=TFP']
    assert cli.main(arguments) == 2
    assert 'must be WindowedNUTS and others of' in capsys.readouterr().err


def test_worse_and_better_are_beyond_three_errors():
    """A standard error of each is 1, of the difference the root of 2."""
    values = np.array([-1.0, 0.0, 1.0]) * 3**0.5
    for shift, words in (
        (4.3, 'better'),
        (4.2, 'not told apart'),
        (-4.2, 'not told apart'),
        (-4.3, 'worse'),
    ):
        t, found = verdict(values + shift, values)
        assert (t, found) == (pytest.approx(shift / 2**0.5), words)
    assert verdict([1.0], values)[1] == 'not known'


def test_robustness_counts_what_others_count():
    """A Hessian-vector product as two gradients; of trees those of each chain, not the longest."""
    counts = types.SimpleNamespace(
        num_warmup_gradients=100, num_sampling_gradients=50, num_warmup_hessian_vector_products=7
    )
    plain = types.SimpleNamespace(memory=())
    run = types.SimpleNamespace(
        diagnostics=counts, warmup_kernel_results=plain, kernel_results=plain
    )
    assert robustness.num_gradients(run) == 164
    trees = [
        types.SimpleNamespace(memory=types.SimpleNamespace(num_leapfrogs=np.array(own)))
        for own in ([10, 20], [30, 50])
    ]
    run.warmup_kernel_results, run.kernel_results = trees
    assert robustness.num_gradients(run) == 55


@pytest.mark.slow
def test_robustness_compiled(tmp_path):
    """The line through years fails without an arrival: its starts are far from its mass."""
    only = 'only=line through years'
    _, record = _run(
        tmp_path / 'long', 'robustness', only, 'widths=2', 'seeds=5', 'samplers=sample'
    )
    [run] = record['runs']
    assert (run['verdict'], run['is_warned']) == ('pass', False)
    settings = [only, 'widths=2', 'seeds=5', 'samplers=sample', 'num_warmup_steps=90']
    _, record = _run(tmp_path / 'short', 'robustness', *settings)
    [run] = record['runs']
    assert (run['verdict'], run['is_warned']) == ('fail', True)


@pytest.mark.slow
def test_robustness_of_others_compiled(tmp_path):
    """NUTS of others, which warn of nothing themselves, pass on posteriors without trouble."""
    others = ['BlackJAX NUTS (low rank)', 'TFP windowed NUTS']
    _, record = _run(
        tmp_path,
        'robustness',
        'only=raw units 1e-3',
        'widths=2',
        'seeds=5',
        f'samplers=sample,{",".join(others)}',
    )
    ours, *peers = record['runs']
    assert ours['verdict'] == 'pass'
    assert [(one['sampler'], one['verdict'], one['is_warned']) for one in peers] == [
        (other, 'pass', None) for other in others
    ]
    passes, beside, posteriors = record['tables']
    assert passes['rows'] == [
        *(['2', other, '1 of 1', None] for other in others),
        ['2', 'sample', '1 of 1', 0],
    ]
    assert [row[5] for row in posteriors['rows']] == ['0 of 1', None, None]
    for one, (_, other, *counts, per_gradient, least, _, _) in zip(
        peers, beside['rows'], strict=True
    ):
        assert (other, counts) == (one['sampler'], [1, 0, 0, 0])
        assert per_gradient == least == ours['ess_per_gradient'] / one['ess_per_gradient']


def test_robustness_side_by_side_counts_pairs_of_runs():
    def runs(sampler, verdicts, figure):
        return [
            {
                **dict(sampler=sampler, width=2.0, target=f'posterior {i}', seed=1),
                **dict(verdict=verdict, ess_per_gradient=figure[i], ess_per_second=figure[i] ** 2),
            }
            for i, verdict in enumerate(verdicts)
        ]

    mine = runs('sample', ['pass', 'pass', 'pass', 'fail', 'no reference', 'pass'], [6] * 6)
    other = runs('NUTS', ['pass', 'pass', 'fail', 'pass', 'pass', 'pass'], [1, 2, 1, 1, 1, 3])
    settings = {'samplers': ['sample', 'NUTS'], 'widths': [2.0, 20.0]}
    table = tables.side_by_side(mine + other, settings)
    near, wide = table.rows
    assert near == ['2', 'NUTS', 3, 1, 1, 0, 3.0, 2.0, 9.0, 4.0]
    assert wide == ['20', 'NUTS', 0, 0, 0, 0, None, None, None, None]


def test_robustness_of_a_sampler_that_does_not_end(tmp_path, monkeypatch):
    """It fails, and what others have found is kept."""

    def run(module, case, name, max_seconds):
        if case['sampler'] == 'sample':
            raise fresh_process.TooLongError(f'{name}: {max_seconds}')
        figures = dict(max_rhat=1.001, largest_error=0.01, min_ess=900.0)
        rates = dict(num_gradients=50, ess_per_gradient=0.1, ess_per_second=7.0)
        which = {key: case[key] for key in ('target', 'width', 'sampler')}
        which |= {'d': 2, 'seed': 1, 'verdict': 'pass', 'is_warned': None}
        return {'runs': [{**which, **figures, **rates}]}

    monkeypatch.setattr(fresh_process, 'run', run)
    settings = ['only=banana', 'widths=2', 'seeds=1', 'samplers=sample,TFP windowed NUTS']
    _, record = _run(tmp_path, 'robustness', *settings)
    passes, beside, posteriors = record['tables']
    assert [row[2:] for row in passes['rows']] == [['1 of 1', None], ['0 of 1', None]]
    assert beside['rows'][0][2:6] == [0, 0, 1, 0]
    assert [row[4:7] for row in posteriors['rows']] == [
        ['no end', None, None],
        ['pass', None, '1.001'],
    ]


@pytest.mark.parametrize(
    ('error_of_reference', 'expected_z'), [(None, 8.0), ((0.02, 0.02), 0.2 / 0.032)]
)
def test_errors_of_means(error_of_reference, expected_z):
    """In deviations, and in standard errors of the draws and of the reference together."""
    draws = np.random.default_rng(5).normal(size=[400, 4, 2])
    states = draws - draws.mean(axis=(0, 1)) + [0.2, 0.0]
    exact = Moments(('a', 'b'), (0.0, 0.0), (2.0, 1.0), 'exact', error_of_reference)
    error, z = robustness_measure.errors_of_means(states, exact)
    assert error == pytest.approx(0.1)
    # 1,600 independent draws have a standard error of 0.025
    assert z == pytest.approx(expected_z, rel=0.15)


def test_a_mean_many_standard_errors_off_does_not_pass():
    draws = np.random.default_rng(6).normal(size=[10000, 4, 1])
    exact = Moments(('a',), (0.05,), (1.0,), 'exact')
    figures = dict(max_rhat=1.0, min_ess=4e4, num_gradients=1.0, seconds=1.0, is_warned=False)
    judge = robustness_measure._judge
    found = [
        judge(lambda _, off=off: robustness.Run(draws + off, **figures), 1, {}, exact)
        for off in (0.0, 0.05)
    ]
    assert [one['verdict'] for one in found] == ['fail', 'pass']
    assert found[0]['largest_error'] < 0.1
    assert found[0]['largest_z'] > 5 > found[1]['largest_z']


@pytest.mark.slow
def test_robustness_references_compiled(tmp_path):
    """A short run finds the kept means within its own standard errors."""
    folder, record = _run(
        tmp_path,
        'robustness_references',
        'only=raw units 1e3',
        'num_warmup_steps=1000',
        'num_results=2000',
        'nuts_warmup_steps=200',
        'nuts_results=500',
        'seed=11',
    )
    [found] = json.loads((folder / 'references.json').read_text()).values()
    kept = references.reference('raw units 1e3', POSTERIORS['raw units 1e3']())
    error = np.abs(np.subtract(found['mean'], kept.mean))
    assert np.all(error < 5 * np.asarray(found['standard_error']))
    assert np.all(error > 0)
    [row] = record['tables'][0]['rows']
    assert row[-1] == 'yes'
    assert 'confirmed by NUTS' in found['source']
    middle, low, high = (np.asarray(found[f'quantile_{share}']) for share in (0.5, 0.05, 0.95))
    assert np.all((low < middle) & (middle < high))
    # of a posterior that is close to normal
    spread = (high - low) / (2 * 1.645 * np.asarray(found['sd']))
    np.testing.assert_allclose(spread, 1, atol=0.05)
    assert np.all(np.asarray(found['quantile_0.5_standard_error']) > 0)


def test_nuts_contradicts_other_means_once_it_has_converged():
    same, other = (
        confirmation.Confirmation(1.005, 900.0, 2.0),
        confirmation.Confirmation(1.0, 9e3, 8),
    )
    unsure = confirmation.Confirmation(1.2, 30.0, 8.0)
    found = [(one.confirms, one.contradicts) for one in (same, other, unsure)]
    assert found == [(True, False), (False, True), (False, False)]


@pytest.mark.slow
def test_pmmh_random_effects(tmp_path, monkeypatch):
    monkeypatch.setattr(
        pseudo_marginal.fresh_process, 'run', lambda module, case, name: pmmh.measure(**case)
    )
    short = [
        *('num_observations=5', 'num_particles=3', 'memory=3', 'proposals=pmMH0,LS', 'seeds=1'),
        *('num_chains=2', 'num_warmup_steps=8', 'num_results=24', 'correlations=0.5'),
    ]
    _, record = _run(tmp_path, 'pmmh_random_effects', *short)
    [table] = record['tables']
    assert [row[:2] for row in table['rows']] == [['0.5', 'pmMH0'], ['0.5', 'LS']]
    # a quasi-Newton step takes two estimates, and there is one at the start
    for run, estimates in zip(record['runs'], (1, 2), strict=True):
        count = run['min_ess'] / run['ess_per_estimate'] / 2
        assert count == pytest.approx(1 + 24 * estimates)


def test_pseudo_marginal_seeds_that_are_done_are_not_run_again(tmp_path, monkeypatch):
    called = []

    def run(module, case, name):
        called.append((case['seed'], case['settings']['rho']))
        if called == [(1, 0.5), (2, 0.5)]:
            raise ExperimentError('killed')
        return {'runs': [case['seed']]}

    def every_seed(rho):
        settings = {'seeds': [1, 2], 'rho': rho}
        return pseudo_marginal.every_seed('module', settings, tmp_path, progress=False)

    monkeypatch.setattr(pseudo_marginal.fresh_process, 'run', run)
    with pytest.raises(ExperimentError, match='killed'):
        every_seed(0.5)
    assert every_seed(0.5) == [1, 2]
    assert called == [(1, 0.5), (2, 0.5), (2, 0.5)]
    # until the record is there: what comes in between may fail as well
    assert every_seed(0.5) == [1, 2]
    assert len(called) == 3
    parts = tmp_path / fresh_process.PARTS
    for path in parts.iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), 'seconds': 7.0}))
    assert fresh_process.seconds_of_parts(tmp_path) == 14.0
    # what other settings or another state of the code have left is not taken for theirs
    other = {'case': {'seed': 1}, 'code': records.code_digest(), 'runs': [7], 'seconds': 1.0}
    older = {
        'case': {'settings': {'seeds': [1, 2], 'rho': 0.9}, 'seed': 2},
        **{'code': '', 'runs': [8], 'seconds': 1.0},
    }
    (parts / 'seed-1.json').write_text(json.dumps(other))
    (parts / 'seed-2.json').write_text(json.dumps(older))
    assert every_seed(0.9) == [1, 2]
    (parts / 'seed-2.json').write_text(json.dumps({**older, 'code': records.code_digest()}))
    assert every_seed(0.9) == [1, 8]
    fresh_process.forget_parts(tmp_path)
    assert not list(tmp_path.iterdir())


_SHORT_LEVERAGE = [
    *('num_observations=4', 'num_particles=3', 'lag=2', 'memory=3', 'seeds=1', 'num_chains=2'),
    *('num_results=24', 'correlations=0.5', 'exact_warmup_steps=100', 'exact_results=20'),
]


def _volatility(tmp_path, monkeypatch, *settings):
    measure = volatility.measure
    monkeypatch.setattr(
        pseudo_marginal.fresh_process, 'run', lambda module, case, name: measure(**case)
    )
    _, record = _run(tmp_path, 'pmmh_volatility', *_SHORT_LEVERAGE, *settings)
    return record['tables'][0]['rows'], record['runs']


@pytest.mark.slow
def test_pmmh_volatility(tmp_path, monkeypatch):
    short = [*('proposals=pmMH0,LS', 'num_warmup_steps=60', 'peer_results=24,24,12', 'data=sp500')]
    rows, runs = _volatility(tmp_path, monkeypatch, *short)
    names = ['TFP', 'BlackJAX', 'particles']
    assert [row[:2] for row in rows] == [
        ['-', 'exact density'],
        *(['0', name] for name in names),
        *(['0.5', name] for name in ('pmMH0', 'LS')),
    ]
    # a step of LS takes two estimates, and its start one
    assert runs[2]['min_ess'] / runs[2]['ess_per_estimate'] == pytest.approx(2 * (1 + 24 * 2))
    for run, size in zip(runs[-3:], (24, 24, 12), strict=True):
        assert run['min_ess'] / run['ess_per_estimate'] == pytest.approx(2 * size)
        assert run['max_z'] > 0


@pytest.mark.slow
def test_pmmh_higgs(tmp_path, monkeypatch):
    monkeypatch.setattr(
        pseudo_marginal.fresh_process, 'run', lambda module, case, name: pmmh_higgs.measure(**case)
    )
    short = [
        *('num_observations=600', 'published_rows=30', 'num_rows=60', 'memory=3', 'seeds=1'),
        *('proposals=pmMH0,LS', 'num_warmup_steps=8', 'num_results=24', 'num_matrices=3'),
        *('reference_warmup_steps=8', 'reference_results=8', 'memories=4,40'),
    ]
    _, record = _run(tmp_path, 'pmmh_higgs', *short)
    chains, hessians = record['tables']
    assert [[row[0], row[2]] for row in chains['rows']] == [
        ['all rows, 600', 'tfpa.sample'],
        *(['as_published, 30', name] for name in ('pmMH0', 'LS')),
        *(['difference, 60', name] for name in ('pmMH0', 'LS')),
    ]
    assert [row[:2] for row in hessians['rows']] == [
        [mode, memory] for mode in ('as_published', 'difference') for memory in (4, 40)
    ]
    column = hessians['columns'].index('sr1, isotropic')
    # with more pairs than coordinates and little noise a rank-one update finds the Hessian
    few, many = (row[column] for row in hessians['rows'][2:])
    assert many < few / 3


def test_pmmh_higgs_compares_with_all_rows(rng):
    """Draws with three times the spread, and a mean two standard deviations off."""
    reference = rng.normal(size=[50, 2, 3])
    reference = (reference - reference.mean(axis=(0, 1))) / reference.std(axis=(0, 1))
    row = pmmh_higgs._row('difference', 'LS', 0.5, {}, 3 * reference + [0, 2, 0], reference)
    assert row['relative_sd'] == pytest.approx(3)
    assert row['max_error'] == pytest.approx(2)


@pytest.mark.parametrize('method', ['bfgs', 'ls'])
def test_pmmh_higgs_takes_matrices_from_the_states_before_the_last(method, rng):
    first = np.eye(2)
    states, scores = rng.normal(size=[2, 4, 9, 2])
    values = rng.normal(size=[4, 9])

    def matrices():
        return pmmh_higgs._matrices(method, 5, states, scores, values, first)

    before = matrices()
    for last in (8, 3):  # the next state, and one beyond the memory
        states[:, last] += 1
        np.testing.assert_array_equal(matrices(), before)
    states[:, 4] += 1
    assert np.all(np.any(matrices() != before, axis=(-2, -1)))


@pytest.mark.parametrize(
    ('setting', 'words'),
    [('data=lhc', 'data'), ('num_rows=7', '7 rows'), ('estimates=plain', 'estimates')],
)
def test_pmmh_higgs_refuses(tmp_path, capsys, setting, words):
    arguments = ['run', 'pmmh_higgs', '--set', setting, '--output', str(tmp_path)]
    assert cli.main(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_pmmh_pictures(tmp_path):
    short = [
        *('num_observations=6', 'line_places=5', 'num_particles=2,30', 'num_results=60'),
        *('timed_particles=4', 'timed_observations=5', 'peers=TFP'),
    ]
    folder, record = _run(tmp_path, 'pmmh_pictures', *short)
    assert (folder / 'estimates.png').stat().st_size > 10_000
    acceptance, times = record['tables']
    few, many, correlated_few, _ = (row[3] for row in acceptance['rows'])
    assert few > many
    assert few > correlated_few
    assert [row[:2] for row in times['rows']] == [[6, 4], [5, 30]]


def test_correlated_noise_smooths_the_line():
    """On a line of a single place, where all that changes is the noise."""
    settings = {
        **{'line': [2.0, 2.0], 'line_places': 300, 'line_particles': 10, 'seed': 1},
        'correlations': [0.0, 0.99],
    }
    line = pictures._along_a_line(pictures.leverage.simulated(20, 1), settings)
    spreads = {name: np.std(line[name]) for name in ('independent', 'correlated')}
    jumps = {name: np.std(np.diff(line[name])) for name in spreads}
    assert jumps['independent'] > spreads['independent']
    assert jumps['correlated'] < spreads['correlated'] / 2
    assert spreads['correlated'] > spreads['independent'] / 3


@pytest.mark.parametrize('setting', ['data=bitcoin', 'proposals=LS', 'peers=JAX', 'peer_results=3'])
def test_pmmh_volatility_refuses(tmp_path, capsys, setting):
    arguments = ['run', 'pmmh_volatility', '--set', setting, '--output', str(tmp_path)]
    assert cli.main(arguments) == 2
    assert setting.split('=')[0] in capsys.readouterr().err


@pytest.mark.slow
def test_gradient_adaptive(tmp_path):
    """The exact method only as published, adaptive Metropolis in either setting."""
    short = ['num_warmup_steps=8', 'num_results=8', 'default_warmup_steps=6', 'default_results=4']
    chosen = ['methods=exact,adaptive_metropolis', 'only=neal', 'seeds=1,2']
    _, record = _run(tmp_path, 'gradient_adaptive', *short, *chosen)
    comparison, efficiency = record['tables']
    here, authors, _, own = comparison['rows']
    assert here[1:3] == ['exact', 'here']
    assert authors[2] == "authors' code"
    assert own[1:3] == ['adaptive_metropolis', 'here']
    runs = record['runs'][::2]
    settings = [(run['method'], run['setting']) for run in runs]
    assert settings == [
        *(('exact', 'published'), ('adaptive_metropolis', 'published')),
        ('adaptive_metropolis', 'default'),
    ]
    assert [row[1:3] for row in efficiency['rows']] == [list(pair) for pair in settings]
    for run, share in zip(runs[1:], (8 / 16, 4 / 10), strict=True):
        assert run['entropy_weight'] is None
        assert run['ess_per_evaluation_in_all'] == pytest.approx(share * run['ess_per_evaluation'])


def test_gradient_adaptive_refuses_an_unknown_method(tmp_path, capsys):
    assignments = ['--set', 'methods=slow', 'only=neal', '--output', str(tmp_path)]
    assert cli.main(['run', 'gradient_adaptive', *assignments]) == 2
    assert 'methods=slow names no method; there are fast, exact' in capsys.readouterr().err


@pytest.mark.slow
def test_objectives(tmp_path):
    short = ['num_leapfrog_steps=1,2', 'only=process-51', 'seeds=1,2', 'learning_rate=0.01']
    short += ['energy_gradients=fast', 'objectives=jump_distance,l2hmc']
    _, record = _run(tmp_path, 'objectives', *_SHORT, *short)
    [table] = record['tables']
    assert [row[:4] for row in table['rows']] == [
        ['process-51', length, objective, 'fast']
        for length in (1, 2)
        for objective in ('jump_distance', 'l2hmc')
    ]
    for first, other in (table['rows'][:2], table['rows'][2:]):
        assert first[-1] == 1
        assert other[-1] == pytest.approx(other[4] / first[4])
    assert len(record['runs']) == 8


@pytest.mark.parametrize('assignment', ['objectives=speed', 'energy_gradients=slow'])
def test_objectives_refuses_what_it_does_not_know(tmp_path, capsys, assignment):
    arguments = ['run', 'objectives', '--output', str(tmp_path), '--set', assignment]
    assert cli.main(arguments) == 2
    assert f'{assignment} is not known; there are' in capsys.readouterr().err


def test_defaults_cover_at_least_eight_targets():
    assert len(config.load('defaults').targets) >= 8


@pytest.mark.slow
def test_limits(tmp_path):
    labels = ['two modes']
    folder, record = _run(tmp_path, 'limits', *_SHORT, 'seeds=1,2', f'only={",".join(labels)}')
    [table] = record['tables']
    assert [row[0] for row in table['rows']] == labels
    assert [(run['target'], run['seed']) for run in record['runs']] == [
        (label, seed) for label in labels for seed in (1, 2)
    ]
    assert all(run['warnings'] for run in record['runs'])
    assert (folder / 'limits.png').stat().st_size > 10_000


@pytest.mark.slow
def test_reparameterization(tmp_path):
    _, record = _run(tmp_path, 'reparameterization', *_SHORT, 'seeds=1,2', 'only=eight schools')
    [table] = record['tables']
    assert [row[:2] for row in table['rows']] == [['eight schools', 'yes'], ['eight schools', 'no']]
    own, plain = record['runs'][::2]
    assert (own['reparameterize'], plain['reparameterize']) == (True, False)
    # what it takes to find the coordinates
    assert own['num_gradients'] > plain['num_gradients'] + 51
    assert table['rows'][0][-1] == own_share(record['runs'])


def own_share(runs):
    """Of efficiencies, medians over seeds."""
    values = [run['ess_per_gradient'] for run in runs]
    return np.median(values[:2]) / np.median(values[2:])


@pytest.mark.parametrize('label', joint_distributions.MODELS)
def test_joint_distributions_have_parts_that_others_change(label):
    target = joint_distributions.MODELS[label]()
    places = places_that_others_change(target, from_distribution(target))
    depends = any(place is not None for place in places)
    assert depends == (label not in joint_distributions.OF_CONSTANTS)


@pytest.mark.slow
def test_gradient_free_proposals(tmp_path):
    folder, record = _run(tmp_path, 'gradient_free_proposals', 'num_warmup_steps=200')
    assert (folder / 'proposals.png').stat().st_size > 10_000
    spreads = {}
    for kernel, _, *deviations in record['tables'][0]['rows']:
        spreads.setdefault(kernel, []).append(deviations)
    fixed, learned, embedded = spreads.values()
    assert fixed == [[1.0, 1.0]] * 5
    assert learned == [learned[0]] * 5
    assert np.ptp(embedded, axis=0).min() > 0.1


_SHORT_CYCLES = [
    *('seeds=1,2', 'num_chains=4', 'num_warmup_evaluations=40', 'num_evaluations=40'),
    *('num_steps_per_cycle=10', 'subsample_size=3', 'cyclical_subsample_size=4', 'num_marks=2'),
]


@pytest.mark.parametrize(
    ('name', 'num_samplers', 'more'),
    [
        pytest.param('ckam_bimodal', 10, [], marks=pytest.mark.slow),
        pytest.param('ckam_five_modes', 1, ['samplers=cKAM as published'], marks=pytest.mark.slow),
        ('ckam_hypercube', 1, ['samplers=cKAM finite', 'num_dims=5']),
    ],
)
def test_cyclical(tmp_path, name, num_samplers, more):
    folder, record = _run(tmp_path, name, *_SHORT_CYCLES, *more)
    assert len(record['runs']) == 2 * num_samplers
    assert all(0 < run['kl'][-1] < 50 and run['ess_per_evaluation'] > 0 for run in record['runs'])
    [table] = record['tables']
    assert [row[0] for row in table['rows']] == [run['sampler'] for run in record['runs'][::2]]
    assert (folder / f'{name}.png').stat().st_size > 10_000


@pytest.mark.slow
def test_adaptation_pictures(tmp_path):
    lengths = ('num_warmup_steps=300', 'num_results=300', 'num_tuning_steps=20')
    into = tmp_path / 'docs'
    output = tmp_path / 'results'
    folder, record = _run(
        output, 'adaptation_pictures', *lengths, 'num_window_steps=120', f'into={into}', 'dpi=20'
    )
    (numbers,) = record['runs']
    assert numbers['num_draws'] == 1200
    assert '{' not in (folder / 'adaptation.md').read_text()
    assert (into / 'adaptation.md').read_text() == (folder / 'adaptation.md').read_text()
    assert len(list((into / 'adaptation').glob('*.png'))) == 12
    assert len(list((into / 'adaptation').glob('*.gif'))) == 12
