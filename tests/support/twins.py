"""Slow, readable twins of the package's numerics: NumPy, float64, dense matrices, plain loops.

A twin is written from the mathematics (see the references in the package), never from the code it
checks. Notation: C preconditioner, h step size, F = h C, L leapfrog steps, U = -log pi with
gradient g and Hessian H, D = kappa F^T H F the whitened residual of the proposal's Jacobian.
"""

from typing import NamedTuple

import numpy as np

# --- leapfrog ------------------------------------------------------------------------------------


class Trajectory(NamedTuple):
    """One chain's leapfrog trajectory in textbook variables."""

    positions: list
    """q_0 ... q_L."""
    momentum: np.ndarray
    """p_L."""
    energy_change: float
    """H(q_L, p_L) - H(q_0, p_0)."""


def leapfrog(potential, gradient, position, momentum, mass, step_size, num_steps) -> Trajectory:
    """Textbook leapfrog of one chain: half kick, drift, half kick, with a dense mass matrix."""
    inverse_mass = np.linalg.inv(mass)

    def energy(q, p):
        return potential(q) + p @ inverse_mass @ p / 2

    q, p = np.array(position), np.array(momentum)
    positions = [q]
    for _ in range(num_steps):
        p = p - step_size / 2 * gradient(q)
        q = q + step_size * inverse_mass @ p
        p = p - step_size / 2 * gradient(q)
        positions.append(q)
    return Trajectory(positions, p, energy(q, p) - energy(position, momentum))


# --- entropy -------------------------------------------------------------------------------------


def residual_matrix(hessian, factor, num_steps):
    """D = -(L^2 - 1)/6 F^T H F."""
    return -(num_steps**2 - 1) / 6 * factor.T @ hessian @ factor


def log_det_gradient(residual):
    """G with d log det(I + D) = <G, A> under F -> F (I + A): dD = A^T D + D A."""
    inverse = np.linalg.inv(np.eye(len(residual)) + residual)
    return (inverse @ residual).T + residual @ inverse


def neumann_series(residual, num_terms):
    """sum_{k < num_terms} (-D)^k."""
    return sum(np.linalg.matrix_power(-residual, k) for k in range(num_terms))


class Roulette(NamedTuple):
    """One probe's roulette series, term by term."""

    weights: np.ndarray
    """(-1)^k / P(N >= k), k = 0 ... N."""
    terms: np.ndarray
    """eta_0 ... eta_N, [N + 1, D]."""
    eigenvalue: float
    """mu = b^T D b, b = eta_N / |eta_N|."""


def roulette(residual, probe, num_exact, num_extra, contraction=0.99) -> Roulette:
    """The series truncated at N = num_exact + num_extra, where P(num_extra >= j) = 2^-j."""
    weights, terms = [], []
    term = np.array(probe)
    for k in range(num_exact + num_extra + 1):
        survival = 1.0 if k <= num_exact else 0.5 ** (k - num_exact)
        weights.append((-1) ** k / survival)
        terms.append(term)
        image = residual @ term
        limit = contraction * np.linalg.norm(term)
        term = image * min(1.0, limit / max(np.linalg.norm(image), 1e-300))
    direction = terms[-1] / np.linalg.norm(terms[-1])
    return Roulette(np.array(weights), np.array(terms), direction @ residual @ direction)


def penalty(radius, threshold):
    """0, then quadratic for one unit, then linear with the slope reached."""
    excess = radius - threshold
    if excess <= 0:
        return 0.0
    return excess**2 if excess < 1 else 2 * excess - 1


# --- preconditioners -----------------------------------------------------------------------------


def dense_band(band):
    """T [n, n] from its super-diagonals, band[j, i] = T[i, i + j]."""
    num_bands, n = band.shape
    dense = np.zeros([n, n])
    for j in range(num_bands):
        for i in range(n - j):
            dense[i, i + j] = band[j, i]
    return dense


def bordered_factor(band, border, corner):
    """C = [[T^-1, R G], [0, G]], with R given as R^T [k, n]."""
    k, n = border.shape
    path = np.linalg.inv(dense_band(band))
    return np.block([[path, border.T @ corner], [np.zeros([k, n]), corner]])


def block_diagonal(blocks):
    """The blocks along the diagonal, zeros elsewhere."""
    sizes = [len(block) for block in blocks]
    ends = np.cumsum(sizes)
    return direct_sum(blocks, [range(end - k, end) for end, k in zip(ends, sizes, strict=True)])


def direct_sum(blocks, groups):
    """C whose rows and columns `groups[i]` hold `blocks[i]`, zeros elsewhere."""
    dense = np.zeros([sum(map(len, groups))] * 2)
    for block, group in zip(blocks, groups, strict=True):
        dense[np.ix_(group, group)] = block
    return dense


def low_rank_factor(scale, basis, core):
    """C = diag(s) (I + Q (T - I) Q^T)."""
    stretch = np.eye(len(scale)) + basis @ (core - np.eye(len(core))) @ basis.T
    return np.diag(scale) @ stretch


def pairs_matrix(left, right):
    """sum_m left_m right_m^T."""
    total = np.zeros([left.shape[1], right.shape[1]])
    for a, b in zip(left, right, strict=True):
        total += np.outer(a, b)
    return total


# --- flows ---------------------------------------------------------------------------------------


def real_nvp(first, second, log_scale, z):
    """(f(z), log|det Df(z)|) of one chain: scaling after two couplings with swapped halves."""
    half = len(z) // 2
    x, log_det = np.array(z), np.sum(log_scale)
    left, right = slice(None, half), slice(half, None)
    for layers, given, moved in ((first, left, right), (second, right, left)):
        shift, sigma = _coupling_network(layers, x[given])
        x[moved] = sigma * x[moved] + shift
        log_det += np.sum(np.log(sigma))
    return np.exp(log_scale) * x, log_det


def _coupling_network(layers, x):
    """Shift and sigma in (1/2, 2), 1 where the last layer gives 0."""
    for weights, bias in layers[:-1]:
        x = x @ weights / np.sqrt(len(weights)) + bias
        x = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    weights, bias = layers[-1]
    shift, gate = np.split(x @ weights / np.sqrt(len(weights)) + bias, 2)
    return shift, 0.5 + 1.5 / (1 + 2 * np.exp(-gate))


# --- optimizers ----------------------------------------------------------------------------------


def adam(gradients, learning_rate, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    """The steps Adam takes on a sequence of gradients; learning_rate is a function of the count."""
    mean, square, steps = 0.0, 0.0, []
    for count, gradient in enumerate(gradients):
        mean = beta_1 * mean + (1 - beta_1) * gradient
        square = beta_2 * square + (1 - beta_2) * gradient**2
        corrected_mean = mean / (1 - beta_1 ** (count + 1))
        correction = np.sqrt(1 - beta_2 ** (count + 1))
        corrected_root = (np.sqrt(square) + epsilon) / correction
        steps.append(-learning_rate(count) * corrected_mean / corrected_root)
    return steps


def rmsprop(gradients, learning_rate, decay, offset):
    """Titsias & Dellaportas (2019): V starts as the first squared gradient."""
    square, steps = None, []
    for gradient in gradients:
        new = gradient**2
        square = new if square is None else decay * square + (1 - decay) * new
        steps.append(-learning_rate * gradient / (offset + np.sqrt(square)))
    return steps


# --- calculus ------------------------------------------------------------------------------------


def central_difference(fn, x, spacing=1e-5):
    """Gradient of a scalar function of an array, entry by entry."""
    x = np.array(x, dtype=np.float64)
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = spacing
        gradient[index] = (fn(x + step) - fn(x - step)) / (2 * spacing)
    return gradient
