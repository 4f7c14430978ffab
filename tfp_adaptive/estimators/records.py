"""The record of a likelihood that is only estimated."""

from collections.abc import Callable
from typing import NamedTuple

from tfp_adaptive.typing import Tensor


class Estimator(NamedTuple):
    """An estimate of a likelihood as a pure function of standard normal noise."""

    noise_size: int
    """Numbers of noise a chain needs for one estimate, K."""
    log_likelihood: Callable[..., Tensor]
    """(noise [*batch, K], *parts [*batch, *event]) -> [*batch] log-estimates. Its derivative in the
    parts is the estimate of the score that proposals use; it need not be the derivative of the
    value: the chain is exact with any score."""
    num_particles: int
    """Particles, or rows of data, an estimate looks at: its cost."""
