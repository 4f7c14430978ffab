"""What warm-up has learned, in a form to look at."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.kernels import FrozenKernel
from tfp_adaptive.typing import Preconditioner

_BLOCK_SIZE = 256


@dataclass(frozen=True)
class LearnedProposal:
    """The proposal with factor F = step_size * C, in the coordinates of the sampler, packed to D.

    C C^T is what HMC calls the inverse mass matrix; a random walk proposes increments of covariance
    F F^T. Where learning succeeded, C C^T is about proportional to the covariance of the target.

    Attributes:
      step_size: scalar, or one value per chain.
      parameters: parameters of the preconditioner as NumPy arrays: [D] the diagonal of C, [D, D]
        the lower triangle, or what the family documents.
      event_size: D.
      factor_matvec: x [M, D] -> C x, row by row.
      factor_transpose_matvec: x [M, D] -> C^T x, row by row.

    Example:
      >>> run.learned.covariance().shape
      (3, 3)
    """

    step_size: Any
    parameters: Any
    event_size: int
    factor_matvec: Callable
    factor_transpose_matvec: Callable

    def covariance_matvec(self, x: Any) -> np.ndarray:
        """C C^T x, row by row, without forming C C^T.

        Args:
          x: [M, D] or [D].

        Returns:
          An array shaped like `x`.

        Example:
          >>> run.learned.covariance_matvec(np.ones([3])).shape
          (3,)
        """
        rows = np.reshape(x, [-1, self.event_size])
        return np.reshape(self.factor_matvec(self.factor_transpose_matvec(rows)), np.shape(x))

    def covariance(self) -> np.ndarray:
        """C C^T, shape [D, D].

        Returns:
          A symmetric matrix; for large D mind its size.

        Example:
          >>> run.learned.covariance().shape
          (3, 3)
        """
        return np.concatenate([self.covariance_matvec(rows) for rows in self._unit_vectors()])

    def scale(self) -> np.ndarray:
        """Square roots of the diagonal of C C^T, shape [D]: how the coordinates' steps compare.

        Returns:
          Positive numbers, in the units of the coordinates.

        Example:
          >>> run.learned.scale().shape
          (3,)
        """
        rows = [self.factor_transpose_matvec(rows) for rows in self._unit_vectors()]
        return np.concatenate([np.linalg.norm(block, axis=1) for block in rows])

    def _unit_vectors(self):
        for i in range(0, self.event_size, _BLOCK_SIZE):
            size = min(_BLOCK_SIZE, self.event_size - i)
            yield np.eye(size, self.event_size, k=i)


def learned_proposal(kernel: Any, event_size: int) -> LearnedProposal | None:
    """The learned proposal of a frozen kernel of this package.

    Args:
      kernel: any kernel.
      event_size: D.

    Returns:
      `None` for other kernels, and for preconditioners that are not linear maps.
    """
    if not isinstance(kernel, FrozenKernel):
        return None
    preconditioner = kernel.parameters['preconditioner']
    if not isinstance(preconditioner, Preconditioner):
        return None
    parameters = kernel.parameters['parameters_of_preconditioner']
    dtype = tf.nest.flatten(parameters)[0].dtype

    def apply(operation):
        return lambda rows: operation(parameters, tf.cast(rows, dtype)).numpy()

    return LearnedProposal(
        step_size=np.asarray(kernel.parameters['step_size']),
        parameters=tf.nest.map_structure(np.asarray, parameters),
        event_size=event_size,
        factor_matvec=apply(preconditioner.forward),
        factor_transpose_matvec=apply(preconditioner.transpose),
    )
