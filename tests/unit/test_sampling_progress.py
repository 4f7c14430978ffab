"""What is shown while a run goes on, and what it costs."""

import sys
import time

import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tfp_adaptive.sampling.running import progress


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
    def test_say_phase_rate_and_acceptance(self, capsys):
        run()
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == 'warm-up: compiling'
        assert lines[-1].startswith('sampling: 300/300 steps, ')
        assert ' steps/s, acceptance 0.' in lines[-1]
        run()
        assert 'compiling' not in capsys.readouterr().err

    def test_are_off(self, capsys):
        run(progress=False)
        captured = capsys.readouterr()
        assert captured.err == captured.out == ''

    def test_need_no_tqdm(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
        monkeypatch.setitem(sys.modules, 'tqdm.auto', None)
        with pytest.warns(UserWarning, match='needs tqdm: pip install'):
            run()
        assert '300/300 steps' in capsys.readouterr().err


@pytest.mark.filterwarnings('ignore::tfp_adaptive.sampling.SamplingWarning')
def test_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    run()
    shown = capsys.readouterr().err
    for text in ('warm-up', 'sampling: 100%', '300/300', 'step/s', 'acceptance=0.'):
        assert text in shown


def test_bar_goes_on_where_another_run_stopped(capsys, monkeypatch):
    """The rate counts the steps of this run alone, the bar all."""
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    with progress.Progress('sampling', 1000, True) as report:
        report.compiling()
        report.begin(900)
        time.sleep(0.2)
        report.show(950, 1000, None)
        report.show(951, 2000, 0.5)
    shown = capsys.readouterr().err
    assert '(compiling)' in shown
    assert '950/1000' in shown
    assert '951/2000' in shown
    (rate,) = {float(text.split('step/s')[0].split()[-1]) for text in shown.split('\r')[-1:]}
    assert rate < 1000
