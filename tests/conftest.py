"""Quiet TensorFlow, fixed seeds, and `--vary-seed N` to move all of them at once.

A test that fails for one seed in a hundred is a statistical test with a wrong tolerance; run the
suite with a few values of N before trusting a new one.
"""

import ctypes
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('MPLBACKEND', 'Agg')

import numpy as np
import pytest
import tensorflow as tf

tf.get_logger().setLevel('ERROR')

_BASE_SEED = 20211
_LIBC = ctypes.CDLL(None) if os.name == 'posix' else None


def pytest_addoption(parser):
    parser.addoption(
        '--vary-seed', type=int, default=0, metavar='N', help='shift the seed of every test by N'
    )


def pytest_configure(config):
    # runs of tests are short by design; the warnings themselves have a test of their own
    config.addinivalue_line('filterwarnings', 'ignore::tfp_adaptive.sampling.SamplingWarning')


_NOT_QUICK = {
    'test_arrive',
    'test_bijector',
    'test_cyclical_metropolis',
    'test_distribute',
    'test_energy_gradients',
    'test_export',
    'test_first_scale',
    'test_flow_gradients',
    'test_kernel_embedding',
    'test_kernel_functions',
    'test_particle_filter',
    'test_preconditioners',
    'test_pseudo_marginal',
    'test_russian_roulette',
    'test_subsampling',
}
"""Unit tests that compile too much for the minute of `-m quick`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Marks the quick tests, and groups all of them: those that share programs come together.

    Those are the tests of one kernel of the catalogue, and else those of one file; the pages of the
    documents share nothing. With `--dist loadgroup` of pytest-xdist a group has one process.
    """
    for item in items:
        is_unit = item.path.parent.name == 'unit' and item.path.stem not in _NOT_QUICK
        if is_unit and item.get_closest_marker('slow') is None:
            item.add_marker('quick')
    groups = {item: _group(item) for item in items}
    places = {group: place for place, group in enumerate(dict.fromkeys(groups.values()))}
    items.sort(key=lambda item: places[groups[item]])
    if config.pluginmanager.hasplugin('xdist'):
        for item, group in groups.items():
            item.add_marker(pytest.mark.xdist_group(group))


def _group(item):
    parameters = item.callspec.params if hasattr(item, 'callspec') else {}
    group = parameters['entry'].name if 'entry' in parameters else item.location[0]
    return parameters.get('page', group)


def pytest_runtest_teardown(item, nextitem):
    """Gives back what tracing and compiling leave unused: half of the memory of a long session."""
    if nextitem is None or _group(nextitem) != _group(item):
        _set_seed_of_tensorflow(item.config)
    if nextitem is None or nextitem.path != item.path:
        trim = getattr(_LIBC, 'malloc_trim', None)
        if trim is not None:
            trim(0)


def pytest_report_header(config):
    return f'vary-seed: {config.getoption("--vary-seed")}'


@pytest.fixture
def seed(request) -> int:
    """The seed of a test; the only source of randomness it should use."""
    return _BASE_SEED + request.config.getoption('--vary-seed')


@pytest.fixture
def stateless_seed(seed):
    """index -> a stateless seed, int32 [2]; another one for every index."""
    return lambda index=0: tf.constant([seed, index], tf.int32)


@pytest.fixture
def rng(seed) -> np.random.Generator:
    """NumPy noise."""
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def _fixed_global_seed(seed):
    """For what draws from NumPy's global state in spite of us, such as a library under test."""
    np.random.seed(seed)


@pytest.fixture(autouse=True)
def _no_trace_in_the_scope_of_variables():
    """What a test leaves there makes others fail, in whichever order they come."""
    yield
    assert tf.compat.v1.get_variable_scope().caching_device is None


@pytest.fixture(autouse=True, scope='session')
def _fixed_global_seed_of_tensorflow(request):
    """A test that draws from TensorFlow's global state must hold for any draws."""
    _set_seed_of_tensorflow(request.config)


def _set_seed_of_tensorflow(config):
    """Once a session and after each group of tests, not before each test.

    It makes TensorFlow forget every program that it has prepared to run. Preparing one again takes
    about a second, keeping all takes gigabytes.
    """
    tf.random.set_seed(_BASE_SEED + config.getoption('--vary-seed'))
