"""The table of a run: its figures, its order, its looks."""

import html
import re

import numpy as np
import pytest

from tests.support import runs

NUM_RESULTS, NUM_CHAINS = 400, 4


@pytest.fixture(name='states')
def fixture_states(rng):
    return {
        'w': rng.normal(3.0, 2.0, [NUM_RESULTS, NUM_CHAINS, 2, 3]).astype(np.float32),
        'b': rng.normal(0.0, 1e-3, [NUM_RESULTS, NUM_CHAINS]).astype(np.float32),
    }


def test_figures_are_those_of_numpy_in_the_order_of_the_names(states):
    run = runs.run_of_draws(states)
    summary = run.summary(quantiles=(0.1, 0.5))
    assert summary.names[:3] == ('b', 'w[0,0]', 'w[0,1]')
    w = states['w'].astype(np.float64)[..., 1, 2].ravel()
    row = {heading: column[-1] for heading, column in summary.columns.items()}
    assert summary.names[-1] == 'w[1,2]'
    assert list(row) == ['mean', 'mcse', 'sd', '10%', '50%', 'ess', 'ess_sq', 'rhat']
    np.testing.assert_allclose(
        [row['mean'], row['sd'], row['10%'], row['50%']],
        [w.mean(), w.std(ddof=1), *np.quantile(w, [0.1, 0.5])],
        rtol=1e-6,
    )
    np.testing.assert_allclose(row['mcse'], row['sd'] / np.sqrt(row['ess']))
    assert row['ess'] == run.diagnostics.ess['w'][1, 2]
    assert row['ess_sq'] == run.diagnostics.ess_of_squares['w'][1, 2]
    assert row['rhat'] == run.diagnostics.rhat['w'][1, 2]


def test_the_standard_error_is_that_of_the_mean(rng):
    """Means of many independent coordinates scatter by their standard errors."""
    summary = runs.run_of_draws(rng.standard_normal([NUM_RESULTS, NUM_CHAINS, 200])).summary()
    z = summary.columns['mean'] / summary.columns['mcse']
    # the mean square of 200 standard normals is 1 with a standard error of 0.1
    assert abs(np.mean(z**2) - 1) < 0.4


def test_blocks_change_nothing(states, monkeypatch):
    whole = runs.run_of_draws(states).summary()
    monkeypatch.setattr('tfp_adaptive.sampling.coordinates._BLOCK_BYTES', 1)
    blocks = runs.run_of_draws(states).summary()
    for heading, column in whole.columns.items():
        np.testing.assert_allclose(column, blocks.columns[heading], rtol=1e-6)


def test_text_has_a_row_a_coordinate_and_aligned_points(states):
    lines = str(runs.run_of_draws(states).summary()).splitlines()
    assert lines[0].startswith('4 chains of 400 draws, warm-up 2.0 s, sampling 3.0 s')
    header, *body = [line for line in lines[2:] if line and not line.startswith('Warning')]
    assert header.split() == ['mean', 'mcse', 'sd', '5%', '50%', '95%', 'ess', 'ess_sq', 'rhat']
    assert [line.split()[0] for line in body] == [
        'b',
        *(f'w[{i},{j}]' for i in (0, 1) for j in range(3)),
    ]
    # two digits of a standard error of 2 / sqrt(1600) and of 1e-3 / sqrt(1600)
    assert re.search(r' 0\.0[45]\d ', body[1])
    assert re.search(r' 0\.0000[12]\d ', body[0])
    assert len({line.index('.') for line in body}) == 1


def test_a_long_table_shows_the_worst_and_says_so(rng):
    states = rng.standard_normal([NUM_RESULTS, NUM_CHAINS, 2519]).astype(np.float32)
    states[:, 0, 1234] += 5
    states[:, 0, 77] += 2
    summary = runs.run_of_draws(states).summary(max_rows=3)
    text = str(summary)
    assert len(summary.columns['mean']) == len(summary.names) == 2519
    assert [line.split()[0] for line in text.splitlines()[3:5]] == ['x[1234]', 'x[77]']
    assert 'The 3 of 2,519 coordinates with the largest R-hat' in text
    assert len(text.splitlines()) < 12
    assert max(map(len, text.splitlines()[:6])) < 100


def test_html_shows_the_same_cells(states):
    run = runs.run_of_draws(states, names=['<b>', 'w'])
    page = run.summary()._repr_html_()
    assert page.count('<tr>') == 8
    assert html.escape('<b>') in page
    assert '<b>' not in page
    mean = str(run.summary()).splitlines()[4].split()[1]
    assert f'>{mean}<' in page


def test_parts_can_be_chosen(states):
    run = runs.run_of_draws(states)
    assert run.summary(['b']).names == ('b',)
    with pytest.raises(ValueError, match='`parts` must name parts of the state'):
        run.summary([['b']])
    with pytest.raises(ValueError, match='`parts` must name parts of the state, which are b, w; '):
        run.summary(['beta'])
    with pytest.raises(ValueError, match=r'`quantiles` must be a list of .* \[0, 1\]; got \[95\]'):
        run.summary(quantiles=[95])
    for quantiles in (0.5, '90%', ['5%']):
        with pytest.raises(ValueError, match=r'`quantiles` must be a list of numbers'):
            run.summary(quantiles=quantiles)
    with pytest.raises(ValueError, match=r'`max_rows` must be an int of at least 1; got 0'):
        run.summary(max_rows=0)


@pytest.mark.parametrize('batch_shape', [(), (2, 3)])
def test_any_number_of_chain_dimensions(rng, batch_shape):
    states = rng.standard_normal([50, *batch_shape, 2])
    summary = runs.run_of_draws(states, len(batch_shape)).summary()
    np.testing.assert_allclose(summary.columns['mean'], states.reshape([-1, 2]).mean(axis=0))
    assert re.match(rf'{int(np.prod(batch_shape))} chains? of 50 draws', str(summary))


def test_figures_that_do_not_exist_are_dashes():
    states = np.ones([3, NUM_CHAINS, 1])
    row = str(runs.run_of_draws(states).summary()).splitlines()[3].split()
    assert row == ['x[0]', '1.000', '-', '0.000', '1.000', '1.000', '1.000', '-', '-', '-']


def test_a_run_introduces_itself_in_a_few_lines(states):
    run = runs.run_of_draws(states, num_divergences=7)
    assert repr(run).splitlines() == [
        'SampleRun of b [], w [2, 3]',
        '4 chains of 400 draws, warm-up 2.0 s, sampling 3.0 s, acceptance 0.67, 7 divergences',
        '1 warning: see `warnings`',
    ]
    assert len(repr(runs.run_of_draws(states)).splitlines()) == 2
    assert '\n1 chain of 50 draws' in repr(runs.run_of_draws(np.random.normal(size=[50, 2]), 0))


def test_warnings_are_below_the_table(states):
    run = runs.run_of_draws(states, num_divergences=7)
    assert f'Warning: {run.warnings[0]}' in str(run.summary())
    assert '7 steps diverged' in run.warnings[0]
