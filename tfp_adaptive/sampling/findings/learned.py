"""What warm-up has learned, in a form to look at."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import packing
from tfp_adaptive.kernels import FrozenKernel, geometry
from tfp_adaptive.kernels.windowed_nuts import FrozenNUTS
from tfp_adaptive.typing import Preconditioner

_BLOCK_SIZE = 256


@dataclasses.dataclass(frozen=True)
class LearnedProposal:
    """The proposal with factor F = step_size * C, in the coordinates of the sampler, packed to D.

    C C^T is what HMC calls the inverse mass matrix; a random walk proposes increments of covariance
    F F^T. Where learning succeeded, C C^T is about proportional to the covariance of the target.

    Attributes:
      step_size: scalar, or one value per chain.
      parameters: parameters of the preconditioner as NumPy arrays: [D] the diagonal of C, [D, D]
        the lower triangle, or what the family documents.
      event_size: D.
      preconditioner: `typing.Preconditioner`, the family of C.

    Example:
      >>> run.learned.covariance().shape
      (3, 3)
    """

    step_size: Any
    parameters: Any
    event_size: int
    preconditioner: Preconditioner

    def __repr__(self) -> str:
        """What fits on a line."""
        scale = self.scale()
        step_size = np.array2string(np.asarray(self.step_size), precision=3, threshold=5)
        return (
            f'LearnedProposal(step_size={step_size}, event_size={self.event_size}, scales from '
            f'{scale.min():.3g} to {scale.max():.3g})'
        )

    def at(self, parameters: Any) -> 'LearnedProposal':
        """The same family with other parameters, such as those of an earlier step.

        Args:
          parameters: shaped like `parameters`.

        Returns:
          A `LearnedProposal`.

        Example:
          >>> first = run.learned.at(run.warmup_preconditioner[0])
        """
        return dataclasses.replace(self, parameters=parameters)

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
        product = self._apply('forward', self._apply('transpose', rows))
        return np.reshape(product, np.shape(x))

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
        rows = [self._apply('transpose', rows) for rows in self._unit_vectors()]
        return np.concatenate([np.linalg.norm(block, axis=1) for block in rows])

    def _apply(self, operation, rows) -> np.ndarray:
        parameters = tf.nest.map_structure(tf.convert_to_tensor, self.parameters)
        dtype = tf.nest.flatten(parameters)[0].dtype
        prepared = self.preconditioner.prepare(parameters)
        return getattr(self.preconditioner, operation)(prepared, tf.cast(rows, dtype)).numpy()

    def _unit_vectors(self):
        for i in range(0, self.event_size, _BLOCK_SIZE):
            size = min(_BLOCK_SIZE, self.event_size - i)
            yield np.eye(size, self.event_size, k=i)


def learned_proposal(kernel: Any, layout: packing.Layout) -> LearnedProposal | None:
    """The learned proposal of a kernel.

    Args:
      kernel: that drew.
      layout: of its state.

    Returns:
      `None` for preconditioners that are not linear maps, and for kernels that have learned none.
    """
    if isinstance(kernel, FrozenNUTS):
        preconditioner = kernel.parameters['metric'].preconditioner
    elif isinstance(kernel, FrozenKernel):
        preconditioner = kernel.parameters['preconditioner']
    else:
        return None
    preconditioner = geometry.resolve(preconditioner, layout.event)
    if not isinstance(preconditioner, Preconditioner):
        return None
    parameters = kernel.parameters['parameters_of_preconditioner']
    return LearnedProposal(
        step_size=np.asarray(kernel.parameters['step_size']),
        parameters=tf.nest.map_structure(np.asarray, parameters),
        event_size=layout.event_size,
        preconditioner=preconditioner,
    )
