"""Runs in ArviZ: the schema, ArviZ's own figures and plots, files, and both of its containers."""

import datetime
import functools
import re
import sys
import types
import warnings

import arviz
import matplotlib as mpl
import numpy as np
import pytest
import xarray

import tfp_adaptive as tfpa
from tests.support import runs
from tfp_adaptive.sampling.running import thinning

NUM_RESULTS, NUM_CHAINS = 60, 4


@pytest.fixture(autouse=True)
def _no_window_and_no_warning():
    mpl.use('Agg')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        # of matplotlib, about what ArviZ calls
        warnings.simplefilter('ignore', category=DeprecationWarning)
        warnings.simplefilter('ignore', category=PendingDeprecationWarning)
        yield
    mpl.pyplot.close('all')


@pytest.fixture(name='states', scope='module')
def fixture_states():
    rng = np.random.default_rng(0)
    return {
        'mu': rng.standard_normal([NUM_RESULTS, NUM_CHAINS]),
        'w': rng.standard_normal([NUM_RESULTS, NUM_CHAINS, 2, 3]),
    }


def test_posterior_by_name_chain_and_draw(states):
    data = runs.run_of_draws(states).to_arviz(
        dims={'w': ['row', 'column']}, coords={'row': ['a', 'b']}
    )
    posterior = data['posterior']
    assert posterior['mu'].dims == ('chain', 'draw')
    assert posterior['w'].dims == ('chain', 'draw', 'row', 'column')
    picked = posterior['w'].sel(chain=2, draw=7, row='b', column=1)
    assert picked == states['w'][7, 2, 1, 1]


def test_sample_stats_and_warm_up_of_a_real_run():
    run = runs.gaussian_run()
    data = run.to_arviz()
    stats = data['sample_stats']
    np.testing.assert_array_equal(stats['lp'].transpose('draw', 'chain'), run.statistics.log_prob)
    np.testing.assert_allclose(stats['acceptance_rate'].mean(), run.diagnostics.accept_prob, 1e-5)
    assert stats['diverging'].dtype == bool
    assert stats['diverging'].sum() == run.diagnostics.num_divergences
    np.testing.assert_array_equal(stats['n_steps'], 2)
    warmup = data['warmup_sample_stats']
    assert warmup['entropy_weight'].dims == ('chain', 'draw')
    for chain in range(runs.NUM_CHAINS):
        np.testing.assert_array_equal(
            warmup['entropy_weight'][chain], run.warmup_trace.entropy_weight
        )
    for group in (data['posterior'], stats, warmup):
        assert group.attrs['inference_library'] == 'tfp_adaptive'
        assert group.attrs['tuning_steps'] == runs.NUM_WARMUP_STEPS
        datetime.datetime.fromisoformat(group.attrs['created_at'])


def test_every_draw_has_as_many_steps_where_earlier_draws_were_thrown_away(monkeypatch):
    missing = iter([10.0, 1.0])
    monkeypatch.setattr(thinning, 'shortfall', lambda *arguments: next(missing))
    run = runs.gaussian_run.__wrapped__()
    count = int(re.search(r'one every (\d+) steps', run.stop_reason)[1])
    np.testing.assert_array_equal(run.to_arviz()['sample_stats']['n_steps'], 2 * count)


def test_steps_whose_number_is_drawn():
    kernel = functools.partial(tfpa.WindowedHMC, num_leapfrog_steps=[1, 2, 7])
    run = runs.gaussian_run(kernel=kernel)
    counts = np.concatenate([[1], run.statistics.num_gradients])
    assert len(set(np.diff(counts))) == 3
    for steps in run.to_arviz()['sample_stats']['n_steps']:
        np.testing.assert_array_equal(steps, np.diff(counts))


def test_steps_of_a_frozen_kernel_with_a_warm_up():
    kernel = runs.gaussian_run().frozen_kernel
    run = runs.gaussian_run(kernel=kernel)
    np.testing.assert_array_equal(run.to_arviz()['sample_stats']['n_steps'], 2)


@pytest.mark.parametrize('batch_shape', [(), (1,), (2, 3)])
def test_chain_dimensions_become_one(rng, batch_shape):
    states = rng.standard_normal([NUM_RESULTS, *batch_shape, 2])
    run = runs.run_of_draws(states, len(batch_shape))
    posterior = run.to_arviz()['posterior']
    flat = states.reshape([NUM_RESULTS, -1, 2])
    np.testing.assert_array_equal(posterior['x'].transpose('draw', 'chain', 'x_dim_0'), flat)


def test_its_figures_are_ours():
    """ArviZ's summary of the exported run against the run's own."""
    run = runs.gaussian_run()
    theirs, ours = arviz.summary(run.to_arviz(), round_to='none'), run.summary().columns
    assert list(theirs.index) == list(run.summary().names)
    np.testing.assert_allclose(theirs['mean'], ours['mean'], rtol=1e-4)
    np.testing.assert_allclose(theirs['r_hat'], ours['rhat'], rtol=1e-6)
    # another estimator of the same quantity
    np.testing.assert_allclose(theirs['mcse_mean'], ours['mcse'], rtol=0.25)


@pytest.mark.parametrize(
    'plot',
    ['trace', 'rank', 'posterior', 'pair', 'autocorr', 'forest', 'ess', 'mcse', 'parallel'],
)
def test_its_plots_draw(plot):
    axes = getattr(arviz, f'plot_{plot}')(runs.gaussian_run().to_arviz())
    figure = np.ravel(axes)[0].figure
    assert any(ax.has_data() for ax in figure.axes)


def test_its_converters_take_the_run():
    data = runs.gaussian_run().to_arviz()
    assert arviz.convert_to_inference_data(data) is data
    assert arviz.extract(data)['x'].shape == (2, runs.NUM_CHAINS * runs.NUM_RESULTS)
    assert arviz.concat(data, arviz.from_dict(prior={'x': np.zeros([1, 1, 2])})).groups()


def test_a_file_keeps_everything(tmp_path):
    data = runs.gaussian_run().to_arviz()
    path = str(tmp_path / 'run.nc')
    data.to_netcdf(path)
    back = arviz.from_netcdf(path)
    assert set(back.groups()) == {'posterior', 'sample_stats', 'warmup_sample_stats'}
    for group in back.groups():
        xarray.testing.assert_identical(back[group].load(), data[group])
    assert back.attrs == data.attrs


def test_arviz_1_gets_a_data_tree(tmp_path, monkeypatch):
    """ArviZ 1 has no InferenceData and works on trees."""
    monkeypatch.setitem(sys.modules, 'arviz', types.ModuleType('arviz'))
    data = runs.gaussian_run().to_arviz()
    assert isinstance(data, xarray.DataTree)
    assert set(data.children) == {'posterior', 'sample_stats', 'warmup_sample_stats'}
    path = tmp_path / 'run.nc'
    data.to_netcdf(path, engine='h5netcdf')
    with xarray.open_datatree(path, engine='h5netcdf') as back:
        xarray.testing.assert_identical(back.load(), data)


def test_without_arviz_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, 'arviz', None)
    with pytest.raises(ImportError, match=r'pip install "tfp_adaptive\[arviz\]"'):
        runs.gaussian_run().to_arviz()


@pytest.mark.parametrize(
    ('dims', 'coords', 'message'),
    [
        ({'v': ['k']}, {}, "`dims` names 'v', which is no part of the state; these are: mu, w"),
        ({'w': ['k']}, {}, r"`dims` must give 'w' one name for each of its 2 event dimensions"),
        ({'w': ['k', 'k']}, {}, "`dims` must name each dimension of 'w' once"),
        ({'w': ['k', 'l']}, {'l': ['a']}, "`coords` must hold 3 labels for 'l'; got 1"),
        ({}, {'w_dim_1': ['a', 'b']}, "`coords` must hold 3 labels for 'w_dim_1'; got 2"),
        ({}, {'k': ['a']}, "`coords` names 'k', which is no dimension; these are: chain, draw"),
        ({'w': ['chain', 'k']}, {}, "`dims` must name each dimension of 'w' once, and not 'chain'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(states, dims, coords, message):
    with pytest.raises(ValueError, match=message):
        runs.run_of_draws(states).to_arviz(dims=dims, coords=coords)


def test_chains_have_their_labels_in_every_group():
    run = runs.gaussian_run()
    labels = [f'chain {i}' for i in range(runs.NUM_CHAINS)]
    data = run.to_arviz(coords={'chain': labels})
    for group in ('posterior', 'sample_stats', 'warmup_sample_stats'):
        assert list(data[group]['chain'].values) == labels


def test_a_name_for_dimensions_of_two_sizes_is_refused(rng):
    run = runs.run_of_draws({'a': rng.normal(size=[20, 4, 2]), 'b': rng.normal(size=[20, 4, 3])})
    with pytest.raises(ValueError, match="'k' would have sizes 2 and 3"):
        run.to_arviz(dims={'a': ['k'], 'b': ['k']})
