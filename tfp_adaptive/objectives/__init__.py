"""Objectives: what makes a move good."""

from tfp_adaptive.objectives.jump_distance import expected_squared_jump_distance
from tfp_adaptive.objectives.l2hmc import l2hmc
from tfp_adaptive.objectives.speed_measure import generalized_speed

__all__ = ['expected_squared_jump_distance', 'generalized_speed', 'l2hmc']
