"""Experiments as files: every one loads, and overrides are typed."""

import pytest

from experiments import config as configs
from experiments.config import ConfigError
from experiments.targets import joint_distributions


@pytest.mark.parametrize('name', configs.names())
def test_every_experiment_loads(name):
    config = configs.load(name)
    assert config.description
    assert config.run_name == name
    # a job with a set of its own chooses from it by label; a page, or data, is a target of its own
    has_own = not config.settings.keys().isdisjoint({'only', 'into', 'dims', 'num_observations'})
    assert has_own or bool(config.target) != bool(config.targets)


def test_overrides_reach_settings_and_target():
    config = configs.load(
        'gaussian', ['kind=iid', 'num_dims=3', 'nuts=true', 'condition_number=10']
    )
    assert config.target['kind'] == 'iid'
    assert config.target['num_dims'] == 3
    assert config.target['condition_number'] == 10.0
    assert config.settings['nuts'] is True
    assert config.run_name == 'gaussian-condition_number=10.0-kind=iid-num_dims=3-nuts=true'


def test_an_override_by_the_same_value_is_no_change():
    assert configs.load('gaussian', ['num_dims=51']).run_name == 'gaussian'


def test_lists_are_separated_by_commas():
    config = configs.load('defaults', ['seeds=4,5', 'only=german,heart'])
    assert config.settings['seeds'] == [4, 5]
    assert config.settings['only'] == ['german', 'heart']


@pytest.mark.parametrize(
    ('assignment', 'message'),
    [
        ('num_dimz=3', r"no setting 'num_dimz'\. Did you mean num_dims\? Valid keys: .*kind"),
        ('num_dims=many', "num_dims must be of type int; got 'many'"),
        ('nuts=yes', "nuts must be true or false; got 'yes'"),
        ('num_dims', "--set needs key=value; got 'num_dims'"),
        ('num_results=0', 'num_results must be positive; got 0'),
        ('num_warmup_steps=-1', 'num_warmup_steps must be at least 0; got -1'),
        ('name=banana', "no setting 'name'"),
    ],
)
def test_mistakes_are_explained(assignment, message):
    with pytest.raises(ConfigError, match=message):
        configs.load('gaussian', [assignment])


@pytest.mark.parametrize(
    ('assignment', 'message'),
    [
        ('seeds=', 'seeds must hold at least one number'),
        ('seeds=1,1', 'seeds must hold each value once; got 1,1'),
        ('only=german,german', 'only must hold each value once'),
    ],
)
def test_mistakes_in_lists_are_explained(assignment, message):
    with pytest.raises(ConfigError, match=message):
        configs.load('defaults', [assignment])


def test_labels_can_be_written_in_a_list():
    """Commas separate; blanks around them are no part of a name."""
    for name in configs.names():
        labels = [options['label'] for options in configs.load(name).targets]
        if labels:
            config = configs.load(name, [f'only={", ".join(labels)}'])
            assert [label for label, _ in config.chosen_targets()] == labels
    assert not any(',' in label for label in joint_distributions.MODELS)


def test_unknown_experiment_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r'there are .*gaussian'):
        configs.load('gausian')


def test_a_run_with_many_labels_has_a_name_that_a_file_may_have():
    labels = [f'posterior number {i}' for i in range(40)]
    names = [
        configs.load('robustness', [f'only={",".join(chosen)}']).run_name
        for chosen in (labels, labels[1:], labels[:3])
    ]
    assert len(set(names)) == 3
    assert max(map(len, names)) <= 200
    assert names[2] == 'robustness-only=posterior number 0+posterior number 1+posterior number 2'
