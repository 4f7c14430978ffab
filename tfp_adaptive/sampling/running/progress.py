"""Progress between compiled chunks: a bar in terminals and notebooks, else lines."""

import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

_SECONDS_BETWEEN_UPDATES = 0.2
_SECONDS_BETWEEN_LINES = 10.0


def make_reporter(phase: str, total: int, enabled: bool) -> Any:
    """A context manager that shows how far a phase has come.

    In a terminal or a notebook it is a tqdm bar; elsewhere it writes a line to stderr at most every
    ten seconds. tqdm is optional: without it there are lines only. All of them have the methods

        compiling()             the phase's program is being compiled
        begin(done)             the first step is next; `done` were taken before, in another run
        is_due(done)            whether it is worth while to show that `done` steps are done
        advance(done, figures)  shows that, and figures by name
        extend(total)           the goal is farther away

    Args:
      phase: label.
      total: steps of this phase.
      enabled: whether to report at all.
    """
    if not enabled or not total:
        return _Silence()
    return _Bar(phase, total) if _wants_bar() else _Lines(phase, total)


class _Silence:
    """No progress."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def compiling(self):
        """Says that the program is being compiled."""

    def begin(self, done: int):
        """Starts the clock."""

    def is_due(self, done: int) -> bool:
        """Whether to show how many steps are done."""
        return False

    def advance(self, done: int, figures: Mapping[str, float]):
        """Shows how many steps are done."""

    def extend(self, total: int):
        """Sets the goal farther away."""


class _Shown(_Silence):
    """Progress that is shown five times a second at most, which costs less than one percent."""

    def __init__(self, phase, total):
        self._phase, self._total, self._last_due = phase, total, 0.0

    def is_due(self, done):
        now = time.perf_counter()
        if done < self._total and now - self._last_due < _SECONDS_BETWEEN_UPDATES:
            return False
        self._last_due = now
        return True

    def extend(self, total):
        self._total = total


class _Bar(_Shown):
    """Progress as a tqdm bar."""

    def __init__(self, phase, total):
        from tqdm.auto import tqdm

        super().__init__(phase, total)
        self._bar = tqdm(total=total, desc=phase, unit='step', dynamic_ncols=True)

    def __exit__(self, *error):
        self._bar.close()

    def compiling(self):
        self._bar.set_description(f'{self._phase} (compiling)')

    def begin(self, done):
        self._bar.set_description(self._phase, refresh=False)
        # the rate is of this run's steps alone, without compilation
        self._bar.reset()
        self._bar.initial = done
        self._bar.update(done)

    def advance(self, done, figures):
        shown = {name: f'{value:.3f}' for name, value in figures.items()}
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def extend(self, total):
        super().extend(total)
        if total != self._bar.total:
            self._bar.total = total
            self._bar.refresh()


class _Lines(_Shown):
    """Progress as plain lines."""

    def __init__(self, phase, total):
        super().__init__(phase, total)
        self._initial, self._start, self._last = 0, 0.0, 0.0

    def compiling(self):
        self._print('compiling')

    def begin(self, done):
        self._initial = done
        self._start = self._last = time.perf_counter()

    def advance(self, done, figures):
        now = time.perf_counter()
        if now - self._last < _SECONDS_BETWEEN_LINES and done < self._total:
            return
        self._last = now
        rate = (done - self._initial) / max(now - self._start, 1e-9)
        shown = [f'{name} {value:.3f}' for name, value in figures.items()]
        self._print(', '.join([f'{done}/{self._total} steps', f'{rate:.0f} steps/s', *shown]))

    def _print(self, text):
        print(f'{self._phase}: {text}', file=sys.stderr, flush=True)


def _wants_bar() -> bool:
    is_interactive = sys.stderr.isatty() or 'ipykernel' in sys.modules
    if not is_interactive:
        return False
    try:
        import tqdm  # noqa: F401
    except ImportError:
        warnings.warn(
            'The progress bar needs tqdm: pip install "tfp_adaptive[progress]".', stacklevel=4
        )
        return False
    return True
