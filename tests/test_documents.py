"""Every page runs as its reader would paste it, and what it shows and names is so."""

import configparser
import itertools
import re
import shlex

import pytest

from experiments import cli, config
from tests import test_public_api
from tests.support import documents
from tests.support.processes import run_python

_OWN_TESTS = {'docs/distributed.md'}
"""Pages whose blocks are alternatives, or need processes of their own; tests of their own run
every block of them."""

_LONG = {
    'docs/how-to/estimated-likelihoods.md',
    'docs/how-to/extend.md',
    'docs/how-to/kernels.md',
    'docs/how-to/preconditioners.md',
    'docs/how-to/runs.md',
    'docs/how-to/warnings.md',
    'docs/index.md',
    'docs/tutorial/hierarchical.md',
    'docs/tutorial/regression.md',
    'docs/tutorial/volatility.md',
}
"""Pages of twenty seconds and more, among the slow tests."""

PAGES = documents.pages()


def with_python():
    return [
        pytest.param(name, marks=pytest.mark.slow if name in _LONG else [])
        for name, path in PAGES.items()
        if name not in _OWN_TESTS and '```python' in path.read_text()
    ]


@pytest.mark.parametrize('page', with_python())
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documents.run_page(PAGES[page])


@pytest.mark.parametrize('name', list(PAGES))
def test_every_block_is_of_a_kind_that_is_tested(name):
    for block in documents.blocks(PAGES[name].read_text()):
        assert block.language in ('python', 'sh'), f'line {block.line}: {block.language!r}'


@pytest.mark.parametrize('name', list(PAGES))
def test_links_lead_somewhere(name):
    path = PAGES[name]
    text = re.sub(r'```.*?```', '', path.read_text(), flags=re.DOTALL)
    for link in re.findall(r'\]\(((?!http)[^)]+)\)', text):
        page, _, heading = link.partition('#')
        target = (path.parent / page) if page else path
        assert target.exists(), link
        if heading:
            assert heading in headings(target.read_text()), link


def headings(text):
    """Anchors as GitHub and MkDocs make them."""
    titles = re.findall(r'^#+ (.*)$', re.sub(r'```.*?```', '', text, flags=re.DOTALL), re.MULTILINE)
    return [
        re.sub(r'[^\w\- ]', '', title.replace('`', '').lower()).replace(' ', '-')
        for title in titles
    ]


# --- shell commands ------------------------------------------------------------------------------


def shell_commands():
    """(page, words) of every command in every `sh` block."""
    for name, path in PAGES.items():
        for block in documents.blocks(path.read_text()):
            if block.language == 'sh':
                # a line ends, and a command does, where no quotation is open
                for command in re.split(r"(?:\n|&&)(?=(?:[^']*'[^']*')*[^']*$)", block.code):
                    if words := shlex.split(command, comments=True):
                        yield name, words


@pytest.mark.parametrize(('name', 'words'), list(shell_commands()))
def test_shell_commands_exist(name, words):
    command, *arguments = words
    if command == 'export':
        assert '=' in arguments[0]
    elif command == 'make':
        assert arguments[0] in re.findall(r'^(\w+):', read('Makefile'), re.MULTILINE)
    elif command == 'mkdocs':
        assert arguments[0] in ('build', 'serve')
        assert (documents.ROOT / 'mkdocs.yml').exists()
    elif command.endswith('pip'):
        assert arguments[0] == 'install'
        for extra in re.findall(r'\[(\w+)\]', ' '.join(arguments)):
            assert extra in extras(), f'no extra {extra!r}'
    else:
        assert command.split('/')[-1] in ('python', 'python3'), f'no rule for {words}'
        check_module(arguments)


def check_module(arguments):
    """Refuses programs that are not there; arguments of our own command are parsed."""
    if arguments[0].endswith('.py'):
        assert (documents.ROOT / arguments[0]).exists()
        return
    flag, module, *rest = arguments
    assert flag == '-m'
    if module == 'experiments':
        options = cli._parser().parse_args(rest)
        if hasattr(options, 'name'):
            config.load(options.name, options.assignments)
    else:
        assert module in ('venv', 'pytest')


def read(name):
    return (documents.ROOT / name).read_text()


def extras():
    settings = configparser.ConfigParser()
    settings.read_string(read('setup.cfg'))
    return set(settings['options.extras_require'])


# --- the reference -------------------------------------------------------------------------------


def referenced():
    """Every name that a page of the reference shows the docstring of."""
    texts = [path.read_text() for path in (documents.ROOT / 'docs' / 'reference').glob('*.md')]
    return re.findall(r'^::: (\S+)$', '\n'.join(texts), re.MULTILINE)


def public():
    """Public names but modules' versions; members of classes are shown with their class."""
    names = [re.match(r'[\w.]+', line).group() for line in test_public_api.describe_api()]
    aliases = {line.split(' is ')[0] for line in test_public_api.describe_api() if ' is ' in line}
    return {
        name
        for name in names
        if name not in aliases
        and name != 'tfp_adaptive.__version__'
        and not any(name.startswith(f'{other}.') for other in names)
    }


def test_reference_shows_every_public_name_once():
    assert sorted(referenced()) == sorted(public())


def table(text, heading):
    """Cells of the rows of the first table below a heading or another line."""
    lines = text.partition(heading)[2].partition('|---')[2].split('\n')[1:]
    rows = itertools.takewhile(lambda line: line.startswith('|'), lines)
    return [[cell.strip() for cell in row.strip('|').split('|')] for row in rows]


_NAMES_OF_TARGETS = {
    'German credit': 'german',
    'Australian credit': 'australian',
    'Gaussian process': 'process',
    'axis-aligned Gaussian': 'anisotropic-1000',
    'stochastic volatility': 'volatility',
}


def test_the_readme_shows_the_ratios_of_the_benchmark():
    page = read('docs/benchmark.md')
    respects = ('gradient', 'second', 'second with warm-up')
    standings = [table(page, f'Where we stand: minimum ESS per {name}\n') for name in respects]
    expected = [
        [rows[0][0], rows[0][1], *(f'{row[6]} / {row[8]}' for row in rows)]
        for rows in zip(*standings, strict=True)
    ]
    assert len(expected) == 9
    shown = table(read('README.md'), '| target | d | per gradient |')
    for row in shown:
        row[0] = _NAMES_OF_TARGETS.get(row[0], row[0].lower())
    assert shown == expected
    of_any_r_hat = [rows[-1][7] for rows in standings]
    assert standings[0][-1][0] == 'volatility'
    sentence = 'against the best of any R-hat the ratios are {}, {} and {}'.format(*of_any_r_hat)
    assert sentence in ' '.join(read('docs/performance.md').split())


def test_the_page_of_performance_shows_the_overheads_of_the_benchmark():
    page = read('docs/benchmark.md')
    head = next(
        line for line in page.splitlines() if line.startswith('| target') and 'sample' in line
    )
    columns = [name.strip() for name in head.strip('|').split('|')]
    found = {}
    for row in table(page, '### Overhead\n'):
        cells = dict(zip(columns, row, strict=False))
        if cells['threads'] == 'all':
            found[cells['target'], cells['kernel']] = cells
    kernels = ('L=1 refreshed 0.6', 'L=5')
    expected = [
        [
            target,
            found[target, kernels[0]]['d'],
            *(
                found[target, k][name]
                for name in ('overhead', 'adaptive / frozen')
                for k in kernels
            ),
        ]
        for target in dict.fromkeys(target for target, _ in found)
    ]
    assert len(expected) == 4
    shown = table(read('docs/performance.md'), '| target | d | frozen, one |')
    for row in shown:
        row[0] = _NAMES_OF_TARGETS.get(row[0], row[0].lower())
    assert shown == expected


def test_every_page_is_in_the_navigation():
    navigation = re.findall(r'([\w/-]+\.md)$', read('mkdocs.yml'), re.MULTILINE)
    assert {f'docs/{page}' for page in navigation} == set(PAGES) - {'README.md'}


def test_site_builds(tmp_path):
    pytest.importorskip('mkdocs')
    pytest.importorskip('mkdocstrings')
    site = tmp_path / 'site'
    run_python(['-m', 'mkdocs', 'build', '--strict', '--quiet', '--site-dir', site])
    page = (site / 'reference' / 'sample' / 'index.html').read_text()
    assert 'num_warmup_steps' in page
    assert 'steps that adapt and are thrown away' in page


# --- the checks themselves -----------------------------------------------------------------------

_SUMMARY = """
      mean  mcse    sd    5%   50%   95%    ess  ess_sq   rhat
x[0]  1.00  0.10  1.00  -0.6  1.00  2.60  100   110     1.003
"""


@pytest.mark.parametrize(
    ('shown', 'printed'),
    [
        ('a b', 'a b\n'),
        ('(3, 4)', '(3, 4)'),
        ('R-hat 1.003', 'R-hat 1.004'),
        ('took ... s, 5 draws', 'took 3.1 s, 5 draws'),
        ('...\nb 5', 'a 6\nb 5'),
        ('...\nb 5', 'b 5'),
        (_SUMMARY, _SUMMARY.replace(' 1.00 ', ' 1.02 ').replace('100 ', '120 ')),
    ],
)
def test_output_that_agrees(shown, printed):
    assert not documents.disagreement(shown, printed)


@pytest.mark.parametrize(
    ('shown', 'printed'),
    [
        ('', 'SamplingWarning: something'),
        ('a b', 'a c'),
        ('a', 'a b'),
        ('(3, 4)', '(3, 5)'),
        ('R-hat 1.003', 'R-hat 1.006'),
        ('R-hat 1.003', 'R-hat nan'),
        ('took ... s, 5 draws', 'took 3.1 s, 6 draws'),
        (_SUMMARY, _SUMMARY.replace('x[0]', 'x[1]')),
        (_SUMMARY, _SUMMARY.replace('x[0]  1.00', 'x[0]  2.00')),
        (_SUMMARY, _SUMMARY.replace('100 ', '900 ')),
        (_SUMMARY, _SUMMARY.replace('1.003', '1.043')),
        (_SUMMARY, _SUMMARY.replace('-0.6', '-6.0')),
        (_SUMMARY, 'x[0]'),
    ],
)
def test_output_that_disagrees(shown, printed):
    assert documents.disagreement(shown, printed)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('```python\nprint(1)\n```\n\n```text\n2\n```\n', 'printed was'),
        ('```python\nprint(1)\n```\n', 'printed was'),
        ('```text\n2\n```\n', 'output of no Python block'),
        ('- a\n  ```python\n  print(1)\n  ```\n', 'a fence is indented'),
    ],
)
def test_a_wrong_page_fails(text, message, tmp_path):
    page = tmp_path / 'page.md'
    page.write_text(text)
    with pytest.raises(AssertionError, match=message):
        documents.run_page(page)
