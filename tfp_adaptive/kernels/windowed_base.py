"""What the kernels with the classical warm-up share: their arguments and their defaults."""

import abc
from typing import Any

import tensorflow as tf

from tfp_adaptive import tuning
from tfp_adaptive.kernels import base, windowed
from tfp_adaptive.tuning import MetricEstimator, Schedule, StepSizeRule

_RECORDS = {
    'step_size_rule': (StepSizeRule, 'dual_averaging()'),
    'metric': (MetricEstimator, 'variance()'),
    'schedule': (Schedule, 'windows()'),
}


class WindowedKernel(base.SamplerKernel):
    """Base class of kernels that tune as Stan does."""

    def __init__(self, parameters: dict, mover: windowed.Mover, step_size_rule: StepSizeRule):
        """Initializes this kernel.

        Args:
          parameters: the subclass's constructor arguments by name.
          mover: how chains move.
          step_size_rule: used where the subclass was given none.

        Raises:
          TypeError: if an axis is not made by `tfp_adaptive.tuning`.
          ValueError: if `num_adaptation_steps` is not a Python int.
        """
        for name, (record, maker) in _RECORDS.items():
            axis = parameters[name]
            if axis is not None and not isinstance(axis, record):
                raise TypeError(
                    f'`{name}` must be made by a function like tfp_adaptive.tuning.{maker}; '
                    f'got {axis!r}.'
                )
        steps = parameters['num_adaptation_steps']
        if tf.is_tensor(steps):
            raise ValueError(
                '`num_adaptation_steps` must be a Python int, for it decides where windows end; '
                f'got {steps!r}.'
            )
        self._axes = windowed.Axes(
            mover=mover,
            step_size_rule=parameters['step_size_rule'] or step_size_rule,
            metric=parameters['metric'] or tuning.variance(),
            schedule=parameters['schedule'] or tuning.windows(),
            num_adaptation_steps=steps,
            pool_fn=parameters['pool_fn'],
        )
        super().__init__(parameters, windowed.windowed_sampler(self._axes))

    @property
    def is_calibrated(self) -> bool:
        """`True`: each step leaves the target invariant, the whole chain once adaptation ended."""
        return True

    @abc.abstractmethod
    def frozen(self, kernel_results: base.KernelResults) -> base.SamplerKernel:
        """The learned proposal as a kernel of its own, with no adaptation code in its graph."""


def check_results(kernel_results: Any) -> None:
    """Refuses what is not the results of a kernel of this package.

    Raises:
      TypeError: with the fix.
    """
    if not isinstance(kernel_results, base.KernelResults):
        raise TypeError(
            '`kernel_results` must be results of this kernel, such as `final_kernel_results` of '
            'the warm-up; a wrapping kernel keeps them in its `inner_results`. '
            f'Got {type(kernel_results).__name__}.'
        )


def default_rule(target_accept_prob: float) -> StepSizeRule:
    """Doubling and halving first, then dual averaging."""
    return tuning.initial_step_search(tuning.dual_averaging(target_accept_prob))
