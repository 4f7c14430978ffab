"""What is shown while a run goes on, and what it costs."""

import sys
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tfp_adaptive.sampling.running import progress
from tfp_adaptive.sampling.running.running_rhat import RunningRhat, rhat_figures


def rhat_of(draws):
    """Split R-hat, largest over coordinates, of draws [n, C, D] (Gelman et al. 2013, 11.4)."""
    half = len(draws) // 2
    halves = np.concatenate([draws[:half], draws[half:]], axis=1)
    within = halves.var(axis=0, ddof=1).mean(axis=0)
    between = half * halves.mean(axis=0).var(axis=0, ddof=1)
    return np.sqrt(((half - 1) / half * within + between / half) / within).max()


def running(draws, chunk):
    rhat = RunningRhat(batch_rank=1)
    for first in range(0, len(draws), chunk):
        rhat.update([draws[first : first + chunk]])
    return rhat.value()


@pytest.mark.parametrize('chunk', [1, 7, 64, 512])
def test_running_rhat_is_that_of_the_draws(chunk, rng):
    """512 draws fill whole blocks however they are cut, so that the halves are the same."""
    draws = rng.normal(size=[512, 4, 3]) + rng.normal(size=[4, 3])
    np.testing.assert_allclose(running(draws, chunk), rhat_of(draws), rtol=1e-6)


def test_running_rhat_of_drifting_chains(rng):
    """Chains that agree with one another, but not with themselves an hour ago."""
    draws = np.linspace(0, 5, 1024)[:, None, None] + rng.normal(size=[1024, 4, 2])
    np.testing.assert_allclose(running(draws, 100), rhat_of(draws), rtol=0.1)
    assert running(draws, 100) > 1.4


def test_running_rhat_of_any_shape(rng):
    draws = rng.normal(size=[256, 2, 3, 5])
    matrix = draws.reshape([256, 6, 5])
    rhat = RunningRhat(batch_rank=2)
    rhat.update([draws[..., :2], draws[..., 2:]])
    np.testing.assert_allclose(rhat.value(), running(matrix, 256), rtol=1e-12)
    alone = RunningRhat(batch_rank=0)
    alone.update([draws[:, 0, 0]])
    np.testing.assert_allclose(alone.value(), running(matrix[:, :1], 256), rtol=1e-12)


def test_running_rhat_leaves_out_what_does_not_move(rng):
    draws = rng.normal(size=[64, 4, 2])
    constant = np.concatenate([draws, np.ones([64, 4, 1])], axis=-1)
    np.testing.assert_allclose(running(constant, 64), running(draws, 64), rtol=1e-12)
    assert running(np.ones([64, 4, 1]), 64) is None
    assert running(draws[:1], 1) is None


def test_running_rhat_is_cheap_on_any_state(rng):
    """Less than 2 % of the fifth of a second between two updates, on large states too."""
    for event_size, num_rows in ((25, 1000), (2519, 100)):
        chunk = rng.normal(size=[num_rows, 10, event_size]).astype(np.float32)
        figures, seconds = rhat_figures(1, batch_rank=1), []
        for _ in range(30):
            before = time.process_time()
            figures([chunk])
            seconds.append(time.process_time() - before)
        assert min(seconds) < 0.02 * 0.2


def gaussian(q):
    return -tf.reduce_sum(tf.square(q), axis=-1) / 2


def run(**settings):
    return tfpa.sample(
        gaussian,
        300,
        100,
        initial_state=tf.zeros([4, 2]),
        kernel=tfp.mcmc.RandomWalkMetropolis,
        seed=1,
        jit_compile=False,
        **settings,
    )


@pytest.mark.filterwarnings('ignore::tfp_adaptive.sampling.SamplingWarning')
class TestLines:
    def test_say_phase_rate_acceptance_and_rhat(self, capsys):
        run()
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == 'warm-up: compiling'
        assert lines[-1].startswith('sampling: 300/300 steps, ')
        assert ' steps/s, acceptance 0.' in lines[-1]
        assert ', R-hat 1.' in lines[-1]
        run()
        assert 'compiling' not in capsys.readouterr().err

    def test_are_off(self, capsys):
        run(progress=False)
        captured = capsys.readouterr()
        assert captured.err == captured.out == ''

    def test_need_no_tqdm(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
        monkeypatch.setitem(sys.modules, 'tqdm', None)
        with pytest.warns(UserWarning, match='needs tqdm: pip install'):
            run()
        assert '300/300 steps' in capsys.readouterr().err


@pytest.mark.filterwarnings('ignore::tfp_adaptive.sampling.SamplingWarning')
def test_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    run()
    shown = capsys.readouterr().err
    for text in ('warm-up', 'sampling: 100%', '300/300', 'step/s', 'acceptance=0.', 'R-hat=1.'):
        assert text in shown


def test_bar_goes_on_where_another_run_stopped(capsys, monkeypatch):
    """The rate counts the steps of this run alone, the bar all."""
    monkeypatch.setattr(progress, '_wants_bar', lambda: True)
    with progress.make_reporter('sampling', 1000, True) as report:
        report.compiling()
        report.begin(900)
        time.sleep(0.1)
        assert report.is_due(950)
        report.advance(950, {})
        report.extend(2000)
        assert not report.is_due(951)
        assert report.is_due(2000)
    shown = capsys.readouterr().err
    assert '(compiling)' in shown
    assert '950/2000' in shown
    (rate,) = {float(text.split('step/s')[0].split()[-1]) for text in shown.split('\r')[-1:]}
    assert rate < 1000
