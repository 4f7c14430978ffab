"""Volatility with leverage by the particle filters of other libraries, in a random walk.

Where a library has no pseudo-marginal chain of its own, the random walk is written by hand around
its filter or its resampling.
"""

from experiments.pmmh_peers.base import Peer, Walk
from experiments.pmmh_peers.blackjax_filter import blackjax_filter
from experiments.pmmh_peers.particles_filter import particles_filter
from experiments.pmmh_peers.tfp_filter import tfp_filter

PEERS = {'TFP': tfp_filter, 'BlackJAX': blackjax_filter, 'particles': particles_filter}
"""(data [T], number of particles) -> `Peer`, by the name of the library."""

__all__ = ['PEERS', 'Peer', 'Walk', 'blackjax_filter', 'particles_filter', 'tfp_filter']
