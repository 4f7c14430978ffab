"""Bijectors of TFP 0.25 that are mended while a model is evaluated.

Those of positive and bounded parts choose by `tf.where` between two formulas, one of which
overflows above 88 in float32, and its gradient is then NaN though the other is chosen. The softplus
has a custom gradient against it. A `JointDistribution...AutoBatched` maps bijectors over chains by
`tf.vectorized_map`, which drops custom gradients, and so has none at any scale, count or capacity
in raw units. The sigmoid has none anywhere.

That of Wishart distributions takes the softplus of the diagonal of the Cholesky factor twice. So
none of its entries can be below log 2, and a smaller covariance would be cut off without a word.
Wishart and LKJ distributions whose draws are Cholesky factors have the density of the matrix, with
whose volume the bijector must count; and that of LKJ distributions counts the diagonal of ones as
if it were free.

That of distributions on a sphere reaches its positive orthant alone.

That of `tfd.Sample` of an independent set of n positive or bounded numbers counts its Jacobian as
often as the set is repeated.

Positive parts go through the softplus, in most distributions of TFP. Above one it is as good as a
straight line, and a part whose law is wide there keeps the long tail, or the peak at zero, that it
has: the degrees of freedom of a Student-t regression take 51 times as many gradients as by the
logarithm, the length scale of a Gaussian process 2.7 times as many.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability.python.bijectors import sigmoid as sigmoid_module
from tensorflow_probability.python.bijectors import softplus as softplus_module

from tfp_adaptive.internal.replaced import replaced

tfb, tfd = tfp.bijectors, tfp.distributions


def softplus(x: tf.Tensor) -> tf.Tensor:
    """log(1 + exp(x)), with full relative precision where it is small."""
    x = tf.convert_to_tensor(x)
    cutoff = _cutoff(x.dtype)
    small = tf.math.log1p(tf.exp(tf.minimum(x, cutoff)))
    return tf.where(x < cutoff, small, tf.nn.softplus(x))


def sigmoid(x: tf.Tensor) -> tf.Tensor:
    """1 / (1 + exp(-x)), likewise."""
    x = tf.convert_to_tensor(x)
    cutoff = _cutoff(x.dtype)
    return tf.where(x < cutoff, tf.exp(tf.minimum(x, cutoff)), tf.math.sigmoid(x))


def _cutoff(dtype):
    """Below it TFP takes the first formula, and so does this module."""
    return tf.constant(-20.0 if dtype == tf.float64 else -9.0, dtype)


class _OntoMatrices(tfp.bijectors.Bijector):
    """By way of Cholesky factors, with the volume of the matrices whether or not these are draws.

    Parameters by the names of the constructor:
      factor: bijector onto factors.
      log_volume: L -> log-determinant of L -> L L^T on what is free.
      is_factor: whether L itself is the draw.
      dtype: of draws.
    """

    def __init__(self, factor, log_volume, is_factor, dtype):
        """Initializes this bijector."""
        parameters = dict(locals())
        self._factor, self._log_volume, self._is_factor = factor, log_volume, is_factor
        super().__init__(
            forward_min_event_ndims=1, inverse_min_event_ndims=2, dtype=dtype, parameters=parameters
        )

    def _forward(self, x):
        factor = self._factor.forward(x)
        return factor if self._is_factor else tf.linalg.matmul(factor, factor, transpose_b=True)

    def _inverse(self, y):
        return self._factor.inverse(y if self._is_factor else tf.linalg.cholesky(y))

    def _forward_log_det_jacobian(self, x):
        log_det = self._factor.forward_log_det_jacobian(x, event_ndims=1)
        return log_det + self._log_volume(self._factor.forward(x))

    def _forward_event_shape(self, input_shape):
        return self._factor.forward_event_shape(input_shape)

    def _inverse_event_shape(self, output_shape):
        return self._factor.inverse_event_shape(output_shape)


def of_wishart(distribution: Any) -> Any:
    """From the real line to the support of a Wishart distribution.

    Args:
      distribution: it; the factors may be its own parts.
    """
    return _OntoMatrices(
        tfb.FillScaleTriL(diag_shift=None),
        lambda factor: tfb.CholeskyOuterProduct().forward_log_det_jacobian(factor, event_ndims=2),
        distribution.input_output_cholesky,
        distribution.dtype,
    )


def of_lkj(distribution: Any) -> Any:
    """From the real line to correlation matrices.

    Args:
      distribution: `tfd.LKJ`; the factors may be its own parts.
    """
    return _OntoMatrices(
        tfb.CorrelationCholesky(),
        _log_volume_of_correlations,
        distribution.input_output_cholesky,
        distribution.dtype,
    )


def _log_volume_of_correlations(factor):
    """L_jj enters the correlations of all later rows with row j."""
    weights = tf.cast(tf.range(factor.shape[-1] - 1, -1, -1), factor.dtype)
    return tf.reduce_sum(weights * tf.math.log(tf.linalg.diag_part(factor)), axis=-1)


def of_sphere(distribution: Any) -> Any:
    """From the real line to all of a sphere.

    Args:
      distribution: on it.
    """
    del distribution
    return tfb.UnitVector()


_of_sample_in_tfp = tfd.Sample._default_event_space_bijector


def of_sample(distribution: Any) -> Any:
    """From the real line to the support of a sample.

    Args:
      distribution: it, of a distribution whose coordinates may be bounded one by one.
    """
    each = distribution.distribution
    bijector = each.experimental_default_event_space_bijector()
    event_rank = each.event_shape.rank
    if bijector is None or bijector.forward_min_event_ndims or not event_rank:
        return _of_sample_in_tfp(distribution)
    if bijector.experimental_batch_shape().rank <= event_rank:
        return bijector
    # bounds that differ between chains are the same for all in a sample
    of_sample = (tf.newaxis,) * int(np.size(tf.get_static_value(distribution.sample_shape)))
    return bijector[(..., *of_sample, *(slice(None),) * event_rank)]


_of_any_in_tfp = tfd.Distribution.experimental_default_event_space_bijector


def in_logs(distribution: Any) -> Any:
    """From the real line to the support of a distribution, with an exponential for a softplus.

    The bijector of a `TransformedDistribution` is what its user has chosen, and stays.

    Args:
      distribution: it.
    """
    bijector = _of_any_in_tfp(distribution)
    *outer, first = bijector.bijectors if isinstance(bijector, tfb.Chain) else [bijector]
    is_chosen = type(distribution) is tfd.TransformedDistribution
    if is_chosen or not isinstance(first, tfb.Softplus) or first.hinge_softness is not None:
        return bijector
    shift = [] if first.low is None else [tfb.Shift(first.low)]
    return tfb.Chain([*outer, *shift, tfb.Exp()]) if outer or shift else tfb.Exp()


_ON_SPHERES = (tfd.VonMisesFisher, tfd.PowerSpherical, tfd.SphericalUniform)
_IN_LOGS = (tfd.Distribution, 'experimental_default_event_space_bijector', in_logs)
_REPLACED: tuple[tuple[Any, str, Callable], ...] = (
    (softplus_module, '_stable_grad_softplus', softplus),
    (sigmoid_module, '_stable_grad_softplus', softplus),
    (sigmoid_module, '_stable_sigmoid', sigmoid),
    (tfd.WishartLinearOperator, '_default_event_space_bijector', of_wishart),
    (tfd.LKJ, '_default_event_space_bijector', of_lkj),
    *((kind, '_default_event_space_bijector', of_sphere) for kind in _ON_SPHERES),
    (tfd.Sample, '_default_event_space_bijector', of_sample),
)


@contextlib.contextmanager
def mended(takes_logs: bool = False) -> Iterator[None]:
    """While it lasts, bijectors of TFP are those above.

    Args:
      takes_logs: whether `in_logs` is among them. Default `False`.
    """
    with replaced([*_REPLACED, *([_IN_LOGS] if takes_logs else [])]):
        yield
