"""Mixtures of round normals in independent blocks of coordinates, with exact probabilities of bins.

The three targets of Li, Zeng & Guo, Cyclical kernel adaptive Metropolis; the minus signs that its
text has lost are put back.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy.stats
import tensorflow as tf

from experiments.targets.base import Target


class Mixture(NamedTuple):
    """The law of one block, and the bins in which draws are counted."""

    weights: np.ndarray
    """[K]."""
    means: np.ndarray
    """[K, b] for blocks of b coordinates."""
    deviations: np.ndarray
    """[K]."""
    edges: tuple[np.ndarray, ...]
    """Of the bins along each of the b coordinates."""
    num_blocks: int

    def log_prob(self, x: tf.Tensor) -> tf.Tensor:
        """Log-density of states [..., num_blocks * b]."""
        size = self.means.shape[1]
        blocks = tf.reshape(x, [*x.shape[:-1], self.num_blocks, 1, size])
        deviations = tf.constant(self.deviations, x.dtype)
        square = tf.reduce_sum((blocks - tf.constant(self.means, x.dtype)) ** 2, axis=-1)
        constant = np.log(self.weights) - size * np.log(self.deviations * math.sqrt(2 * math.pi))
        terms = tf.constant(constant, x.dtype) - square / (2 * deviations**2)
        return tf.reduce_sum(tf.reduce_logsumexp(terms, axis=-1), axis=-1)

    def bin_probabilities(self) -> np.ndarray:
        """Of every bin, by products of normal distribution functions; what lies outside is lost."""
        total = np.zeros([len(edges) - 1 for edges in self.edges])
        for weight, mean, deviation in zip(self.weights, self.means, self.deviations, strict=True):
            product = np.array(weight)
            for edges, centre in zip(self.edges, mean, strict=True):
                product = np.multiply.outer(
                    product, np.diff(scipy.stats.norm.cdf(edges, centre, deviation))
                )
            total = total + product
        return total

    def symmetric_kl(self, draws: np.ndarray) -> float:
        """KL(p||q) + KL(q||p) of bins, mean over blocks, with half a draw more in every bin.

        Args:
          draws: [n, num_blocks * b].
        """
        exact = self.bin_probabilities()
        exact = exact / exact.sum()
        # bins without any mass in double precision have none to compare
        is_possible = exact > 0
        blocks = np.reshape(draws, [len(draws), self.num_blocks, -1])
        divergences = []
        for index in range(self.num_blocks):
            counts, _ = np.histogramdd(blocks[:, index], bins=self.edges)
            found = (counts + 0.5)[is_possible]
            found, wanted = found / found.sum(), exact[is_possible]
            divergences.append(np.sum((found - wanted) * np.log(found / wanted)))
        return float(np.mean(divergences))

    def draw(self, num_draws: int, random: np.random.Generator) -> np.ndarray:
        """Exact independent draws [num_draws, num_blocks * b]."""
        shape = [num_draws, self.num_blocks]
        mode = random.choice(len(self.weights), shape, p=self.weights)
        noise = random.standard_normal([*shape, self.means.shape[1]])
        draws = self.means[mode] + self.deviations[mode][..., np.newaxis] * noise
        return np.reshape(draws, [num_draws, -1])

    def mode_shares(self, draws: np.ndarray) -> np.ndarray:
        """Shares of draws [n, num_blocks * b] nearest to each mean, over all blocks, [K]."""
        along, cuts = self._line()
        blocks = np.reshape(draws, [-1, self.means.shape[1]])
        nearest = np.searchsorted(cuts, blocks @ along)
        return np.bincount(nearest, minlength=len(self.weights)) / len(blocks)

    def exact_mode_shares(self) -> np.ndarray:
        """What `mode_shares` tends to, [K]; modes that overlap do not have their weights."""
        along, cuts = self._line()
        edges = np.array([-np.inf, *cuts, np.inf])[:, np.newaxis]
        below = scipy.stats.norm.cdf(edges, self.means @ along, self.deviations)
        return np.diff(below, axis=0) @ self.weights

    def _line(self) -> tuple[np.ndarray, np.ndarray]:
        """Direction [b] of the line on which the means lie in order, and its cuts half-way."""
        along = self.means[-1] - self.means[0]
        along = along / np.linalg.norm(along)
        places = self.means @ along
        return along, (places[1:] + places[:-1]) / 2


def bimodal() -> Mixture:
    """Section 4.1: two modes, sixteen apart, of variances 1/2 and 2."""
    return Mixture(
        np.array([0.5, 0.5]),
        np.array([[-8.0, 0.0], [8.0, 0.0]]),
        np.sqrt([0.5, 2.0]),
        (np.arange(-14, 14.1, 0.25), np.arange(-7, 7.1, 0.25)),
        num_blocks=1,
    )


def five_modes() -> Mixture:
    """Section 4.2: five modes along a diagonal, of variances sqrt(1), ..., sqrt(5)."""
    order = np.arange(1, 6)
    edges = np.arange(-6, 18.1, 0.5)
    means = 2.5 * (order - 1)[:, np.newaxis] * np.ones(2)
    return Mixture(np.full(5, 0.2), means, order**0.25, (edges, edges), num_blocks=1)


def hypercube(num_dims: int = 32) -> Mixture:
    """Section 4.3: five modes of variance 15 along every axis."""
    means = np.array([[-30.0], [-15.0], [0.0], [15.0], [30.0]])
    edges = (np.arange(-50, 50.1, 1.0),)
    return Mixture(np.full(5, 0.2), means, np.full(5, math.sqrt(15)), edges, num_blocks=num_dims)


_MIXTURES = {'bimodal': bimodal, 'five_modes': five_modes, 'hypercube': hypercube}
_STARTS = {'bimodal': (-8.0, 0.0), 'five_modes': (0.0, 0.0)}


def mixture_of(kind: str, num_dims: int) -> Mixture:
    """The mixture `kind`; `num_dims` is that of the hypercube."""
    return hypercube(num_dims) if kind == 'hypercube' else _MIXTURES[kind]()


def mixture_blocks(kind: str, num_dims: int) -> Target:
    """One of the three targets, and the one point at which the paper starts.

    Args:
      kind: 'bimodal', 'five_modes' or 'hypercube'.
      num_dims: d.
    """
    mixture = mixture_of(kind, num_dims)
    start = np.array(_STARTS.get(kind, np.zeros(num_dims)), np.float32)

    def initial_state(num_chains, seed):
        del seed
        return tf.tile(tf.constant(start)[tf.newaxis], [num_chains, 1])

    return Target(
        name=kind,
        event_size=len(start),
        log_prob=mixture.log_prob,
        initial_state=initial_state,
        provenance='Li, Zeng & Guo, Cyclical kernel adaptive Metropolis, section 4',
    )
