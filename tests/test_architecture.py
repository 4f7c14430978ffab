"""The rules of the code base, read off its syntax trees.

Layers import downwards only, axes never one another, nothing private of TensorFlow or TFP, no
hidden state, no stateful randomness, and sizes a reader can hold in mind.
"""

import ast
import functools
import pathlib
import re
from typing import NamedTuple

import pytest

from tests.support.cases import of_each

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE, EXPERIMENTS = 'tfp_adaptive', 'experiments'

AXES = (
    'preconditioners',
    'proposals',
    'objectives',
    'entropy',
    'optimizers',
    'estimators',
    'kernel_functions',
)
LAYERS = (
    ('typing',),
    ('internal',),
    AXES,
    ('tuning',),
    ('kernels',),
    ('sampling', 'distribute'),
    ('plots',),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
STAGES = ('targets', 'programs', 'storage', 'running', 'findings', 'driver')

MAX_MODULE_LINES = 300
MAX_FUNCTION_LINES = 60
MAX_POSITIONAL_ARGUMENTS = 8

PRIVATE_IMPORTS_ALLOWED = (
    # to mend gradients that only these two can mend: `sampling/targets/bijectors.py` says why
    'tensorflow_probability.python.bijectors.sigmoid',
    'tensorflow_probability.python.bijectors.softplus',
    # to factorize fast what XLA factorizes slowly: `sampling/cholesky.py` says why
    'tensorflow.python.ops.control_flow_util',
    'tensorflow.python.ops.linalg_ops',
)
LIBRARY_INTERNALS = (
    'tensorflow.python',
    'tensorflow_probability.python',
    'tensorflow_probability.substrates',
)
HIDDEN_STATE = {
    'tf.Variable',
    'tf.keras',
    'tf.compat',
    'tf.Module',
    'tf.random.Generator',
    'tf.random.set_seed',
    'tf.init_scope',
    'tf.numpy_function',
    'tf.py_function',
}
PUTS_IT_BACK = {'tfp_adaptive.internal.loops': 'tf.compat.v1.get_variable_scope'}
"""The one use of hidden state: as it was before an error within TensorFlow's own loops."""
KERAS = ('keras', 'tf_keras', 'tensorflow.keras')


class Module(NamedTuple):
    """One source file."""

    name: str
    source: str
    tree: ast.Module

    @property
    def area(self):
        """The layer's folder or file directly below the package; '' for its `__init__`."""
        return [*self.name.split('.'), ''][1]


@functools.cache
def modules():
    found = []
    for path in sorted([*(ROOT / PACKAGE).rglob('*.py'), *(ROOT / EXPERIMENTS).rglob('*.py')]):
        name = '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')
        source = path.read_text(encoding='utf-8')
        found.append(Module(name, source, ast.parse(source, str(path))))
    return found


def package_modules():
    return [module for module in modules() if module.name.split('.')[0] == PACKAGE]


def each(found):
    return of_each(found, name=lambda module: module.name)


# --- reading a syntax tree -----------------------------------------------------------------------


def imported_names(module):
    """Every name the module imports, in full: 'tensorflow', 'tfp_adaptive.typing.Pairs', ..."""
    names = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f'{module.name}: relative imports hide the layer they reach into'
            names += [f'{node.module}.{alias.name}' for alias in node.names]
    return names


def dotted(node):
    """'a.b.c' of an attribute chain on a plain name, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return base and f'{base}.{node.attr}'
    return None


def uses(module):
    """(line, 'tf.random.normal') of every attribute chain in the module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and dotted(node):
            yield node.lineno, dotted(node)


def functions(tree):
    """(qualified name, node, enclosing class or None) of every function, nested ones included."""

    def walk(node, prefix, owner):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child, owner
                yield from walk(child, f'{prefix}{child.name}.', None)
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f'{prefix}{child.name}.', child)
            else:
                yield from walk(child, prefix, owner)

    return walk(tree, '', None)


def code_lines(function, source):
    """Lines of code in a function's body: no docstring, comments or blank lines.

    Functions defined inside it count for themselves: an axis is one function that holds the few
    short ones it is made of.
    """
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    own = set()
    for statement in body:
        own |= set(range(statement.lineno, statement.end_lineno + 1))
    for node in ast.walk(function):
        if node is not function and isinstance(node, ast.FunctionDef):
            own -= set(range(node.lineno, node.end_lineno + 1))
    lines = source.splitlines()
    texts = [lines[number - 1].strip() for number in own]
    return sum(1 for text in texts if text and not text.startswith('#'))


# --- layers --------------------------------------------------------------------------------------


@each(package_modules())
def test_imports_point_downwards(module):
    if not module.area or module.area == '_version':
        return
    assert module.area in LEVEL, f'{module.name} is in no layer; name it in LAYERS'
    for name in imported_names(module):
        if name.split('.')[0] != PACKAGE:
            continue
        area = name.split('.')[1]
        if area in (module.area, '_version'):
            continue
        assert area in LEVEL, f'{module.name} imports {name}: import from the layer that defines it'
        assert LEVEL[area] < LEVEL[module.area], f'{module.name} imports {name}: ' + (
            'axes never import one another' if area in AXES else 'imports point downwards only'
        )


@each([module for module in package_modules() if module.name.startswith(f'{PACKAGE}.sampling.')])
def test_stages_of_a_run_know_of_no_later_one(module):
    """What all stages share lies beside their folders, and knows of none of them."""
    stages = {f'{PACKAGE}.sampling.{stage}': level for level, stage in enumerate(STAGES)}
    own = max((stages[name] for name in stages if module.name.startswith(name)), default=-1)
    for name in imported_names(module):
        level = stages.get('.'.join(name.split('.')[:3]), -1)
        assert level <= own, f'{module.name} imports {name}, of a later stage'


@each(package_modules())
def test_package_never_imports_experiments_or_tests(module):
    roots = {name.split('.')[0] for name in imported_names(module)}
    assert not roots & {EXPERIMENTS, 'tests'}


# --- public interfaces only ----------------------------------------------------------------------


@each(modules())
def test_imports_public_names_only(module):
    for name in imported_names(module):
        if name in PRIVATE_IMPORTS_ALLOWED or name.startswith(f'{PACKAGE}._version'):
            continue
        assert not name.startswith(LIBRARY_INTERNALS), f'{module.name} imports the internal {name}'
        parts = [part for part in name.split('.') if part != '__future__']
        private = [part for part in parts if part.startswith('_')]
        assert not private, f'{module.name} imports the private {name}'


@each(modules())
def test_reads_public_attributes_of_libraries_only(module):
    for line, name in uses(module):
        root, *rest = name.split('.')
        if root not in ('tf', 'tfp', 'np'):
            continue
        private = [part for part in rest if part.startswith('_') and part != '__version__']
        assert not private, f'{module.name}:{line} reads {name}'
        assert rest[:2] != ['mcmc', 'internal'], f'{module.name}:{line} reads {name}'


# --- no hidden state -----------------------------------------------------------------------------


@each(package_modules())
def test_no_variables_and_no_keras(module):
    for name in imported_names(module):
        assert not name.startswith(KERAS), f'{module.name} imports {name}: state is explicit'
    for line, name in uses(module):
        if f'{PUTS_IT_BACK.get(module.name)}.'.startswith(f'{name}.'):
            continue
        for forbidden in HIDDEN_STATE:
            assert name != forbidden, f'{module.name}:{line} uses {name}'
            assert not name.startswith(forbidden + '.'), f'{module.name}:{line} uses {name}'


@each(package_modules())
def test_no_module_level_mutation(module):
    for node in ast.walk(module.tree):
        assert not isinstance(node, ast.Global), f'{module.name}:{node.lineno} uses `global`'


@each(package_modules())
def test_randomness_is_stateless(module):
    """Only tf.random.stateless_* and tfp.random, with seeds handed in; no globals."""
    assert not {'random', 'secrets', 'numpy.random'} & set(imported_names(module))
    for line, name in uses(module):
        last = name.split('.')[-1]
        if name.startswith('tf.random.') and name != 'tf.random.experimental':
            assert last.startswith('stateless_'), f'{module.name}:{line} uses {name}'
        assert not name.startswith('np.random'), f'{module.name}:{line} uses {name}'
        assert last not in ('SeedStream', 'strip_seed'), f'{module.name}:{line} uses {name}'


# --- the page that draws it ----------------------------------------------------------------------


def drawings():
    page = (ROOT / 'docs' / 'architecture.md').read_text(encoding='utf-8')
    return re.findall(r'(?:^    .*\n)+', page, flags=re.MULTILINE)


def test_the_page_draws_the_layers():
    names = {name for layer in LAYERS for name in layer}
    lines = [set(line.split()) & names for line in drawings()[0].splitlines()]
    # the description of a layer may hold the name of another one
    drawn = [found & set(layer) for found, layer in zip(lines, reversed(LAYERS), strict=True)]
    assert drawn == [set(layer) for layer in reversed(LAYERS)]


def test_the_page_draws_a_step_in_the_order_of_the_code():
    drawn = re.findall(r'_[a-z_]+', drawings()[1])
    (module,) = [one for one in modules() if one.name == 'tfp_adaptive.kernels.gradient_adaptive']
    found = {name: node for name, node, _ in functions(module.tree)}
    called = []
    for outer in ('_step', '_learn'):
        calls = [node for node in ast.walk(found[outer]) if isinstance(node, ast.Call)]
        calls.sort(key=lambda node: (node.lineno, node.col_offset))
        called += [dotted(node.func) for node in calls if dotted(node.func) in drawn]
    assert called == drawn


# --- sizes ---------------------------------------------------------------------------------------


@each(modules())
def test_module_size(module):
    lines = len(module.source.splitlines())
    assert lines <= MAX_MODULE_LINES, f'{module.name} has {lines} lines: split it by idea'


@each(modules())
def test_function_size(module):
    for name, function, _ in functions(module.tree):
        lines = code_lines(function, module.source)
        assert lines <= MAX_FUNCTION_LINES, f'{module.name}.{name} has {lines} lines of code'


@each(package_modules())
def test_number_of_positional_arguments(module):
    for name, function, owner in functions(module.tree):
        if any(part.startswith('_') and part != '__init__' for part in name.split('.')):
            continue
        arguments = function.args.posonlyargs + function.args.args
        count = len(arguments) - (owner is not None)
        assert count <= MAX_POSITIONAL_ARGUMENTS, (
            f'{module.name}.{name} takes {count} positional arguments; make the rest keyword-only'
        )


# --- the checks themselves -----------------------------------------------------------------------


def module_from(source, name='tfp_adaptive.entropy.wrong'):
    return Module(name, source, ast.parse(source))


@pytest.mark.parametrize(
    ('check', 'source'),
    [
        (test_imports_point_downwards, 'from tfp_adaptive import kernels'),
        (test_imports_point_downwards, 'from tfp_adaptive.kernels.base import KernelResults'),
        (test_imports_point_downwards, 'import tfp_adaptive.optimizers'),
        (test_imports_point_downwards, 'def f():\n  from tfp_adaptive import EntropyAdaptiveHMC'),
        (test_package_never_imports_experiments_or_tests, 'from experiments import targets'),
        (test_imports_public_names_only, 'from tensorflow_probability.python.mcmc import hmc'),
        (test_imports_public_names_only, 'from tfp_adaptive.internal.banded import _compose'),
        (test_reads_public_attributes_of_libraries_only, 'tfp.mcmc.internal.util.choose'),
        (test_reads_public_attributes_of_libraries_only, 'tf._api'),
        (test_no_variables_and_no_keras, 'x = tf.Variable(1.0)'),
        (test_no_variables_and_no_keras, 'import tf_keras'),
        (test_no_variables_and_no_keras, 'tf.keras.optimizers.Adam()'),
        (test_no_module_level_mutation, 'def f():\n  global x\n  x = 1'),
        (test_randomness_is_stateless, 'tf.random.normal([3])'),
        (test_randomness_is_stateless, 'np.random.default_rng()'),
        (test_randomness_is_stateless, 'tfp.util.SeedStream(seed, salt="x")'),
        (test_module_size, 'x = 1\n' * 301),
        (test_function_size, 'def f():\n' + '  x = 1\n' * 61),
        (test_number_of_positional_arguments, 'def f(a, b, c, d, e, f, g, h, i):\n  pass'),
    ],
)
def test_each_check_can_fail(check, source):
    with pytest.raises(AssertionError):
        check.check(module_from(source))
