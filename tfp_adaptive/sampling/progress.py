"""A progress bar that moves between compiled chunks."""

import contextlib
import sys
import time
import warnings

_SECONDS_BETWEEN_LINES = 10.0


@contextlib.contextmanager
def reporter(phase: str, total: int, enabled: bool):
    """Yields a function (steps just done, dict of figures to show).

    In a terminal or a notebook it moves a tqdm bar; elsewhere it writes a line to stderr at most
    every ten seconds. tqdm is optional: without it there are lines only.

    Args:
      phase: label.
      total: steps of this phase.
      enabled: whether to report at all.
    """
    if not enabled or not total:
        yield lambda steps, figures: None
    elif _wants_bar():
        with _make_bar(phase, total) as bar:
            yield lambda steps, figures: _move(bar, steps, figures)
    else:
        yield _Lines(phase, total)


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


def _make_bar(phase, total):
    from tqdm.auto import tqdm

    return tqdm(total=total, desc=phase, unit='step', dynamic_ncols=True)


def _move(bar, steps, figures):
    bar.set_postfix({name: f'{value:.2f}' for name, value in figures.items()}, refresh=False)
    bar.update(steps)


class _Lines:
    """Progress as plain lines."""

    def __init__(self, phase, total):
        self._phase, self._total, self._done = phase, total, 0
        self._start = self._last = time.perf_counter()

    def __call__(self, steps, figures):
        self._done += steps
        now = time.perf_counter()
        if now - self._last < _SECONDS_BETWEEN_LINES and self._done < self._total:
            return
        self._last = now
        shown = ', '.join(f'{name} {value:.2f}' for name, value in figures.items())
        rate = self._done / max(now - self._start, 1e-9)
        print(
            f'{self._phase}: {self._done}/{self._total} steps, {rate:.0f} steps/s, {shown}',
            file=sys.stderr,
            flush=True,
        )
