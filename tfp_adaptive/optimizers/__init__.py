"""Optimizers, learning-rate schedules and controllers, all of them pure state machines."""

from tfp_adaptive.optimizers.adam import adam
from tfp_adaptive.optimizers.controllers import (
    acceptance_controller,
    fixed_weight,
    penalty_controller,
)
from tfp_adaptive.optimizers.rmsprop import rmsprop
from tfp_adaptive.optimizers.schedules import constant, inverse_sqrt, linear_decay

__all__ = [
    'acceptance_controller',
    'adam',
    'constant',
    'fixed_weight',
    'inverse_sqrt',
    'linear_decay',
    'penalty_controller',
    'rmsprop',
]
