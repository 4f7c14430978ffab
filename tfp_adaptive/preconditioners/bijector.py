"""Any bijector as a non-linear preconditioner: q = f(z), HMC with unit mass on z."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.typing import Flow


def bijector(bijector_fn: Callable[[Any], Any], initial_parameters: Any, unit: Any = 1.0) -> Flow:
    """A family of `tfp.bijectors.Bijector`s with explicit parameters.

    The map is learned where a matrix C would be: the entropy of the proposal is log|det Df| at its
    end point. The chain is exact for any parameters.

    With L > 1 learning takes third derivatives of the map, and XLA lacks those of slices: a chain
    of `tfp.bijectors.RealNVP`s then fails to compile ("gradient registry has no entry for:
    XlaDynamicUpdateSlice"). Run it without `jit_compile`, or take L = 1 or `real_nvp`.

    Args:
      bijector_fn: parameters -> a bijector of vectors of size D, differentiable in parameters and
        input; called anew wherever the map is needed, so it must create no variables.
      initial_parameters: nest of arrays or tensors, or a callable (event_size, dtype, scale) ->
        nest of them, where `scale` is a scalar guess of a safe proposal scale.
      unit: how far a step of one moves an entry of the parameters: a scalar, or a nest like the
        parameters. The default optimizer begins with steps of 0.03. Default 1.

    Returns:
      A `Flow`, to be given as `preconditioner`.

    Raises:
      TypeError: if `bijector_fn` is not callable or, at bootstrap, returns no bijector.
      ValueError: at bootstrap, if a bijector does not keep the size of a vector, or `unit` is no
        nest like the parameters.

    Reference: Hirt, Titsias & Dellaportas (2021), Appendix C.

    Example:
      >>> flow = tfpa.preconditioners.bijector(
      ...     lambda p: tfp.bijectors.Chain([
      ...         tfp.bijectors.Shift(p['shift']), tfp.bijectors.Scale(log_scale=p['log_scale'])]),
      ...     {'shift': tf.zeros([3]), 'log_scale': tf.fill([3], -1.0)})
      >>> kernel = tfpa.EntropyAdaptiveHMC(
      ...     target_log_prob_fn, num_leapfrog_steps=2, num_adaptation_steps=500,
      ...     preconditioner=flow)
    """
    if not callable(bijector_fn) or isinstance(bijector_fn, tfp.bijectors.Bijector):
        raise TypeError(
            '`bijector_fn` must be a callable that makes a bijector from parameters; '
            f'got {type(bijector_fn).__name__}.'
        )

    def init(event_size, dtype, scale):
        given = initial_parameters
        if callable(given):
            given = given(event_size, dtype, scale)
        _check_unit(unit, given)
        return tf.nest.map_structure(lambda x: tf.cast(x, dtype), given)

    def forward(parameters, z):
        # a value that came out of a bijector would hit its cache, which no tape sees
        z = tf.identity(z)
        transform = _check_transform(bijector_fn(parameters), z)
        volume = transform.forward_log_det_jacobian(z, event_ndims=1)
        return transform.forward(z), volume + tf.zeros_like(z[..., 0])

    def retract(parameters, tangent):
        units = unit
        if not tf.nest.is_nested(units):
            units = tf.nest.map_structure(lambda _: unit, parameters)
        return tf.nest.map_structure(
            lambda x, step, size: x + tf.cast(size, x.dtype) * step, parameters, tangent, units
        )

    return Flow(
        init=init,
        forward=forward,
        inverse=lambda parameters, q: bijector_fn(parameters).inverse(tf.identity(q)),
        retract=retract,
    )


def _check_unit(unit, parameters) -> None:
    if not tf.nest.is_nested(unit):
        return
    try:
        tf.nest.assert_same_structure(unit, parameters)
    except (TypeError, ValueError):
        raise ValueError(
            f'`unit` must be a scalar or a nest like the parameters; got {unit!r}.'
        ) from None


def _check_transform(transform, z):
    """The bijector, if it is one of vectors of the size of z [C, D]."""
    if not isinstance(transform, tfp.bijectors.Bijector):
        raise TypeError(
            '`bijector_fn` must return a tfp.bijectors.Bijector; '
            f'got {type(transform).__name__} {transform!r}.'
        )
    shape = transform.forward_event_shape(z.shape)
    if not shape.is_compatible_with(z.shape):
        raise ValueError(
            '`bijector_fn` must return a bijector of vectors that keeps their size; got one from '
            f'{z.shape[-1]} to {shape[-1]} coordinates.'
        )
    return transform
