"""Progress between compiled chunks: a bar in terminals and notebooks, else lines."""

import contextlib
import sys
import time
from typing import Any

from tfp_adaptive.sampling import user_code

_SECONDS_BETWEEN_LINES = 10.0


class Progress(contextlib.AbstractContextManager):
    """Shows how far a phase has come; a context manager.

    In a terminal or a notebook it is a tqdm bar; elsewhere, and without tqdm, a line to stderr at
    most every ten seconds.
    """

    def __init__(self, phase: str, total: int, is_shown: bool):
        """Initializes this progress.

        Args:
          phase: label.
          total: steps of the phase, as far as is known now.
          is_shown: whether to show anything at all.
        """
        self._phase, self._is_shown = phase, is_shown
        self._bar = _make_bar(phase, total) if is_shown else None
        self._initial, self._start, self._last = 0, 0.0, 0.0

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def compiling(self) -> None:
        """Says that the program is being compiled."""
        if self._bar is not None:
            self._bar.set_description(f'{self._phase} (compiling)')
        else:
            self._print('compiling')

    def begin(self, done: int) -> None:
        """Starts the clock: the rate is of the steps from here on, without compilation.

        Args:
          done: steps that were taken before, in another run.
        """
        self._initial, self._start = done, time.perf_counter()
        self._last = self._start
        if self._bar is not None:
            self._bar.set_description(self._phase, refresh=False)
            self._bar.reset()
            self._bar.initial = done
            self._bar.update(done)

    def show(self, done: int, total: int, accept_prob: float | None) -> None:
        """Shows how many steps are done.

        Args:
          done: steps.
          total: steps of the phase, as far as is known now.
          accept_prob: mean over the steps, or `None`.
        """
        if self._bar is not None:
            self._bar.total = total
            if accept_prob is not None:
                self._bar.set_postfix(acceptance=f'{accept_prob:.3f}', refresh=False)
            self._bar.update(done - self._bar.n)
            return
        now = time.perf_counter()
        if now - self._last < _SECONDS_BETWEEN_LINES and done < total:
            return
        self._last = now
        rate = (done - self._initial) / max(now - self._start, 1e-9)
        acceptance = '' if accept_prob is None else f', acceptance {accept_prob:.3f}'
        self._print(f'{done}/{total} steps, {rate:.0f} steps/s{acceptance}')

    def _print(self, text):
        if self._is_shown:
            print(f'{self._phase}: {text}', file=sys.stderr, flush=True)


def _make_bar(phase, total):
    """A bar, or `None` where lines are to do."""
    if not (sys.stderr.isatty() or 'ipykernel' in sys.modules):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        user_code.warn('The progress bar needs tqdm: pip install "tfp_adaptive[progress]".')
        return None
    return tqdm(total=total, desc=phase, unit='step', dynamic_ncols=True)
