"""Proposals: how a move is made from noise and a preconditioner."""

from tfp_adaptive.proposals.leapfrog import leapfrog

__all__ = ['leapfrog']
