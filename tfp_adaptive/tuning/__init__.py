"""The classical tuning of HMC: rules of the step size, estimators of the metric, schedules.

Beside it stands `tuning.arrive`, which only `sample` calls: the first stage of its warm-up.
"""

from tfp_adaptive.tuning.draws import covariance, variance
from tfp_adaptive.tuning.dual_averaging import dual_averaging
from tfp_adaptive.tuning.fisher import fisher
from tfp_adaptive.tuning.formula import condition_number, step_size_formula
from tfp_adaptive.tuning.initial_step import initial_step_search
from tfp_adaptive.tuning.jitter import jittered
from tfp_adaptive.tuning.low_rank import low_rank
from tfp_adaptive.tuning.records import MetricEstimator, Plan, Schedule, StepSizeRule
from tfp_adaptive.tuning.robbins_monro import robbins_monro
from tfp_adaptive.tuning.windows import no_windows, windows

__all__ = [
    'MetricEstimator',
    'Plan',
    'Schedule',
    'StepSizeRule',
    'condition_number',
    'covariance',
    'dual_averaging',
    'fisher',
    'initial_step_search',
    'jittered',
    'low_rank',
    'no_windows',
    'robbins_monro',
    'step_size_formula',
    'variance',
    'windows',
]
