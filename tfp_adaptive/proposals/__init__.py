"""Proposals: how a move is made from noise and a preconditioner."""

from tfp_adaptive.proposals.leapfrog import leapfrog
from tfp_adaptive.proposals.random_walk import random_walk

__all__ = ['leapfrog', 'random_walk']
