"""Proposals: how a move is made from noise and a preconditioner."""

from tfp_adaptive.proposals.delayed_rejection import delayed_rejection
from tfp_adaptive.proposals.gaussian import langevin, newton, quasi_newton
from tfp_adaptive.proposals.leapfrog import leapfrog
from tfp_adaptive.proposals.random_walk import random_walk

__all__ = ['delayed_rejection', 'langevin', 'leapfrog', 'newton', 'quasi_newton', 'random_walk']
