"""What all gradient-adaptive kernels share beside their step."""

from typing import Any

from tfp_adaptive.kernels import base, frozen, gradient_adaptive
from tfp_adaptive.kernels.geometry import initial_parameters, resolve
from tfp_adaptive.typing import Controller, Entropy, LogDensity, Objective, Optimizer, Tensor

_MAKERS = {
    'objective': (Objective, 'objectives.generalized_speed()'),
    'entropy': (Entropy, 'entropy.russian_roulette()'),
    'optimizer': (Optimizer, 'optimizers.adam()'),
    'entropy_weight': (Controller, 'optimizers.acceptance_controller()'),
    'penalty_weight': (Controller, 'optimizers.penalty_controller()'),
}


def check_axes(**axes: Any) -> None:
    """Refuses arguments that are not the record of their axis; `None` stands for a default.

    Raises:
      TypeError: that names the argument and a function that makes what it wants.
    """
    for name, axis in axes.items():
        record, maker = _MAKERS[name]
        is_fed = name != 'entropy_weight' or getattr(axis, 'signal', None) is not None
        if axis is not None and not (isinstance(axis, record) and is_fed):
            raise TypeError(
                f'`{name}` must be made by a function like tfp_adaptive.{maker}; got {axis!r}.'
            )


class GradientAdaptiveKernel(base.SamplerKernel):
    """Base class of kernels that are one choice for every axis of `gradient_adaptive`."""

    def __init__(self, parameters: dict, axes: gradient_adaptive.Axes):
        """Initializes this kernel.

        Args:
          parameters: the subclass's constructor arguments by name.
          axes: the composition.
        """
        super().__init__(parameters, gradient_adaptive.adaptive_sampler(axes))
        self._axes = axes

    @property
    def is_calibrated(self) -> bool:
        """`True`: each step is a Metropolis-Hastings step, exact once adaptation has ended."""
        return True

    def takes_factor(self, target: LogDensity) -> bool:
        """Whether the preconditioner can start as a dense factor.

        Args:
          target: on packed positions.
        """
        return getattr(resolve(self._axes.preconditioner, target.event), 'takes_factor', False)

    def first_preconditioner(self, target: LogDensity, stable_scale: Tensor) -> Any:
        """Parameters of the preconditioner before anything is learned.

        Args:
          target: on packed positions.
          stable_scale: a stable proposal of every coordinate, [D]; or of all together, a lower
            triangular [D, D], if it `takes_factor`.
        """
        guess = self._axes.proposal.stable_fraction * stable_scale
        preconditioner = self._axes.preconditioner
        return initial_parameters(preconditioner, target.event, guess.dtype, guess)

    def frozen(self, kernel_results: base.KernelResults) -> frozen.FrozenKernel:
        """The learned proposal as a kernel of its own, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up.

        Returns:
          A `FrozenKernel` with the preconditioner and step size of `kernel_results`.

        Raises:
          TypeError: if `kernel_results` are not those of a kernel of this package.
        """
        if not isinstance(kernel_results, base.KernelResults):
            raise TypeError(
                '`kernel_results` must be results of this kernel, such as '
                '`final_kernel_results` of the warm-up; a wrapping kernel keeps them in its '
                f'`inner_results`. Got {type(kernel_results).__name__}.'
            )
        return frozen.FrozenKernel(
            self.target_log_prob_fn,
            self._axes.proposal,
            self._axes.preconditioner,
            kernel_results.adaptation.preconditioner,
            step_size=kernel_results.step_size,
            name=self._parameters['name'],
        )
