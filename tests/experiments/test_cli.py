"""The command line, from arguments to exit status."""

import pytest

from experiments import cli
from experiments import config as configs


def test_list_shows_every_experiment(capsys):
    assert cli.main(['list']) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in configs.names())


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['run', 'nothing'], "no experiment 'nothing'"),
        (['run', 'gaussian', '--set', 'sede=1'], 'Did you mean seed?'),
        (['run', 'defaults', '--set', 'only=nobody', '--no-progress'], 'only=nobody names no'),
        (['run', 'gaussian', '--set', 'kind=cauchy'], 'kind must be one of'),
        (['report'], 'run an experiment first'),
    ],
)
def test_errors_are_one_sentence(arguments, message, capsys, tmp_path):
    assert cli.main([*arguments, *(['--output', str(tmp_path)])]) == 2
    error = capsys.readouterr().err
    assert error.startswith('error: ')
    assert message in error
    assert error.count('\n') == 1


def test_settings_may_follow_one_set_or_many(monkeypatch, tmp_path):
    seen = []

    def run(config, output, progress):
        seen.append((config.settings, output, progress))
        raise configs.ConfigError('seen enough')

    monkeypatch.setattr('experiments.runner.run', run)
    arguments = ['--set', 'seed=7', 'nuts=true', '--set', 'num_results=9', '--no-progress']
    assert cli.main(['run', 'gaussian', *arguments, '--output', str(tmp_path)]) == 2
    [(settings, output, progress)] = seen
    assert (settings['seed'], settings['nuts'], settings['num_results']) == (7, True, 9)
    assert output == tmp_path
    assert progress is False


def test_no_command_is_misuse():
    with pytest.raises(SystemExit):
        cli.main([])
