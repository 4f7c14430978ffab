"""Objectives: what makes a move good."""

from tfp_adaptive.objectives.speed_measure import generalized_speed

__all__ = ['generalized_speed']
