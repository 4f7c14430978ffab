"""A target within programs: traced once, and compiled where XLA comes to an end."""

import copy
import functools
import pickle
import types

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tfp_adaptive.internal import graphs
from tfp_adaptive.sampling import cholesky
from tfp_adaptive.sampling.compiled import XLA
from tfp_adaptive.sampling.programs import arrival, where_xla_pays
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.sampling.targets.traced import Traced

STATE = tf.zeros([4, 2])


@pytest.fixture(autouse=True)
def no_flags(monkeypatch):
    """As users have it; TensorFlow itself has read the flags of the tests by then."""
    monkeypatch.delenv('XLA_FLAGS', raising=False)


def normal(x):
    return -tf.reduce_sum(tf.square(x), axis=-1) / 2


def correlated(x):
    """A normal with a factor that depends on the position, as that of a Gaussian process."""
    scale = tf.exp(x[..., :1, tf.newaxis])
    factor = tf.linalg.cholesky(tf.eye(2) + scale * tf.ones([2, 2]))
    return normal(x) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), axis=-1)


def runge_kutta(num_steps, in_loop=False):
    """The log-density of a predator and its prey after some steps that are written out."""

    def step(x, y):
        def rates(x, y):
            return x - x * y, x * y - y

        h = 0.1
        a = rates(x, y)
        b = rates(x + h / 2 * a[0], y + h / 2 * a[1])
        c = rates(x + h / 2 * b[0], y + h / 2 * b[1])
        d = rates(x + h * c[0], y + h * c[1])
        dx, dy = (h / 6 * (a[i] + 2 * b[i] + 2 * c[i] + d[i]) for i in range(2))
        return x + dx, y + dy

    def log_prob(q):
        x, y = tf.unstack(tf.exp(q), axis=-1)
        if in_loop:
            x, y = tf.while_loop(
                lambda *_: True, step, (x, y), maximum_iterations=num_steps, name='steps'
            )
        else:
            for _ in range(num_steps):
                x, y = step(x, y)
        return normal(q) - tf.square(x - 1) - tf.square(y - 1)

    return log_prob


def layers(x):
    """Products of matrices are computed once, whoever uses them."""
    weights = tf.eye(2)
    for _ in range(60):
        x = tf.tanh(x @ weights) * tf.exp(-tf.square(x @ weights))
    return normal(x)


def kernel_of(log_prob):
    return types.SimpleNamespace(target_log_prob_fn=Traced(log_prob))


def test_all_programs_of_a_run_share_one_trace():
    traced = []

    def log_prob(x):
        if not tf.executing_eagerly():
            traced.append(x.shape)
        return normal(x)

    tfpa.sample(log_prob, 20, 100, initial_state=STATE, seed=1, progress=False)
    assert traced == [(4, 2)]


def scanned(x):
    """The log-density of the last of ten states, each computed from the one before."""
    states = tf.scan(lambda state, shift: 0.5 * state + shift, tf.zeros([10, 4]), x[:, 0])
    return normal(x) - tf.square(states[-1])


@pytest.mark.parametrize(
    ('log_prob', 'num_leapfrog_steps'),
    [
        pytest.param(scanned, 2, id='scan'),
        pytest.param(scanned, 1, id='scan-mala', marks=pytest.mark.slow),
        pytest.param(runge_kutta(3, in_loop=True), 1, id='while-mala', marks=pytest.mark.slow),
        pytest.param(runge_kutta(3, in_loop=True), 2, id='while', marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings('error:XLA cannot compile')
def test_loops_are_compiled_and_differentiated(log_prob, num_leapfrog_steps):
    """With two leapfrog steps there are Hessian-vector products, too.

    `sample` would go on without XLA, with a warning.
    """
    kernel = functools.partial(tfpa.EntropyAdaptiveHMC, num_leapfrog_steps=num_leapfrog_steps)
    run = tfpa.sample(
        log_prob,
        20,
        100,
        initial_state=STATE,
        kernel=kernel,
        num_steps_between_results=0,
        seed=1,
        progress=False,
    )
    assert np.isfinite(run.statistics.log_prob).all()


def test_outside_of_programs_it_is_called_as_it_is():
    """So that a target which reads other data than before is seen to have changed."""
    scale = [1.0]
    density = Traced(lambda x: scale[0] * normal(x))
    call = tf.function(density)
    x = tf.ones([4, 2])
    np.testing.assert_allclose(density(x), call(x))
    scale[0] = 2.0
    np.testing.assert_allclose(density(x), 2 * call(x))


def test_gradients_of_any_order_go_through(rng):
    x = tf.constant(rng.normal(size=[4, 2]).astype('f'))
    density = Traced(lambda x: tf.reduce_sum(tf.exp(x), axis=-1))

    @tf.function(jit_compile=True, autograph=False)
    def derivatives(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                value = density(x)
            first = inner.gradient(value, x)
        return first, outer.gradient(first, x)

    for found in derivatives(x):
        np.testing.assert_allclose(found, np.exp(x), rtol=1e-5)


def test_factors_are_traced_anew_for_xla_and_nothing_else_is():
    def holds_factor(density):
        with cholesky.for_xla():
            return graphs.holds(density.graph([STATE]), {'Cholesky'})

    density = Traced(correlated)
    plain = density.graph([STATE])
    assert graphs.holds(plain, {'Cholesky'})
    assert not holds_factor(density)
    assert density.graph([STATE]) is plain
    simple = Traced(normal)
    plain = simple.graph([STATE])
    with cholesky.for_xla():
        assert simple.graph([STATE]) is plain


@pytest.mark.parametrize('again', [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_forget_their_traces(again):
    density = Traced(normal)
    density.graph([STATE])
    np.testing.assert_array_equal(again(density)(tf.ones([3, 2])), -np.ones(3))


def test_steps_written_out_are_not_compiled():
    with pytest.warns(UserWarning, match='`tf.while_loop`'):
        assert not where_xla_pays.compiles(kernel_of(runge_kutta(8)), STATE)


@pytest.mark.parametrize(
    'log_prob', [normal, correlated, layers, runge_kutta(3), runge_kutta(50, True)]
)
def test_ordinary_targets_are_compiled(log_prob, recwarn):
    assert where_xla_pays.compiles(kernel_of(log_prob), STATE)
    assert not recwarn


def test_steps_within_a_loop_or_a_function_count():
    inner = tf.function(runge_kutta(8), autograph=False)

    def looped(q):
        return tf.while_loop(
            lambda *_: True,
            lambda x: normal(q) + inner(q) * 0 * x,
            [normal(q)],
            maximum_iterations=3,
        )[0]

    for log_prob in (inner, looped):
        with pytest.warns(UserWarning, match='XLA would not come to an end'):
            assert not where_xla_pays.compiles(kernel_of(log_prob), STATE)


def test_the_flag_and_other_densities_are_left_to_xla(monkeypatch, recwarn):
    assert where_xla_pays.compiles(types.SimpleNamespace(target_log_prob_fn=runge_kutta(8)), STATE)
    monkeypatch.setenv('XLA_FLAGS', '--xla_cpu_use_fusion_emitters=false')
    assert where_xla_pays.compiles(kernel_of(runge_kutta(8)), STATE)
    assert not recwarn


def test_sample_ends_where_xla_would_not():
    with pytest.warns(UserWarning, match='not compiled') as caught:
        run = tfpa.sample(
            runge_kutta(8),
            100,
            100,
            initial_state=STATE,
            seed=1,
            progress=False,
            num_steps_between_results=0,
        )
    assert np.isfinite(run.statistics.log_prob).all()
    [warning] = [each for each in caught if 'not compiled' in str(each.message)]
    assert warning.filename == __file__


def test_the_arrival_is_compiled_only_where_there_is_a_loop(monkeypatch):
    within = tf.function(runge_kutta(3, in_loop=True), autograph=False)
    model = Model(runge_kutta(3), ('q',), 0, 0)
    start = types.SimpleNamespace(model=model, state=STATE, batch_shape=(4,))
    found, xla = [], XLA(True)
    monkeypatch.setattr(arrival, 'Compiled', lambda _, xla=None: found.append(xla))
    for log_prob in (runge_kutta(3, in_loop=True), lambda q: within(q), runge_kutta(3)):
        kernel = tfpa.EntropyAdaptiveHMC(Traced(log_prob), 1, 10)
        arrival.make_arrival(kernel, start, xla)
    # few products make a Hessian, and the gradient of the gradient of a loop takes long to compile
    assert found == [xla, xla, None, None] * 2 + [None] * 4
