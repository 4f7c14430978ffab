"""Signatures of kernels and functions, and what is kept with a target."""

import copy
import functools
import gc
import pickle
import types
import weakref

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tfp_adaptive.sampling.kept import kept_with
from tfp_adaptive.sampling.signatures import signature

FACTOR = 2.0


def log_prob(q):
    return -tf.reduce_sum(tf.square(q), axis=-1)


def texts(value):
    return {path: leaf.text for path, leaf in signature(value, 'kernel', target=log_prob).items()}


def hmc(step_size=0.1, num_leapfrog_steps=3):
    return tfp.mcmc.HamiltonianMonteCarlo(log_prob, step_size, num_leapfrog_steps)


def adaptive(**settings):
    return tfpa.EntropyAdaptiveHMC(log_prob, **settings)


def test_kernels_made_alike_are_the_same():
    for make in (
        hmc,
        adaptive,
        lambda: adaptive(preconditioner=tfpa.preconditioners.diagonal(initial_scale=0.5)),
        lambda: adaptive(optimizer=tfpa.optimizers.adam(learning_rate=0.1)),
        lambda: tfp.mcmc.DualAveragingStepSizeAdaptation(hmc(), 10),
    ):
        assert signature(make(), 'kernel') == signature(make(), 'kernel')


def test_every_setting_tells_kernels_apart():
    kernels = [
        hmc(),
        hmc(step_size=0.2),
        hmc(step_size=np.array([0.1, 0.2])),
        hmc(step_size=np.array([0.1, 0.3])),
        hmc(num_leapfrog_steps=4),
        tfp.mcmc.DualAveragingStepSizeAdaptation(hmc(), 10),
        tfp.mcmc.DualAveragingStepSizeAdaptation(hmc(), 11),
        adaptive(),
        adaptive(num_leapfrog_steps=1),
        adaptive(preconditioner=tfpa.preconditioners.diagonal()),
        adaptive(preconditioner=tfpa.preconditioners.diagonal(initial_scale=0.5)),
        adaptive(preconditioner=tfpa.preconditioners.diagonal(initial_scale=0.6)),
        adaptive(optimizer=tfpa.optimizers.adam(learning_rate=0.1)),
        adaptive(optimizer=tfpa.optimizers.adam(learning_rate=0.2)),
        tfp.mcmc.HamiltonianMonteCarlo(lambda q: log_prob(q), 0.1, 3),
    ]
    found = [tuple(signature(kernel, 'kernel').items()) for kernel in kernels]
    assert len(set(found)) == len(found)


def test_text_names_settings_and_holds_no_address():
    found = texts(hmc(num_leapfrog_steps=7))
    assert found['kernel'].endswith('.HamiltonianMonteCarlo')
    assert found['kernel.num_leapfrog_steps'] == '7'
    assert found['kernel.target_log_prob_fn'] == 'target'
    for text in {**found, **texts(adaptive(preconditioner=tfpa.preconditioners.diagonal()))}:
        assert '0x' not in text


def test_functions_are_their_code_and_what_it_refers_to():
    def scale_by(factor):
        return lambda x: x * factor

    assert signature(scale_by(2), 'f') == signature(scale_by(2), 'f')
    assert signature(scale_by(2), 'f') != signature(scale_by(3), 'f')
    assert signature(lambda x: x, 'f') != signature(lambda x: -x, 'f')
    partial = functools.partial(hmc, step_size=0.3)
    assert texts(partial)['kernel.step_size'] == '0.3'

    def with_global(x):
        return x * FACTOR

    before = signature(with_global, 'f')
    assert before == signature(with_global, 'f')
    globals()['FACTOR'] = 3.0
    assert before != signature(with_global, 'f')


CONFIG, TABLE = {'factor': 2.0}, np.ones(3)


class Step:
    """A callable object with a setting."""

    def __init__(self):
        self.size = 0.1

    def __call__(self, state):
        return self.size * state


def test_what_changes_within_an_object_tells_it_apart():
    """Of mutable globals and of objects that are no records; texts stay, as counts may be there."""

    def with_config(x):
        return x * CONFIG['factor'] + TABLE

    step = Step()

    def change_config():
        CONFIG['factor'] = 3.0

    def change_table():
        TABLE[0] = 2.0

    def change_step():
        step.size = 0.2

    for value, change in (
        (with_config, change_config),
        (with_config, change_table),
        (step, change_step),
        (step.__call__, change_step),
        (types.SimpleNamespace(step=1), None),
    ):
        before = signature(value, 'f')
        assert signature(value, 'f') == before
        if change is None:
            value.step = 2
        else:
            step.size = 0.1
            before = signature(value, 'f')
            change()
        after = signature(value, 'f')
        assert after != before
        assert {k: v.text for k, v in after.items()} == {k: v.text for k, v in before.items()}
    function = tf.function(lambda x: 2 * x)
    before = signature(function, 'f')
    function(tf.zeros([2]))
    assert signature(function, 'f') == before


def test_what_refers_to_itself_ends():
    def recursive(n):
        return recursive(n - 1)

    assert signature(recursive, 'f') == signature(recursive, 'f')


class Owner:
    def method(self):
        """A target may be a method, which is a new object at each access."""

    def other(self):
        """Another one."""


def test_what_has_no_value_yet_is_left_out():
    def outer():
        def inner(q):
            return later(q)

        found = signature(inner, 'f')
        later = np.square
        return found, signature(inner, 'f')

    before, after = outer()
    assert before.keys() < after.keys()


def test_a_long_list_is_one_setting_that_may_change():
    def of_data(data):
        return signature(lambda q: q * data[-1], 'f')

    data = [float(i) for i in range(10_000)]
    found = of_data(data)
    assert len(found) < 10
    assert of_data(list(data)) == found
    assert of_data([*data[:-1], 0.5]) != found


def test_helpers_that_call_one_another_are_described_once():
    """There are 3^12 ways to the last of them."""

    def make(depth, last):
        if not depth:
            return lambda q: q + last
        inner = make(depth - 1, last)
        again = again_too = inner
        return lambda q: inner(q) + again(q) + again_too(q)

    found = signature(make(12, 1.0), 'f')
    assert len(found) < 200
    assert [leaf.text for leaf in signature(make(12, 1.0), 'f').values()] == [
        leaf.text for leaf in found.values()
    ]
    assert [leaf.text for leaf in signature(make(12, 2.0), 'f').values()] != [
        leaf.text for leaf in found.values()
    ]


def test_values_live_with_their_owner():
    owner, value = Owner(), Owner()
    assert kept_with(owner).get('key') is None
    assert kept_with(owner).put('key', value) is value
    assert kept_with(owner).get('key') is value
    kept_with(owner.method).put('key', 'of the method')
    assert kept_with(owner.method).get('key') == 'of the method'
    assert kept_with(owner.other).get('key') is None
    kept_with(owner).clear()
    assert kept_with(owner).get('key') is None
    value.owner = owner
    kept_with(owner).put('key', value)
    reference = weakref.ref(owner)
    del owner, value
    gc.collect()
    assert reference() is None


def test_only_recent_values_are_kept():
    owner = Owner()
    for key in range(100):
        kept_with(owner).put(key, key)
    kept = [key for key in range(100) if kept_with(owner).get(key) is not None]
    assert kept == list(range(100 - len(kept), 100))
    assert 8 <= len(kept) < 50


def test_copies_and_pickles_start_afresh():
    owner = Owner()
    kept_with(owner).put('key', lambda: 'cannot be pickled')
    for other in (copy.copy(owner), copy.deepcopy(owner), pickle.loads(pickle.dumps(owner))):
        assert kept_with(other).get('key') is None
        kept_with(other).put('key', 'own')
    assert kept_with(owner).get('key')() == 'cannot be pickled'


def test_owner_without_attributes_keeps_nothing():
    assert kept_with(len).put('key', 1) == 1
    assert kept_with(len).get('key') is None
    kept_with(len).clear()


def test_the_text_of_a_function_follows_its_code():
    """What another process is compared with: not where a function comes from, but what it does."""

    def text(function):
        return signature(function, 'trace_fn')['trace_fn'].text

    assert text(lambda s, k: s[..., 0]) == text(lambda s, k: s[..., 0])
    others = [
        lambda s, k: s[..., 0],
        lambda s, k: s[..., 1],
        lambda s, k: s[..., 0] + 77,
        lambda s, k: k.is_accepted,
        lambda s, k: k.step_size,
        lambda s, k: [x + 1 for x in (s, k)],
        lambda s, k: [x + 2 for x in (s, k)],
    ]
    assert len({text(other) for other in others}) == len(others)


def test_the_text_of_a_set_does_not_depend_on_its_order():
    """That of strings is another in every process; that of these numbers is that of insertion."""

    def is_member(s, k):
        return s in {0, 8}

    code = is_member.__code__
    other = tuple(frozenset([8, 0]) if x == {0, 8} else x for x in code.co_consts)
    assert repr(code.co_consts) != repr(other)
    twin = types.FunctionType(code.replace(co_consts=other), {}, 'is_member')
    twin.__qualname__ = is_member.__qualname__
    (text,), (twin_text,) = (
        {leaf.text for leaf in signature(function, 'trace_fn').values() if 'is_member' in leaf.text}
        for function in (is_member, twin)
    )
    assert text == twin_text


def test_a_class_that_is_defined_once_more_is_another():
    """As in a notebook: the same name, and another step."""

    def define():
        class Mine(tfp.mcmc.TransitionKernel):
            def __init__(self):
                self.parameters = {'name': 'mine'}

            is_calibrated = True

            def bootstrap_results(self, init_state):
                return ()

            def one_step(self, current_state, previous_kernel_results, seed=None):
                return current_state, previous_kernel_results

        return Mine

    first = define()
    assert signature(first(), 'kernel') == signature(first(), 'kernel')
    assert signature(first(), 'kernel') != signature(define()(), 'kernel')
    assert signature(first, 'kernel') != signature(define(), 'kernel')


def _scaled(x):
    return FACTOR * x


def test_globals_are_seen_in_inner_and_in_other_functions(monkeypatch):
    def nested(x):
        return tf.nest.map_structure(lambda part: FACTOR * part, x)

    def through_another(x):
        return _scaled(x)

    before = [signature(fn, 'trace_fn') for fn in (nested, through_another)]
    assert before == [signature(fn, 'trace_fn') for fn in (nested, through_another)]
    monkeypatch.setitem(globals(), 'FACTOR', 3.5)
    for fn, old in zip((nested, through_another), before, strict=True):
        assert signature(fn, 'trace_fn') != old


def scale(x):
    return x


def test_a_variable_and_a_function_of_one_name_are_both_seen():
    def with_scale(value):
        scale = value
        return lambda x: x.scale * scale

    assert signature(with_scale(2.0), 'fn') == signature(with_scale(2.0), 'fn')
    assert signature(with_scale(2.0), 'fn') != signature(with_scale(3.0), 'fn')
