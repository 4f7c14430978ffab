"""What other libraries' particle filters offer here."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Walk(NamedTuple):
    """Draws of a random walk."""

    states: np.ndarray
    """[N, C, 4]."""
    is_accepted: np.ndarray
    """[N, C]."""


class Peer(NamedTuple):
    """The filter of one library on volatility with leverage, with a bootstrap proposal."""

    log_likelihood: Callable[[np.ndarray, int], np.ndarray]
    """(theta [C, 4], seed) -> log-estimates [C], each with noise of its own."""
    random_walk: Callable[[np.ndarray, np.ndarray, int, int], Walk]
    """(start [C, 4], factor [4, 4] of the covariance of a move, number of steps, seed) -> `Walk`.
    What it compiles is kept for the next call with as many steps."""
