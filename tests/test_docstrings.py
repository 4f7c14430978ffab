"""Docstrings: all there, in Google's sections, true to the signature, with examples that run.

Examples ask for the hundreds of steps a user would take. What they prove here is that the calls
they show work, so `tfp.mcmc.sample_chain` is shortened to a few steps and runs eagerly, as do the
chains of `tfp_adaptive.distribute`, and `sample` runs without XLA: compiling each example would
take minutes, and convergence has tests of its own.
"""

import builtins
import doctest
import functools
import importlib
import inspect
import pkgutil
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support.cases import of_each
from tfp_adaptive import kernels

SECTIONS = (
    'Args',
    'Attributes',
    'Example',
    'Notation',
    'Notes',
    'Raises',
    'Reference',
    'References',
    'Returns',
    'Yields',
)
MAX_STEPS = 2


def package_modules():
    names = [tfpa.__name__]
    names += [info.name for info in pkgutil.walk_packages(tfpa.__path__, tfpa.__name__ + '.')]
    return [importlib.import_module(name) for name in names]


def is_own(value, module):
    return getattr(value, '__module__', None) == module.__name__


def has_written_init(cls, member):
    """Records and dataclasses have generated constructors, which nobody documents."""
    return member == '__init__' and not (is_record(cls) or hasattr(cls, '__dataclass_fields__'))


def is_record(value):
    return inspect.isclass(value) and issubclass(value, tuple)


def documented_objects():
    """{qualified name: object} of public modules, functions, classes and their methods."""
    found = {}
    for module in package_modules():
        if module.__name__.rpartition('.')[2].startswith('_'):
            continue
        found[module.__name__] = module
        for name, value in vars(module).items():
            if name.startswith('_') or not is_own(value, module):
                continue
            if inspect.isfunction(value) or inspect.isclass(value):
                found[f'{module.__name__}.{name}'] = value
            if inspect.isclass(value):
                for member, definition in vars(value).items():
                    if member.startswith('_') and not has_written_init(value, member):
                        continue
                    definition = getattr(definition, 'fget', definition)
                    if inspect.isfunction(definition) and definition.__module__ == module.__name__:
                        found[f'{module.__name__}.{name}.{member}'] = definition
    return found


def public_api():
    """{name: object} of what users call: functions and classes reachable through `__all__`."""
    found = {}

    def visit(module):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value):
                visit(value)
            elif inspect.isfunction(value) or inspect.isclass(value):
                found[f'{value.__module__}.{value.__qualname__}'] = value

    visit(tfpa)
    visit(kernels)
    return found


OBJECTS = documented_objects()
PUBLIC = public_api()


def sections(docstring):
    """{title: text} of the sections, which are unindented words with a colon and nothing more."""
    parts = re.split(
        r'^([A-Z][A-Za-z ]*):(?=\s*$| [A-Z(])', inspect.cleandoc(docstring), flags=re.M
    )
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described_arguments(text):
    """Names at the outer indentation of an Args section."""
    return re.findall(r'^  (\w+):', text, flags=re.M)


def parameters_of(function):
    names = inspect.signature(function).parameters
    return [name for name in names if name not in ('self', 'cls')]


def needs_sections(value):
    """Dataclasses and records are described by Attributes; abstract bases by their subclasses;
    nobody but the package makes its warnings.
    """
    is_dataclass = hasattr(value, '__dataclass_fields__')
    is_warning = inspect.isclass(value) and issubclass(value, Warning)
    return not (is_dataclass or is_record(value) or is_warning or inspect.isabstract(value))


# --- there, and well formed ----------------------------------------------------------------------


@of_each(OBJECTS)
def test_has_a_docstring(name):
    docstring = inspect.cleandoc(OBJECTS[name].__doc__ or '')
    assert docstring.strip(), f'{name} has no docstring'
    summary, *rest = docstring.splitlines()
    assert summary.endswith(('.', ':', '?')), f'{name}: the summary is one sentence on one line'
    assert not rest or not rest[0], f'{name}: a blank line follows the summary'


@of_each(OBJECTS)
def test_sections_are_googles(name):
    docstring = OBJECTS[name].__doc__ or ''
    titles = re.findall(r'^([A-Z]\w+):$', inspect.cleandoc(docstring), flags=re.M)
    unknown = [title for title in titles if title not in SECTIONS]
    assert not unknown, f'{name}: unknown sections {unknown}; known are {SECTIONS}'
    # numpy and reST styles
    assert not re.search(r'^\s*(:param|:return|-{4,}$)', docstring, flags=re.M), name
    assert docstring.isascii(), f'{name}: mathematics in ASCII'


@of_each(OBJECTS)
def test_arguments_are_those_of_the_signature(name):
    """Where arguments are described, all of them are, in order, and no others."""
    value = OBJECTS[name]
    if not inspect.isfunction(value):
        return
    found = sections(value.__doc__ or '')
    if 'Args' in found:
        assert described_arguments(found['Args']) == parameters_of(value), name


@of_each(OBJECTS)
def test_raises_names_exceptions(name):
    value = OBJECTS[name]
    found = sections(value.__doc__ or '')
    known = {**vars(builtins), **getattr(inspect.unwrap(value), '__globals__', {})}
    for exception in described_arguments(found.get('Raises', '')):
        error = known.get(exception)
        assert inspect.isclass(error), f'{name}: {exception} is no exception'
        assert issubclass(error, Exception), f'{name}: {exception} is no exception'


@of_each(PUBLIC)
def test_public_interface_is_fully_documented(name):
    """Args with every argument, Returns of every function, and an example that runs."""
    value = PUBLIC[name]
    if not needs_sections(value):
        return
    function = value.__init__ if inspect.isclass(value) else value
    found = sections(function.__doc__)
    if parameters_of(function):
        assert 'Args' in found, f'{name} does not describe its arguments'
    if inspect.isfunction(value):
        assert 'Returns' in found, f'{name} does not say what it returns'
    assert '>>>' in sections(value.__doc__).get('Example', ''), f'{name} has no example'


# --- examples ------------------------------------------------------------------------------------


def target_log_prob_fn(q):
    """A Gaussian in three dimensions with scales 1, 2, 3."""
    return tfp.distributions.MultivariateNormalDiag(scale_diag=[1.0, 2.0, 3.0]).log_prob(q)


@pytest.fixture(scope='module')
def warm_start():
    """A kernel and its results after a few steps, as examples assume them."""
    kernel = tfpa.EntropyAdaptiveHMC(target_log_prob_fn, num_adaptation_steps=MAX_STEPS)
    state = tf.random.stateless_normal([4, 3], seed=(0, 0))
    results = kernel.bootstrap_results(state)
    for step in range(MAX_STEPS):
        state, results = kernel.one_step(state, results, seed=(0, step))
    return kernel, state, results


@pytest.fixture(scope='module')
def run(warm_start):
    """A short run of `sample`."""
    _, state, _ = warm_start
    return tfpa.sample(
        target_log_prob_fn,
        100,
        100,
        initial_state=state,
        seed=(0, 1),
        progress=False,
        jit_compile=False,
    )


@pytest.fixture
def namespace(warm_start, run, monkeypatch):
    kernel, state, results = warm_start
    sample_chain = tfp.mcmc.sample_chain

    @functools.wraps(sample_chain)
    def short_chain(num_results, *args, kernel, **kwargs):
        # a step of NUTS takes hundreds of gradients
        most = 1 if 'NUTS' in type(kernel).__name__ else MAX_STEPS
        return sample_chain(min(num_results, most), *args, kernel=kernel, **kwargs)

    monkeypatch.setattr(tfp.mcmc, 'sample_chain', short_chain)
    monkeypatch.setattr(tfpa, 'sample', functools.partial(tfpa.sample, jit_compile=False))
    return {
        'np': np,
        'tf': tf,
        'tfp': tfp,
        'tfpa': tfpa,
        'target_log_prob_fn': target_log_prob_fn,
        'state': state,
        'kernel': kernel,
        'results': results,
        'run': run,
    }


def examples():
    parser = doctest.DocTestParser()
    return {
        name: value
        for name, value in OBJECTS.items()
        if parser.get_examples(value.__doc__ or '', name)
    }


@pytest.mark.parametrize('name', list(examples()))
def test_example_runs(name, namespace):
    source = inspect.cleandoc(OBJECTS[name].__doc__)
    example = doctest.DocTestParser().get_doctest(source, namespace, name, None, 0)
    report = []
    runner = doctest.DocTestRunner(verbose=False)
    tf.config.run_functions_eagerly('.distribute.' in name)
    try:
        runner.run(example, out=report.append, clear_globs=False)
    finally:
        tf.config.run_functions_eagerly(False)
    assert not runner.failures, ''.join(report)
