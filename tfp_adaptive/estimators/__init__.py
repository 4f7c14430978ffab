"""Unbiased estimates of a likelihood, as pure functions of standard normal noise."""

from tfp_adaptive.estimators.importance_sampling import importance_sampling
from tfp_adaptive.estimators.particle_filter import particle_filter
from tfp_adaptive.estimators.records import Estimator
from tfp_adaptive.estimators.subsampling import subsampling

__all__ = ['Estimator', 'importance_sampling', 'particle_filter', 'subsampling']
