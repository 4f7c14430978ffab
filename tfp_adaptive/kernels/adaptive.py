"""What all gradient-adaptive kernels share beside their step."""

from tfp_adaptive.kernels import base, frozen, gradient_adaptive


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

    def frozen(self, kernel_results: base.KernelResults) -> frozen.FrozenKernel:
        """The learned proposal as a kernel of its own, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up.

        Returns:
          A `FrozenKernel` with the preconditioner and step size of `kernel_results`.
        """
        return frozen.FrozenKernel(
            self.target_log_prob_fn,
            self._axes.proposal,
            self._axes.preconditioner,
            kernel_results.adaptation.preconditioner,
            step_size=kernel_results.step_size,
            name=self._parameters['name'],
        )
