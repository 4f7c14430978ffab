"""Effective sample sizes: the estimator of a paper, and the smallest of a run."""

import numpy as np

import tfp_adaptive as tfpa

_MAX_COLUMNS = 256


def initial_monotone(draws: np.ndarray) -> np.ndarray:
    """Effective sample size of every coordinate of one chain by Geyer's initial monotone sequence.

    With rho_k the biased autocorrelations at all lags k and G_j = rho_{2j} + rho_{2j+1}, made
    non-increasing and cut off at the first that is not positive, it is
    N / max(1, -1 + 2 sum_j G_j), at most N: the estimator of Titsias & Dellaportas (2019).

    Args:
      draws: [N, d].

    Returns:
      [d]; NaN for a coordinate that never moves.
    """
    centred = np.asarray(draws, np.float64) - np.mean(draws, axis=0, dtype=np.float64)
    num_draws = len(centred)
    spectrum = np.abs(np.fft.rfft(centred, 2 * num_draws, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, axis=0)[: 2 * (num_draws // 2)]
    with np.errstate(invalid='ignore'):
        correlation = covariance / covariance[0]
    pairs = np.minimum.accumulate(correlation[0::2] + correlation[1::2], axis=0)
    return num_draws / np.maximum(1, -1 + 2 * np.sum(np.maximum(pairs, 0), axis=0))


def of_squares_too(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Effective sample sizes of q and of q^2, and R-hat, each [d].

    Other samplers are published with the size of q^2, and not with that of squared deviations,
    which diagnostics of the package have.

    Args:
      states: [N, C, d]; all chains count together.
    """
    found = []
    for draws in np.array_split(states, -(-states.shape[-1] // _MAX_COLUMNS), axis=-1):
        draws = np.asarray(draws, np.float64)
        ess, _, rhat = tfpa.sampling.diagnose(draws, 1)
        found.append([ess, tfpa.sampling.diagnose(np.square(draws), 1)[0], rhat])
    return tuple(np.concatenate(figure) for figure in zip(*found, strict=True))


def smallest(states: np.ndarray) -> tuple[float, float]:
    """Smallest effective sample size over all coordinates of q and q^2, and largest R-hat.

    Args:
      states: [N, C, d]; all chains count together, and chains that do not mix at all give about C.
    """
    ess, ess_of_squares, rhat = of_squares_too(states)
    return float(np.min([ess, ess_of_squares])), float(np.max(rhat))
