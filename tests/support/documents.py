"""Markdown pages as their readers use them: Python blocks one after the other, with what they say.

A `text` block right after a `python` block shows what the block prints, and after that a line
'SamplingWarning: ...' for each warning of `sample`. Draws differ a little between machines, so a
shown number stands for a range: whole numbers are exact, others hold to two units of their last
digit, and those of a summary to their Monte Carlo errors. `...` stands for anything; alone on the
first or the last line also for nothing.
"""

import contextlib
import io
import math
import pathlib
import re
import warnings
from typing import NamedTuple

import tfp_adaptive as tfpa

ROOT = pathlib.Path(__file__).parents[2]

_FENCE = re.compile(r'^```(\w*)\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_NUMBER = r'[-+]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?'
_TABLE = re.compile(r'^ +mean +mcse +sd .* ess +ess_sq +rhat\n(?:\S.*\n?)+', re.MULTILINE)
_ANYTHING = {'...': '.*?', '... ': '(?:.*? )?', ' ...': '(?: .*)?'}
_STANDARD_ERRORS = 5.0
_QUANTILE_FACTOR = 3.0
_ESS_FACTOR = 3.0
_RHAT_TOLERANCE = 0.02


class Block(NamedTuple):
    """A fenced block: its language, its text, its line, and the output shown for it or `None`."""

    language: str
    code: str
    line: int
    output: str | None


def pages():
    """README.md and every page of docs/, by path from the root."""
    found = [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]
    return {str(path.relative_to(ROOT)): path for path in found}


def blocks(text):
    """All fenced blocks of a page; outputs are with the blocks they belong to."""
    found, end = [], 0
    for match in _FENCE.finditer(text):
        language, code = match.groups()
        line = text.count('\n', 0, match.start(2)) + 1
        follows = bool(found) and found[-1].language == 'python' and not text[end : match.start()]
        end = match.end() + len(re.match(r'\n*', text[match.end() :]).group())
        if language == 'text':
            assert follows, f'line {line}: output of no Python block'
            found[-1] = found[-1]._replace(output=code)
        else:
            found.append(Block(language, code, line, None))
    shown = sum(block.output is not None for block in found)
    fences = re.findall(r'^\s*```', text, re.MULTILINE)
    assert len(fences) == 2 * (len(found) + shown), 'a fence is indented or open'
    return found


def run_page(path):
    """Runs all Python blocks of a page in one namespace, in order.

    Raises:
      AssertionError: if a block prints, or warns of, something other than the page shows.
    """
    namespace = {'__name__': '__main__'}
    for block in blocks(path.read_text()):
        if block.language != 'python':
            continue
        # blank lines before it make the line numbers of a traceback those of the page
        source = '\n' * (block.line - 1) + block.code
        printed = io.StringIO()
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
            warnings.simplefilter('always', tfpa.sampling.SamplingWarning)
            exec(compile(source, str(path), 'exec'), namespace)
        for warning in caught:
            if issubclass(warning.category, tfpa.sampling.SamplingWarning):
                print(f'SamplingWarning: {warning.message}', file=printed)
        found = disagreement(block.output or '', printed.getvalue())
        assert not found, f'{path.name}, block at line {block.line}: {found}'
    return namespace


def disagreement(shown, printed):
    """What of the output shown is not so, in words; '' if they agree."""
    tables = _TABLE.findall(shown), _TABLE.findall(printed)
    if len(tables[0]) != len(tables[1]):
        return f'{len(tables[0])} summaries are shown; printed was:\n{printed}'
    for ours, theirs in zip(*tables, strict=True):
        found = _table_disagreement(ours, theirs)
        if found:
            return f'{found}; printed was:\n{printed}'
    shown, printed_text = (
        ' '.join(_TABLE.sub('(summary)', text).split()) for text in (shown, printed)
    )
    pattern, numbers = '', []
    for piece in re.split(rf'(^\.\.\. | \.\.\.$|{_NUMBER}|\.\.\.)', shown):
        if re.fullmatch(_NUMBER, piece):
            pattern += f'({_NUMBER})'
            numbers.append(piece)
        else:
            pattern += _ANYTHING.get(piece) or re.escape(piece)
    match = re.fullmatch(pattern, printed_text)
    if match is None:
        return f'printed was:\n{printed}'
    wrong = [
        f'{ours} is shown for {theirs}'
        for ours, theirs in zip(numbers, match.groups(), strict=True)
        if abs(_value(ours) - _value(theirs)) > _tolerance(ours)
    ]
    return f'{", ".join(wrong)}; printed was:\n{printed}' if wrong else ''


def _value(number):
    return float(number.replace(',', ''))


def _tolerance(number):
    """Two units of the last digit; nothing for a whole number."""
    digits, _, exponent = number.partition('e')
    if '.' not in digits and not exponent:
        return 0.0
    # the rounding of floats must not count
    return 2.001 * 10.0 ** (int(exponent or 0) - len(digits.partition('.')[2]))


def _table_disagreement(shown, printed):
    """Rows of two summaries, each number against the Monte Carlo errors of both."""
    ours, theirs = _rows(shown), _rows(printed)
    if list(ours) != list(theirs):
        return f'rows {list(ours)} are shown for {list(theirs)}'
    for name, row in ours.items():
        other = theirs[name]
        error = _STANDARD_ERRORS * math.hypot(row['mcse'], other['mcse'])
        for column, value in row.items():
            change = abs(value - other[column])
            if column in ('ess', 'ess_sq', 'mcse'):
                agrees = 1 / _ESS_FACTOR < value / other[column] < _ESS_FACTOR
            elif column == 'rhat':
                agrees = change < _RHAT_TOLERANCE
            else:
                agrees = change < error * (_QUANTILE_FACTOR if '%' in column else 1.0)
            if not agrees:
                return f'{name}: {column} {value} is shown for {other[column]}'
    return ''


def _rows(table):
    header, *lines = table.strip().splitlines()
    columns = header.split()
    return {
        line.split()[0]: dict(zip(columns, map(_value, line.split()[1:]), strict=True))
        for line in lines
    }
