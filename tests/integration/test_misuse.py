"""Misuse of `sample`: one sentence that names the argument and the fix, and nothing is lost."""

import errno
import functools
import hashlib
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.contracts.comparisons import assert_identical

tfd, tfmc = tfp.distributions, tfp.mcmc

pytestmark = pytest.mark.filterwarnings('ignore::tfp_adaptive.sampling.SamplingWarning')

STATE = tf.ones([4, 2])


def gaussian(q):
    return -tf.reduce_sum(tf.square(q), axis=-1) / 2


def of_parts(mu, sigma):
    return gaussian(mu) - tf.square(sigma)


def make_hmc(log_prob):
    return tfmc.HamiltonianMonteCarlo(log_prob, step_size=0.3, num_leapfrog_steps=2)


def estimating(log_prob, **settings):
    """HMC whose masses are estimated."""
    variance = tfp.experimental.stats.RunningVariance.from_stats(10.0, tf.zeros([2]), tf.ones([2]))
    return tfp.experimental.mcmc.DiagonalMassMatrixAdaptation(
        tfp.experimental.mcmc.PreconditionedHamiltonianMonteCarlo(log_prob, 0.3, 2),
        initial_running_variance=variance,
        **settings,
    )


def run(target=gaussian, num_results=20, num_warmup_steps=10, num_chains=None, **settings):
    """A short run in graph mode."""
    settings = {
        'initial_state': STATE if not hasattr(target, 'event_shape') else None,
        'kernel': make_hmc,
        'seed': 1,
        'progress': False,
        'jit_compile': False,
        **settings,
    }
    return tfpa.sample(target, num_results, num_warmup_steps, num_chains, **settings)


class Method:
    """A model with a log-density that is not the model itself."""

    def log_prob(self, q):
        return gaussian(q)


class MixedChains:
    """A model of the form that those of Inference Gym have."""

    dtype, event_shape = tf.float32, tf.TensorShape([2])
    default_event_space_bijector = tfp.bijectors.Identity()

    def unnormalized_log_prob(self, q):
        return gaussian(q) - tf.reduce_sum(q)


def make_model(**pins):
    """Two free parts and five data, `AutoBatched`; names of its pins as given."""
    model = tfd.JointDistributionNamedAutoBatched(
        {
            'm': tfd.Normal(0.0, 1.0),
            's': tfd.HalfNormal(1.0),
            'y': lambda m, s: tfd.Sample(tfd.Normal(m, s), 5),
        }
    )
    return model.experimental_pin(**(pins or {'y': tf.zeros(5)}))


def generator(q):
    yield tfd.Normal(q, 1.0)


def with_numpy(q):
    return -np.sum(np.square(q), axis=-1)


def with_if(q):
    return gaussian(q) if q[0, 0] > 0 else 2 * gaussian(q)


def without_data(q):
    return gaussian(q) * {}['scale']


# what is wrong: (arguments of `run`, exception, what the message says: the argument and the fix)
COUNTS = {
    'no results': ({'num_results': 0}, ValueError, '`num_results` must be an int of at least 1'),
    'half a result': ({'num_results': 2.5}, ValueError, '`num_results` must be an int.*got 2.5'),
    'results as text': ({'num_results': '9'}, ValueError, "`num_results` must be an int.*got '9'"),
    'the state in their place': (
        {'num_results': STATE},
        ValueError,
        '`num_results` must be an int.*<tf.Tensor',
    ),
    'negative warm-up': ({'num_warmup_steps': -1}, ValueError, '`num_warmup_steps`.*at least 0'),
    'true warm-up': ({'num_warmup_steps': True}, ValueError, '`num_warmup_steps` must be an int'),
    'zero chains': ({'num_chains': 0}, ValueError, '`num_chains` must be an int of at least 1'),
    'thinning': (
        {'num_steps_between_results': -1},
        ValueError,
        '`num_steps_between_results` must be an int of at least 0; got -1',
    ),
    'other number of chains': (
        {'num_chains': 3},
        ValueError,
        '`num_chains` is 3.*`initial_state` holds 4 chains.*leave `num_chains` out',
    ),
}
OPTIONS = {
    'PyMC': ({'chains': 4}, TypeError, 'no argument `chains`: use `num_chains`'),
    'Stan': ({'iter_warmup': 4}, TypeError, 'no argument `iter_warmup`: use `num_warmup_steps`'),
    'TFP': ({'current_state': 4}, TypeError, 'no argument `current_state`: use `initial_state`'),
    'slip': ({'check_point': 'a.h5'}, TypeError, 'no argument `check_point`: use `checkpoint`'),
    'unheard of': ({'cores': 4}, TypeError, '`cores`: leave it out; there are `target`'),
    'seed as text': ({'seed': 'abc'}, TypeError, "`seed` must be an int.*'abc': pass.*seed=1"),
    'fractional seed': ({'seed': 1.5}, TypeError, '`seed` must be an int or a pair of ints'),
    'three seeds': ({'seed': [1, 2, 3]}, TypeError, r'`seed`.*\[1, 2, 3\]: pass.*seed=1'),
    'dtype of no kind': ({'dtype': 'float33'}, TypeError, '`dtype` must be tf.float32 or'),
    'integer dtype': ({'dtype': tf.int32}, TypeError, '`dtype` must be tf.float32 or.*tf.int32'),
    'progress': ({'progress': 'bar'}, TypeError, "`progress` must be True or False; got 'bar'"),
    'jit_compile': ({'jit_compile': None}, TypeError, '`jit_compile` must be True or False'),
    'reparameterize': ({'reparameterize': 1}, TypeError, '`reparameterize` must be True or False'),
    'until': ({'until': 1.01}, TypeError, '`until` must be a tfp_adaptive.Until.*max_rhat=1.01'),
    'until too soon': (
        {'until': tfpa.Until(max_steps=3)},
        ValueError,
        '`until` allows max_steps=3.*raise it, or lower `num_results`',
    ),
}
STATES = {
    'none': ({'initial_state': None}, ValueError, '`initial_state` is needed.*num_chains=10'),
    'integers': (
        {'initial_state': np.zeros([4, 2], int)},
        TypeError,
        '`initial_state`.*int64: pass dtype=tf.float32',
    ),
    'text': ({'initial_state': 'jitter'}, TypeError, '`initial_state`.*string: pass numbers'),
    'half precision': (
        {'initial_state': tf.zeros([4, 2], tf.float16)},
        TypeError,
        '`initial_state`.*float16: pass dtype=tf.float32',
    ),
    'nested lists': (
        {'initial_state': [[0.0, 0.0], [1.0, 1.0]]},
        TypeError,
        '`target`.*2 positional arguments, as `initial_state` asks.*pass one array',
    ),
    'ragged': (
        {'initial_state': tf.ragged.constant([[0.0], [0.0, 1.0]])},
        TypeError,
        r'`initial_state`.*RaggedTensor.*pass np.zeros\(\[num_chains',
    ),
    'empty': ({'initial_state': []}, TypeError, '`initial_state` holds no tensor; pass at least'),
    'without chains': (
        {'initial_state': tf.zeros([0, 2])},
        ValueError,
        '`initial_state` must hold at least one chain',
    ),
    'mixed dtypes': (
        {'target': of_parts, 'initial_state': [STATE, np.zeros(4)]},
        TypeError,
        '`initial_state` must share one dtype.*pass dtype=tf.float32',
    ),
    'keys': (
        {'target': of_parts, 'initial_state': {'mu': STATE, 'sgma': tf.zeros(4)}},
        TypeError,
        '`target`.*keywords mu, sgma, as `initial_state` asks.*a dict with a key for each',
    ),
    'numbers as keys': (
        {'target': of_parts, 'initial_state': {1: STATE, 2: tf.zeros(4)}},
        TypeError,
        '`initial_state` asks .keywords must be strings',
    ),
    'other chains in each part': (
        {'target': of_parts, 'initial_state': [STATE, tf.zeros(3)]},
        ValueError,
        '`target` fails on a state.*4 and 3.*change the shapes of `initial_state`',
    ),
    'chains and event swapped': (
        {'target': lambda q: gaussian(q @ tf.eye(2)), 'initial_state': tf.zeros([2, 4])},
        ValueError,
        r'`target`.*\(2, 4\).*\[\*chains, \*event\], or change the shapes of `initial_state`',
    ),
    'not a number': (
        {'initial_state': tf.fill([4, 2], np.nan)},
        ValueError,
        'not finite at `initial_state` for 4 of 4 chains.*start inside the support',
    ),
    'infinite': (
        {'initial_state': tf.constant([[0.0, 0.0], [0.0, np.inf]])},
        ValueError,
        r'not finite at `initial_state` for 1 of 2 chains, first for chain \(1,\).*start inside',
    ),
    'density of zero': (
        {'target': lambda q: tf.math.log(q[..., 0] - 1)},
        ValueError,
        'not finite at `initial_state` for 4 of 4.*start inside the support',
    ),
    'gradient at a kink': (
        {'target': lambda q: -tf.reduce_sum(tf.sqrt(tf.abs(q - 1)), -1)},
        ValueError,
        'its gradient is not finite at `initial_state`.*start inside',
    ),
}
DENSITIES = {
    'none': ({'target': None}, TypeError, '`target` must be a log-density callable.*NoneType'),
    'class': ({'target': Method}, TypeError, r'`target` is the class Method: pass an instance'),
    'class of distributions': ({'target': tfd.Normal}, TypeError, '`target` is the class Normal'),
    'method': ({'target': Method()}, TypeError, '`target`.*Method: pass its method `log_prob`'),
    'generator': ({'target': generator}, TypeError, '`target`.*JointDistributionCoroutineAuto'),
    'more arguments': (
        {'target': lambda q, data: gaussian(q - data)},
        TypeError,
        "`target` cannot be called with 1 positional argument.*'data'.*a list with an item",
    ),
    'returns nothing': (
        {'target': lambda q: None},
        TypeError,
        '`target` must return a tensor of log-densities, computed from.*NoneType',
    ),
    'returns a float': ({'target': lambda q: 1.0}, TypeError, '`target` must return a tensor.*flo'),
    'returns a pair': (
        {'target': lambda q: (gaussian(q), q)},
        TypeError,
        '`target` must return a tensor of log-densities.*tuple',
    ),
    'complex': (
        {'target': lambda q: tf.cast(gaussian(q), tf.complex64)},
        TypeError,
        '`target` must return the dtype of its state.*complex64.*cast its result',
    ),
    'float64 constants': (
        {'target': lambda q: gaussian(q) * tf.constant(1.0, tf.float64)},
        TypeError,
        '`target` fails on a state of float32, mixing it with float64: pass dtype=tf.float64',
    ),
    'sums over the chains': (
        {'target': lambda q: -tf.reduce_sum(q**2), 'initial_state': tf.zeros(2), 'num_chains': 4},
        ValueError,
        '`target` must return one log-density per chain.*sum it over the event',
    ),
    'sums over the wrong axis': (
        {'target': lambda q: -tf.reduce_sum(q**2, axis=0)},
        ValueError,
        r'`target` must return one log-density per chain.*shape \(2,\).*sum it over all event',
    ),
    'sums over nothing': (
        {'target': lambda q: -(q**2), 'num_chains': 4},
        ValueError,
        '`num_chains` is 4.*holds 8 chains.*or sum the log-density over the event',
    ),
    'mixes chains': (
        {'target': lambda q: gaussian(q - tf.reduce_mean(q, axis=0))},
        ValueError,
        '`target` gives the first chain a log-density of.*of its own chain alone',
    ),
    'random': (
        {'target': lambda q: gaussian(q) + tf.random.normal([])},
        ValueError,
        '`target` gives the first chain.*without random numbers',
    ),
    'random, one chain': (
        {
            'target': lambda q: gaussian(q) + tf.random.normal([]),
            'initial_state': tf.zeros([2]),
        },
        ValueError,
        '`target` gives the first chain.*without random numbers',
    ),
    'keeps a dimension': (
        {'target': lambda q: gaussian(q)[..., None]},
        ValueError,
        r'`target` must return one log-density per chain.*shape \(4, 1\)',
    ),
    'NumPy': ({'target': with_numpy}, ValueError, '`target` fails.*without NumPy'),
    'if': ({'target': with_if}, TypeError, '`target` fails.*use tf.where'),
    'error of its own': (
        {'target': without_data},
        ValueError,
        r"`target` fails on a state of float32 \(4, 2\) with KeyError \('scale'\)",
    ),
    'no gradient': (
        {'target': lambda q: tf.stop_gradient(gaussian(q))},
        ValueError,
        '`target` does not depend on all parts.*NumPy.*`kernel` without.*AdaptiveMetropolis',
    ),
    'no gradient, default kernel': (
        {'target': lambda q: tf.stop_gradient(gaussian(q)), 'kernel': None},
        ValueError,
        '`target` does not depend on part 0.*without NumPy.*AdaptiveMetropolis',
    ),
}
MODELS = {
    'batch': (
        {'target': tfd.Normal([0.0, 1.0], 1.0)},
        ValueError,
        '`target` must have no batch shape.*tfd.Independent',
    ),
    'categories': (
        {'target': tfd.Categorical([0.0, 0.0])},
        TypeError,
        '`target` must have floating-point parts.*pin it with `experimental_pin`',
    ),
    'counts': ({'target': tfd.Poisson(3.0)}, TypeError, '`target`.*Poisson: pin it'),
    'everything pinned': (
        {'target': make_model(m=0.0, s=1.0, y=tf.zeros(5))},
        ValueError,
        '`target` has no part left to sample: leave one of them without',
    ),
    'data of another shape': (
        {'target': make_model(y=tf.zeros(7))},
        ValueError,
        '`target` fails.*see that the shapes of its data and pins fit',
    ),
    'data that are not numbers': (
        {'target': tfd.MultivariateNormalDiag([np.nan])},
        ValueError,
        'for 10 of 10 chains: pass `initial_state`.*look for NaN in its data',
    ),
    'names of a state': (
        {'target': make_model(), 'initial_state': {'mu': 0.0, 's': 1.0}},
        ValueError,
        '`initial_state` must have the parts m, s of `target`; got mu, s: pass a dict',
    ),
    'shapes of a state': (
        {'target': make_model(), 'initial_state': {'m': tf.zeros([3, 2]), 's': tf.ones(3)}},
        ValueError,
        r'`initial_state` must have the shapes.*m \(3, 2\), s \(3,\): pass a state',
    ),
    'outside the support': (
        {'target': make_model(), 'initial_state': {'m': 0.0, 's': -1.0}},
        ValueError,
        "`initial_state` must lie inside the support of `target`; part 's' does not: move",
    ),
    'dtype': (
        {'target': make_model(), 'dtype': tf.float64},
        ValueError,
        '`dtype` is float64, but `target` is a model in float32: leave `dtype` out',
    ),
    'mixed chains': (
        {
            'target': tfd.JointDistributionNamed(
                {
                    'm': tfd.Normal(0.0, 1.0),
                    'y': lambda m: tfd.Independent(tfd.Normal(m * tf.ones(10), 1.0), 1),
                }
            ).experimental_pin(y=tf.ones(10))
        },
        ValueError,
        '`target` mixes chains.*use a JointDistribution...AutoBatched',
    ),
    'mixed chains of an Inference Gym model': (
        {'target': MixedChains()},
        ValueError,
        '`target` mixes chains.*sum over event dimensions alone',
    ),
}
KERNELS = {
    'by name': ({'kernel': 'nuts'}, TypeError, '`kernel` must be a tfp.mcmc.TransitionKernel or'),
    'class that needs more': (
        {'kernel': tfmc.NoUTurnSampler},
        TypeError,
        "`kernel`.*'step_size'.*pass a lambda, such as lambda log_prob: NoUTurnSampler",
    ),
    'unknown argument': (
        {'kernel': functools.partial(tfpa.EntropyAdaptiveHMC, leapfrog_steps=3)},
        TypeError,
        '`kernel`.*leapfrog_steps=3.*pass a lambda',
    ),
    'makes none': ({'kernel': lambda log_prob: None}, TypeError, '`kernel` must return.*such as'),
    'fails': ({'kernel': lambda log_prob: 1 / 0}, ValueError, '`kernel` fails.*division by zero'),
    'adapts for longer': (
        {'kernel': lambda log_prob: tfpa.EntropyAdaptiveHMC(log_prob)},
        ValueError,
        '`kernel` adapts for 1000 steps.*`num_warmup_steps` is 10.*num_adaptation_steps=10',
    ),
    "TFP's adapts for longer": (
        {'kernel': lambda p: tfmc.DualAveragingStepSizeAdaptation(make_hmc(p), 100)},
        ValueError,
        '`kernel` adapts for 100 steps',
    ),
    "TFP's never stops": (
        {'kernel': lambda p: estimating(p)},
        ValueError,
        '`kernel` adapts without end but `num_warmup_steps` is 10.*num_estimation_steps=10',
    ),
    "TFP's stops too late": (
        {'kernel': lambda p: estimating(p, num_estimation_steps=11)},
        ValueError,
        '`kernel` adapts for 11 steps.*num_estimation_steps=10',
    ),
    'of another density': (
        {'kernel': make_hmc(lambda q: gaussian(q - 3))},
        ValueError,
        '`kernel` samples another density than `target`.*pass a lambda',
    ),
    'of another state': (
        {'kernel': make_hmc(of_parts)},
        TypeError,
        "`kernel` fails on a state.*'sigma'.*pass a lambda",
    ),
    'scale of another size': (
        {
            'kernel': functools.partial(
                tfpa.GradientAdaptiveMALA,
                preconditioner=tfpa.preconditioners.diagonal(initial_scale=[1.0, 1.0, 1.0]),
            )
        },
        ValueError,
        r'`initial_scale` must be a scalar or have the event size \[2\]',
    ),
    'step sizes of another shape': (
        {'kernel': lambda p: tfmc.HamiltonianMonteCarlo(p, tf.ones([7]), 2)},
        ValueError,
        r'`kernel` fails on a state of float32 \(4, 2\).*7 and 2',
    ),
}
TRACES = {
    'not callable': ({'trace_fn': 'all'}, TypeError, '`trace_fn` must be a function of two'),
    'one argument': ({'trace_fn': lambda s: s}, TypeError, '`trace_fn` must be a function of two'),
    'nothing': ({'trace_fn': lambda s, k: None}, TypeError, '`trace_fn` must return a nest.*None'),
    'text': ({'trace_fn': lambda s, k: 'a'}, TypeError, '`trace_fn` must return tensors of num'),
    'shape of the data': (
        {'trace_fn': lambda s, k: tf.boolean_mask(s, s > 0)},
        ValueError,
        '`trace_fn` must return tensors of static shape.*use tf.ensure_shape',
    ),
    'field of another kernel': (
        {'trace_fn': lambda s, k: k.leapfrogs_taken},
        ValueError,
        "`trace_fn` fails.*no attribute 'leapfrogs_taken'",
    ),
    'NumPy': ({'trace_fn': lambda s, k: s.numpy()}, ValueError, '`trace_fn` fails.*without NumPy'),
}
PATHS = {
    'number': ({'checkpoint': 3}, TypeError, "`checkpoint` must be a path such as 'run.npz'"),
    'empty': ({'checkpoint': ''}, TypeError, "`checkpoint` must be a path such as 'run.npz'"),
    'folder': ({'checkpoint': os.sep}, IsADirectoryError, '`checkpoint` / is a folder: name a'),
    'no folder': (
        {'checkpoint': pathlib.Path('no', 'such', 'run.npz')},
        FileNotFoundError,
        '`checkpoint`.* lies in a folder that does not exist: create',
    ),
}
TABLES = {
    'count': COUNTS,
    'option': OPTIONS,
    'state': STATES,
    'density': DENSITIES,
    'model': MODELS,
    'kernel': KERNELS,
    'trace': TRACES,
    'path': PATHS,
}
MISUSES = {f'{name}: {case}': row for name, table in TABLES.items() for case, row in table.items()}


# against the run that the fixture `finished` has kept
OTHERS = {
    'target': (
        {'target': lambda q: gaussian(q - 0.1), 'kernel': make_hmc},
        ValueError,
        '`checkpoint`.* belongs to another `target`.*or choose another path',
    ),
    'seed': ({'seed': 4}, ValueError, '`checkpoint`.*another `seed`: leave `seed` out'),
    'chains': (
        {'initial_state': tf.ones([5, 2])},
        ValueError,
        r'`checkpoint`.*batch shape is \[4\].*\[5\]: pass the `num_chains`',
    ),
    'state': (
        {'initial_state': tf.ones([4, 3])},
        ValueError,
        '`checkpoint`.*parts.*pass the `initial_state`',
    ),
    'dtype': ({'dtype': tf.float64}, ValueError, '`checkpoint`.*float64.*pass the `initial_state`'),
    'kernel': (
        {'kernel': lambda p: tfmc.HamiltonianMonteCarlo(p, 0.1, 2)},
        ValueError,
        '`checkpoint`.*begun with kernel.*step_size.*in this call: pass what it was begun with',
    ),
    'warm-up': (
        {'num_warmup_steps': 11},
        ValueError,
        '`checkpoint`.*num_warmup_steps 10, which is 11 in this call: pass what',
    ),
    'thinning': (
        {'num_steps_between_results': 1},
        ValueError,
        '`checkpoint`.*num_steps_between_results None, which is 1',
    ),
    'compilation': (
        {'jit_compile': True},
        ValueError,
        '`checkpoint`.*jit_compile False, which is True',
    ),
    'trace': (
        {'trace_fn': lambda state, kernel_results: state},
        ValueError,
        '`checkpoint`.*trace_fn None, which is.*pass what it was begun with',
    ),
    'fewer draws': (
        {'num_results': 5},
        ValueError,
        '`checkpoint` holds 20 draws per chain, more than num_results=5: ask for at least',
    ),
}
# the call that fails, its code, and the row
DISKS = {
    'full': (
        'write',
        errno.ENOSPC,
        ({'num_results': 40}, OSError, '`checkpoint`.*No space left on device.*make room'),
    ),
    'failing': (
        'fsync',
        errno.EIO,
        ({'num_results': 40}, OSError, '`checkpoint`.*cannot be written.*error'),
    ),
    'read-only': (
        'makedirs',
        errno.EROFS,
        ({'num_results': 40}, OSError, '`checkpoint`.*Read-only file system.*choose a path'),
    ),
    'forbidden': (
        'open',
        errno.EACCES,
        ({'num_results': 40}, PermissionError, '`checkpoint`.*Permission denied.*choose a path'),
    ),
}


def assert_one_sentence(error):
    """Short, in terms of the arguments, and without a word of TensorFlow's own stack."""
    message = str(error)
    assert len(message) < 400, message
    assert '\n' not in message
    assert re.search(r'`\w+`', message), message
    assert message.endswith('.'), message
    for noise in ('Traceback', 'File "', '{{node', 'function_node', 'Graph execution'):
        assert noise not in message, message


def contents(path):
    """{file: digest} of all files of a checkpoint that hold anything."""
    files = [path, *pathlib.Path(f'{path}.rows').glob('*')]
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.exists() and file.stat().st_size
    }


def assert_refused(row, path):
    """The call is refused in one sentence, and no byte at `path` is another one."""
    arguments, error, message = row
    before = contents(path)
    with pytest.raises(error, match=message) as found:
        run(**{'checkpoint': path, **arguments})
    assert type(found.value) is error
    assert_one_sentence(found.value)
    assert contents(path) == before


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """The folder of a run that has ended."""
    folder = tmp_path_factory.mktemp('finished')
    run(checkpoint=folder / 'run.npz')
    return folder


@pytest.fixture
def path(finished, tmp_path):
    """A copy of the run that has ended."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path / 'run.npz'


@pytest.mark.parametrize('case', MISUSES)
def test_one_sentence_names_the_argument_and_the_fix(case, tmp_path):
    assert_refused(MISUSES[case], tmp_path / 'run.npz')


@pytest.mark.parametrize('case', OTHERS)
def test_a_checkpoint_of_another_run(case, path):
    assert_refused(OTHERS[case], path)


@pytest.mark.parametrize('case', DISKS)
def test_a_disk_that_cannot_be_written(case, path, monkeypatch):
    function, code, row = DISKS[case]

    def refuse(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    arguments, error, message = row
    rows = pathlib.Path(f'{path}.rows/sampling.bin')
    before = path.read_bytes(), rows.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, function, refuse)
        with pytest.raises(error, match=message) as found:
            run(checkpoint=path, **arguments)
    assert_one_sentence(found.value)
    assert path.read_bytes() == before[0]
    assert rows.read_bytes().startswith(before[1])
    assert_identical(run(num_results=40, checkpoint=path).states, run(num_results=40).states)


def test_no_misuse_of_a_checkpoint_loses_anything(path):
    before = contents(path)
    for arguments, *_ in MISUSES.values():
        with pytest.raises((TypeError, ValueError, OSError)):
            run(**{'checkpoint': path, **arguments})
        assert contents(path) == before
    assert_identical(run(num_results=40, checkpoint=path).states, run(num_results=40).states)


def test_a_misuse_does_not_begin_a_checkpoint(tmp_path):
    """What is refused while the programs are compiled leaves the path to the next call."""
    path = tmp_path / 'run.npz'
    with pytest.raises(ValueError, match='7 and 2'):
        run(checkpoint=path, kernel=lambda p: tfmc.HamiltonianMonteCarlo(p, tf.ones([7]), 2))
    assert_identical(run(checkpoint=path).states, run().states)


def test_within_a_function():
    with pytest.raises(RuntimeError, match=r'call it outside `tf\.function`') as found:
        tf.function(run, autograph=False)()
    assert_one_sentence(found.value)


def test_by_position():
    with pytest.raises(TypeError, match=r'`num_chains` by position.*`initial_state`=') as found:
        tfpa.sample(gaussian, 20, 10, None, STATE)
    assert_one_sentence(found.value)
    with pytest.raises(TypeError, match=r"`sample` cannot be called.*'target'") as found:
        tfpa.sample(num_results=10)
    assert_one_sentence(found.value)


def test_the_error_itself_is_kept():
    with pytest.raises(ValueError, match='KeyError') as found:
        run(without_data)
    assert isinstance(found.value.__cause__, KeyError)


@pytest.mark.parametrize('kernel', [make_hmc, None], ids=['in a step', 'on the way there'])
def test_a_target_that_fails_when_the_chains_move(kernel):
    """XLA, which has no part in it, is not to blame."""

    def of_starts_alone(q):
        tf.debugging.assert_greater(q, 0.5, 'the model ends at a half')
        return gaussian(q)

    wanted = '`target` or `kernel` fails .*InvalidArgumentError.*the model ends at a half'
    with pytest.raises(ValueError, match=wanted) as found:
        run(of_starts_alone, kernel=kernel, num_warmup_steps=400)
    assert_one_sentence(found.value)
    assert isinstance(found.value.__cause__, tf.errors.InvalidArgumentError)


def test_a_target_that_was_misused_can_be_used():
    target = functools.partial(gaussian)
    for arguments in (
        {'initial_state': tf.fill([4, 2], np.nan)},
        {'kernel': 3.0},
        {'kernel': lambda p: tfmc.HamiltonianMonteCarlo(p, tf.ones([7]), 2)},
        {'trace_fn': lambda state, results: 1 / 0},
    ):
        with pytest.raises((TypeError, ValueError)):
            run(target, **arguments)
    assert_identical(run(target).states, run().states)
